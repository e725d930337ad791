//! What resources report of what they refused.

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use palisade_proto::convert::json;
use palisade_proto::v1::{self, request::Op, response};
use serde_json::json;

use super::super::asked;
use super::super::body::{asked, document, queried};
use super::{Answer, unexpected};
use crate::door::{Door, client_of};
use crate::single;

pub(super) async fn report(State(door): State<Door>, request: Request) -> Answer {
    let client = client_of(request.extensions());
    let of: asked::ReportRejections = asked(&door, request).await?;
    door.admit_reports(client, 1)?;
    let answer = single::call(&door, None, Op::ReportRejections(of.into()), None).await?;
    let response::Result::ReportTaken(v1::ReportTaken {}) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json!({ "taken": true })))
}

pub(super) async fn list(State(door): State<Door>, uri: Uri) -> Answer {
    let of: asked::ListRejections = queried(&uri)?;
    let list = v1::ListRejections { prefix: of.prefix, since_us: of.since_us.0, limit: of.limit };
    let answer = single::call(&door, None, Op::ListRejections(list), None).await?;
    let response::Result::Rejections(list) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::rejections(&list)))
}
