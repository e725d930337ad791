//! The calls below `/v1`. Each becomes a request of the protocol and goes the way of gRPC's single calls; nothing is
//! decided here.

mod holder;
mod operators;
mod past;
mod rejections;
mod watch;

use std::time::Duration;

use axum::Router as Routes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use palisade_proto::convert::{json, refusal, words};
use palisade_proto::v1::{self, request, response};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::asked::{self, Wide, hex};
use super::body::{Problem, asked, document, queried, unknown};
use crate::door::Door;
use crate::{error, single, status};

/// How long a call for a lock waits, where it does not say.
const POLL_DEFAULT: Duration = Duration::from_secs(30);
/// At most: proxies cut what is silent for longer.
const POLL_MAX: Duration = Duration::from_secs(60);

type Answer = Result<Response, Problem>;

pub(super) fn routes(door: Door) -> Routes {
    Routes::new()
        .route("/sessions", get(sessions))
        .route("/sessions/open", post(open))
        .route("/sessions/keepalive", post(keepalive))
        .route("/sessions/close", post(close))
        .route("/locks", get(locks))
        .route("/locks/who", get(who))
        .route("/locks/acquire", post(acquire))
        .route("/locks/release", post(release))
        .route("/locks/cancel", post(cancel))
        .route("/locks/downgrade", post(holder::downgrade))
        .route("/locks/hand_over", post(holder::hand_over))
        .route("/locks/metadata", post(holder::set_metadata))
        .route("/locks/baton", post(holder::set_baton))
        .route("/locks/progress", post(holder::report_progress))
        .route("/sequencers/get", post(sequencer))
        .route("/sequencers/check", post(check))
        .route("/watch", get(watch::stream))
        .route("/events", get(watch::poll))
        .route("/history", get(past::history))
        .route("/audit", get(past::audit))
        .route("/operators/break", post(operators::break_lock))
        .route("/operators/end_session", post(operators::end_session))
        .route("/operators/capacity", post(operators::set_capacity))
        .route("/operators/delay_rule", post(operators::set_delay_rule))
        .route("/operators/settings", get(operators::settings).post(operators::set_settings))
        .route("/guards/confirm", post(operators::confirm_floor))
        .route("/rejections", get(rejections::list).post(rejections::report))
        .route("/status", get(show_status))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(door)
}

async fn open(State(door): State<Door>, request: Request) -> Answer {
    let open: asked::Open = asked(&door, request).await?;
    let secret_hash = open.secret.as_ref().map(|secret| Sha256::digest(&secret.0).to_vec());
    let message = v1::OpenSession {
        ttl_ms: open.ttl_ms.0,
        client: open.client,
        secret_hash: secret_hash.unwrap_or_default(),
        replaces: open.replaces.map(|replaced| v1::Replaces {
            session: replaced.session.0,
            secret: replaced.secret.0,
            proven_dead: replaced.proven_dead,
        }),
    };
    let answer = single::call(&door, None, request::Op::Open(message), None).await?;
    let response::Result::Opened(opened) = answer.result else { return Err(unexpected()) };
    let secret = open.secret.map_or(opened.secret, |secret| secret.0);
    let answer = json!({
        "session": json::wide(opened.session),
        "ttl_ms": json::wide(opened.ttl_ms),
        "secret": hex(&secret),
        "took_over": opened.took_over.as_ref().map(json::took_over),
    });
    Ok(document(StatusCode::OK, &answer))
}

async fn keepalive(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::OfSession = asked(&door, request).await?;
    let renewed = single::keep_alive(&door, of.session.0, of.secret.0).await?;
    if let Some(ended) = renewed.ended.first() {
        return Err(Problem(match words::ended_from(ended.ended) {
            Some(how) => refusal::session_ended(how),
            // Its expiry is being decided.
            None => error::overloaded(),
        }));
    }
    Ok(document(StatusCode::OK, &json!({ "session": json::wide(of.session.0), "renewed": true })))
}

async fn close(State(door): State<Door>, request: Request) -> Answer {
    let of: asked::OfSession = asked(&door, request).await?;
    let op = request::Op::Close(v1::CloseSession {});
    single::call(&door, Some((of.session.0, of.secret.0)), op, None).await?;
    Ok(document(StatusCode::OK, &json!({ "session": json::wide(of.session.0), "closed": true })))
}

