//! Tells the cluster what was refused, so that it is seen where people look for a lock (`palisade who`, `top`, `audit`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use axum::http::Request;
use palisade_core::ids::GuardName;
use palisade_core::rejections::{Above, Rejections};
use palisade_fence::tally::Tally;
use serde_json::{Value, json};

use crate::http::send;

/// Between two reports. Whatever was refused meanwhile is summed up.
const EVERY: Duration = Duration::from_secs(1);

/// Reports for as long as the service runs. No write waits for it.
pub(crate) fn keep(endpoints: Vec<String>, guard: GuardName, tally: Arc<Tally>) {
    tokio::spawn(async move {
        let mut untold = Rejections::default();
        loop {
            tokio::time::sleep(EVERY).await;
            untold.add(tally.take_rejections());
            if untold.is_empty() {
                continue;
            }
            match tell(&endpoints, &document(&guard, &untold)).await {
                Ok(()) => untold = Rejections::default(),
                Err(error) => eprintln!("what was refused is not reported yet: {error:#}"),
            }
        }
    });
}

async fn tell(endpoints: &[String], report: &Value) -> anyhow::Result<()> {
    let mut failed = anyhow!("no endpoints");
    for address in endpoints {
        let request = Request::post("/v1/rejections").header("content-type", "application/json");
        match send(address, request.body(report.to_string())?).await {
            Ok((200, _)) => return Ok(()),
            Ok((status, body)) => failed = anyhow!("{address}: {status} {body}"),
            Err(error) => failed = error.context(address.clone()),
        }
    }
    Err(failed)
}

fn document(guard: &GuardName, rejections: &Rejections) -> Value {
    let stale = rejections.stale.iter().map(|(holder, refused)| {
        json!({
            "lock": holder.lock,
            "slot": holder.slot.0,
            "client": holder.client.as_ref().map_or("", |client| client.as_str()),
            "session": holder.acquisition.map(|acquisition| acquisition.session.0.to_string()),
            "number": holder.acquisition.map(|acquisition| acquisition.number.0.to_string()),
            "presented": holder.presented.to_string(),
            "mark": refused.mark.to_string(),
            "by_floor": refused.above == Above::Floor,
            "count": refused.count.to_string(),
        })
    });
    let others = rejections
        .others
        .iter()
        .map(|(reason, count)| json!({ "reason": reason.word(), "count": count.to_string() }));
    json!({
        "guard": guard,
        "stale": stale.collect::<Vec<_>>(),
        "unnamed": rejections.unnamed.to_string(),
        "others": others.collect::<Vec<_>>(),
    })
}
