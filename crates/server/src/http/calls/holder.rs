//! What a holder asks beside acquire, release and cancel.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use palisade_proto::convert::json;
use palisade_proto::v1::{self, request::Op, response};
use serde_json::json;

use super::super::asked;
use super::super::body::{asked, document};
use super::{Answer, unexpected};
use crate::door::Door;
use crate::single;

/// The grant is a new one, under a new token.
pub(super) async fn downgrade(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::Downgrade = asked(&door, request).await?;
    let session = of.session.0;
    let acquisition = Some(v1::AcquisitionId { session, number: of.number.0 });
    let op = Op::Downgrade(v1::Downgrade { acquisition, lock: of.lock, token: of.token.0 });
    let answer = single::call(&door, Some((session, of.secret.0)), op, None).await?;
    let response::Result::Downgraded(v1::Downgraded { grant: Some(grant) }) = &answer.result else {
        return Err(unexpected());
    };
    let mut shown = json::grant(grant);
    shown["renewed"] = answer.renewed.into();
    Ok(document(StatusCode::OK, &shown))
}

pub(super) async fn hand_over(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::HandOver = asked(&door, request).await?;
    let session = of.session.0;
    let message = v1::HandOver {
        acquisition: Some(v1::AcquisitionId { session, number: of.number.0 }),
        lock: of.lock,
        slot: of.slot,
        token: of.token.0,
        to: of.to.0,
    };
    let answer = single::call(&door, Some((session, of.secret.0)), Op::HandOver(message), None).await?;
    let (to, token) = match &answer.result {
        response::Result::HandedOver(handed) => (handed.to, Some(json::wide(handed.token))),
        // A repeat: it is another's already, or was.
        response::Result::Released(_) => (None, None),
        _ => return Err(unexpected()),
    };
    let to = to.map(|to| json!({ "session": json::wide(to.session), "number": json::wide(to.number) }));
    let shown = json!({ "to": to, "token": token, "renewed": answer.renewed });
    Ok(document(StatusCode::OK, &shown))
}

pub(super) async fn set_metadata(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::SetMetadata = asked(&door, request).await?;
    let session = of.session.0;
    let op = Op::SetMetadata(v1::SetMetadata {
        acquisition: Some(v1::AcquisitionId { session, number: of.number.0 }),
        token: of.token.0,
        revision: of.revision.0,
        metadata: of.metadata.0,
    });
    written(&door, (session, of.secret.0), op).await
}

pub(super) async fn set_baton(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::SetBaton = asked(&door, request).await?;
    let session = of.session.0;
    let op = Op::SetBaton(v1::SetBaton {
        acquisition: Some(v1::AcquisitionId { session, number: of.number.0 }),
        lock: of.lock,
        slot: of.slot,
        token: of.token.0,
        revision: of.revision.0,
        baton: of.baton.0,
    });
    written(&door, (session, of.secret.0), op).await
}

async fn written(door: &Door, session: (u64, Vec<u8>), op: Op) -> Answer {
    let answer = single::call(door, Some(session), op, None).await?;
    let response::Result::Written(written) = answer.result else { return Err(unexpected()) };
    let shown = json!({ "revision": json::wide(written.revision), "renewed": answer.renewed });
    Ok(document(StatusCode::OK, &shown))
}

pub(super) async fn report_progress(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::ReportProgress = asked(&door, request).await?;
    let session = of.session.0;
    let message = v1::ReportProgress {
        acquisition: Some(v1::AcquisitionId { session, number: of.number.0 }),
        token: of.token.0,
        number: of.report.0,
    };
    let op = Op::ReportProgress(message);
    let answer = single::call(&door, Some((session, of.secret.0)), op, None).await?;
    let response::Result::Reported(_) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json!({ "reported": true, "renewed": answer.renewed })))
}