/// Granted, or after `poll_ms` a place in the queue: the call is then repeated, as it was and under its number.
async fn acquire(State(door): State<Door>, request: Request) -> Answer {
    let acquire: asked::Acquire = asked(&door, request).await?;
    let patience = acquire.poll_ms.map_or(POLL_DEFAULT, |Wide(ms)| Duration::from_millis(ms)).min(POLL_MAX);
    let session = Some((acquire.session.0, acquire.secret.0.clone()));
    let op = request::Op::Acquire(acquire.message()?);
    let answer = single::call(&door, session, op, Some(patience)).await?;
    let (status, mut shown) = match &answer.result {
        response::Result::Granted(grant) => (StatusCode::OK, json::grant(grant)),
        response::Result::Queued(queued) => (StatusCode::ACCEPTED, json::queued(queued)),
        _ => return Err(unexpected()),
    };
    shown["renewed"] = answer.renewed.into();
    Ok(document(status, &shown))
}

async fn release(State(door): State<Door>, request: Request) -> Answer {
    let release: asked::Release = asked(&door, request).await?;
    let session = release.session.0;
    let message = v1::Release {
        acquisition: Some(v1::AcquisitionId { session, number: release.number.0 }),
        lock: release.lock,
        slot: release.slot,
        token: release.token.0,
    };
    let op = request::Op::Release(message);
    let answer = single::call(&door, Some((session, release.secret.0)), op, None).await?;
    let response::Result::Released(released) = answer.result else { return Err(unexpected()) };
    let answer = json!({ "ended": words::ended_word(released.ended), "renewed": answer.renewed });
    Ok(document(StatusCode::OK, &answer))
}

async fn cancel(State(door): State<Door>, request: Request) -> Answer {
    let cancel: asked::Cancel = asked(&door, request).await?;
    let op = request::Op::Cancel(v1::Cancel { number: cancel.number.0 });
    let answer = single::call(&door, Some((cancel.session.0, cancel.secret.0)), op, None).await?;
    let response::Result::Cancelled(cancelled) = answer.result else { return Err(unexpected()) };
    let was = match cancelled.was() {
        v1::cancelled::Was::NotArrived => "not_arrived",
        v1::cancelled::Was::Waiting => "waiting",
        v1::cancelled::Was::Holding => "holding",
        v1::cancelled::Was::Ended => "ended",
        v1::cancelled::Was::Unspecified => "unknown",
    };
    let ended = words::ended_word(cancelled.ended);
    Ok(document(StatusCode::OK, &json!({ "was": was, "ended": ended, "renewed": answer.renewed })))
}

async fn sequencer(State(door): State<Door>, request: Request) -> Answer {
    let get: asked::Sequencer = asked(&door, request).await?;
    let session = get.session.0;
    let message = v1::GetSequencer {
        acquisition: Some(v1::AcquisitionId { session, number: get.number.0 }),
        lock: get.lock,
        slot: get.slot,
    };
    let op = request::Op::Sequencer(message);
    let answer = single::call(&door, Some((session, get.secret.0)), op, None).await?;
    let response::Result::Sequencer(answer) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json!({ "sequencer": answer.sequencer })))
}

/// A verdict that this node's own state settles needs no leader.
async fn check(State(door): State<Door>, request: Request) -> Answer {
    let check: asked::Check = asked(&door, request).await?;
    let what = Some(v1::check_item::What::Sequencer(check.sequencer));
    let items = vec![v1::CheckItem { what, lock: check.lock }];
    let answer = single::check(&door, v1::Check { items }).await?;
    let verdict = answer.verdicts.first().ok_or_else(unexpected)?;
    Ok(document(StatusCode::OK, &json::verdict(verdict)))
}

async fn who(State(door): State<Door>, uri: Uri) -> Answer {
    let who: asked::Who = queried(&uri)?;
    let op = request::Op::GetLock(v1::GetLock { lock: who.name });
    let answer = single::call(&door, None, op, None).await?;
    let response::Result::Lock(view) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::lock(&view)))
}

async fn locks(State(door): State<Door>, uri: Uri) -> Answer {
    let list: asked::Locks = queried(&uri)?;
    let message = v1::ListLocks { prefix: list.prefix, limit: list.limit, after: list.after };
    let answer = single::call(&door, None, request::Op::ListLocks(message), None).await?;
    let response::Result::Locks(list) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::locks(&list)))
}

async fn sessions(State(door): State<Door>, uri: Uri) -> Answer {
    let list: asked::Sessions = queried(&uri)?;
    let message = v1::ListSessions { client: list.client, limit: list.limit, after: list.after.0 };
    let answer = single::call(&door, None, request::Op::ListSessions(message), None).await?;
    let response::Result::Sessions(list) = answer.result else { return Err(unexpected()) };
    Ok(document(StatusCode::OK, &json::sessions(&list)))
}

async fn show_status(State(door): State<Door>, uri: Uri) -> Answer {
    let asked: asked::Status = queried(&uri)?;
    let status = status::cluster(&door.coordinator, &door.router, &door.replica, asked.local).await;
    Ok(document(StatusCode::OK, &json::status(&status)))
}

fn unexpected() -> Problem {
    Problem(error::defect("the answer is of another kind than the question"))
}
