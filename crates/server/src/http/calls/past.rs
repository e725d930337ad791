//! What happened to locks, as it is remembered.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use palisade_proto::convert::json;
use palisade_proto::v1::{self, request::Op, response};

use super::super::asked;
use super::super::body::{document, queried};
use super::{Answer, unexpected};
use crate::door::Door;
use crate::single;

pub(super) async fn history(State(door): State<Door>, uri: Uri) -> Answer {
    let of: asked::History = queried(&uri)?;
    let name = of.name.clone();
    let get = v1::GetHistory { lock: of.name, limit: of.limit, before: of.before.0 };
    let answer = single::call(&door, None, Op::History(get), None).await?;
    let response::Result::History(page) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::history(&name, &page)))
}

pub(super) async fn audit(State(door): State<Door>, uri: Uri) -> Answer {
    let of: asked::Audit = queried(&uri)?;
    let get =
        v1::GetAudit { prefix: of.prefix, since_us: of.since_us.0, limit: of.limit, before: of.before.0 };
    let answer = single::call(&door, None, Op::Audit(get), None).await?;
    let response::Result::Audit(page) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::audit(&page)))
}
