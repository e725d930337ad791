//! What an operator asks, and the guards of resources.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use palisade_proto::convert::json;
use palisade_proto::v1::{self, request::Op, response};
use serde_json::{Value, json};

use super::super::asked;
use super::super::body::{asked, document};
use super::{Answer, unexpected};
use crate::door::Door;
use crate::single;

pub(super) async fn break_lock(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::BreakLock = asked(&door, request).await?;
    let answer = single::call(&door, None, Op::BreakLock(of.into()), None).await?;
    let response::Result::Broken(broken) = answer.result else { return Err(unexpected()) };
    let holders: Vec<Value> = broken.holders.iter().map(json::holder).collect();
    Ok(document(StatusCode::OK, &json!({ "holders": holders, "closed_ms": json::wide(broken.closed_ms) })))
}

pub(super) async fn end_session(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::EndSession = asked(&door, request).await?;
    let answer = single::call(&door, None, Op::EndSession(of.into()), None).await?;
    let response::Result::Stopped(stopped) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json!({ "held": stopped.held, "waited": stopped.waited })))
}

pub(super) async fn set_capacity(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::SetCapacity = asked(&door, request).await?;
    set(&door, Op::SetCapacity(of.into())).await
}

pub(super) async fn set_delay_rule(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::SetDelayRule = asked(&door, request).await?;
    set(&door, Op::SetDelayRule(of.into())).await
}

pub(super) async fn set_settings(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::SetSettings = asked(&door, request).await?;
    set(&door, Op::SetSettings(of.into())).await
}

async fn set(door: &Door, op: Op) -> Answer {
    let answer = single::call(door, None, op, None).await?;
    let response::Result::Set(v1::SettingsSet {}) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json!({ "set": true })))
}

pub(super) async fn settings(State(door): State<Door>) -> Answer {
    let answer = single::call(&door, None, Op::GetSettings(v1::GetSettings {}), None).await?;
    let response::Result::Settings(settings) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::settings(&settings)))
}

pub(super) async fn confirm_floor(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::ConfirmFloor = asked(&door, request).await?;
    let answer = single::call(&door, None, Op::ConfirmFloor(of.into()), None).await?;
    let response::Result::Confirmed(v1::Confirmed {}) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json!({ "confirmed": true })))
}
