//! `palisade top`: a screen of the cluster, its busiest locks and the holders that are in trouble.

use std::time::Duration;

use clap::Args;
use palisade_client::Client;
use palisade_proto::convert::json;
use palisade_proto::v1;
use palisade_proto::v1::slot_view::State;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::again::{AgainArgs, again};
use super::status::sentence;
use super::{Failure, client, view};
use crate::args::{Format, Globals, duration};
use crate::exit::Exit;
use crate::output::{Output, span, table};

const HEADER: [&str; 9] = ["LOCK", "TOKEN", "HOLDER", "HELD", "LEASE", "QUEUE", "PAUSE", "LEFT", "REFUSED"];
/// Stale holders that are asked for; more are not remembered by default.
const REJECTIONS: u32 = 1_000;
/// Stale holders that are shown below, those that do not stop first.
const REFUSED_SHOWN: usize = 10;
/// Steps of a bar.
const BAR: u64 = 10;

/// `palisade top`
#[derive(Debug, Args)]
#[command(
    after_help = "Most awaited locks first. PAUSE is the longest time that the holder's process stood still, LEFT the least that
was left of its belief in the lease when it sent a keepalive, both as it reported them; ! marks half a TTL. REFUSED is how
often resources refused stale holders of the lock, as they reported it to the present leader; whom is told below, and who
does not stop (STORM). Stop with Ctrl-C.

With -o json, or --once, it looks once. Exit codes: 0 healthy, 1 not healthy, 3 no answer in time."
)]
pub(crate) struct TopArgs {
    /// Between two looks
    #[arg(long, value_parser = duration, default_value = "1s")]
    pub(crate) every: Duration,
    /// Look once
    #[arg(long)]
    pub(crate) once: bool,
    /// Locks that are shown
    #[arg(long, default_value_t = 30)]
    pub(crate) limit: usize,
}

/// What one look sees.
struct Look {
    status: v1::StatusAnswer,
    locks: v1::LockList,
    sessions: v1::SessionList,
    rejections: v1::RejectionList,
    /// Entries that were committed a second since the look before.
    entries_per_second: Option<f64>,
}

pub(crate) async fn run(globals: &Globals, arguments: &TopArgs) -> Result<Exit, Failure> {
    let client = client(globals)?;
    let once = arguments.once || globals.output == Format::Json;
    let every = AgainArgs { watch: (!once).then_some(arguments.every) };
    let mut before: Option<(Instant, u64)> = None;
    again(globals, &every, async |output| {
        let mut look = look(&client).await?;
        let (now, committed) = (Instant::now(), committed(&look.status));
        look.entries_per_second = before.map(|(then, earlier)| {
            committed.saturating_sub(earlier) as f64 / now.duration_since(then).as_secs_f64().max(0.001)
        });
        before = Some((now, committed));
        let healthy = look.status.healthy;
        let people = |output| screen(output, &mut look, arguments.limit);
        match globals.output {
            Format::Table => output.answer("palisade.top/1", people, || Value::Null)?,
            Format::Json => output.answer("palisade.top/1", |_| String::new(), || document(&look))?,
        }
        Ok(if healthy { Exit::OK } else { Exit::NO })
    })
    .await
}

async fn look(client: &Client) -> Result<Look, Failure> {
    let status = client.status(false).await?;
    let locks = client.list_locks("", 0, "").await?;
    let sessions = client.list_sessions("", 0, 0).await?;
    let asked = v1::ListRejections { limit: REJECTIONS, ..v1::ListRejections::default() };
    let rejections = client.rejections(asked).await?;
    Ok(Look { status, locks, sessions, rejections, entries_per_second: None })
}

fn committed(status: &v1::StatusAnswer) -> u64 {
    status.nodes.iter().map(|node| node.committed).max().unwrap_or(0)
}

fn document(look: &Look) -> Value {
    json!({
        "status": json::status(&look.status),
        "locks": json::locks(&look.locks)["locks"],
        "sessions": json::sessions(&look.sessions)["sessions"],
        "rejections": json::rejections(&look.rejections)["rejections"],
        "more": look.locks.more || look.sessions.more || look.rejections.more,
    })
}

fn screen(output: Output, look: &mut Look, limit: usize) -> String {
    let rate = look.entries_per_second.map_or(String::new(), |rate| format!(", {rate:.0} entries/s"));
    let first = format!("{}{rate}", sentence(output, &look.status));
    look.locks.locks.sort_by_key(|lock| std::cmp::Reverse(lock.queue.len()));
    let rows: Vec<_> = look.locks.locks.iter().take(limit).map(|lock| row(lock, &look.sessions)).collect();
    let hidden = look.locks.locks.len().saturating_sub(rows.len());
    let more = match (hidden, look.locks.more) {
        (0, false) => String::new(),
        (hidden, false) => format!("\n{hidden} more"),
        (hidden, true) => format!("\nmore than {hidden} more"),
    };
    format!("{first}\n\n{}{more}{}", table(&HEADER, rows), refused(&mut look.rejections.rejections))
}

/// Whom resources refused, those that do not stop first.
fn refused(rejections: &mut [v1::Rejection]) -> String {
    rejections.sort_by_key(|of| !of.storm);
    let lines = rejections.iter().take(REFUSED_SHOWN).map(|of| {
        let lock = of.refusal.as_ref().map_or("", |refusal| &refusal.lock);
        format!("\n{lock}  {}", view::rejection_line(of))
    });
    let lines: String = lines.collect();
    let hidden = rejections.len().saturating_sub(REFUSED_SHOWN);
    let more = if hidden == 0 { String::new() } else { format!("\n{hidden} more refused") };
    if lines.is_empty() { lines } else { format!("\n{lines}{more}") }
}

fn row(lock: &v1::LockView, sessions: &v1::SessionList) -> [String; 9] {
    let dash = || "–".to_owned();
    let time = |ms: u64| span(Duration::from_millis(ms));
    let queue = lock.queue.len().to_string();
    let name = lock.lock.clone();
    let refused: u64 = lock.rejections.iter().filter_map(|of| Some(of.refusal.as_ref()?.count)).sum();
    let refused = if refused == 0 { dash() } else { refused.to_string() };
    match lock.slots.first().and_then(|slot| slot.state.as_ref()) {
        Some(State::Held(tenure)) => {
            let holder = tenure.holders.first();
            let session = holder.and_then(|holder| holder.acquisition).map_or(0, |id| id.session);
            let ttl =
                sessions.sessions.iter().find(|known| known.session == session).map(|known| known.ttl_ms);
            let signals = holder.and_then(|holder| holder.signals.as_ref());
            let pause = signals.map(|signals| signals.pause_longest_ms);
            let left = signals.and_then(|signals| signals.left_least_ms);
            [
                name,
                tenure.token.to_string(),
                holder.map_or_else(dash, |holder| holder.client.clone()),
                view::ago(tenure.begun_at_us),
                format!("{} {}", bar(tenure.lease_left_ms, ttl), time(tenure.lease_left_ms)),
                queue,
                pause.map_or_else(dash, |pause| {
                    let near = ttl.is_some_and(|ttl| pause >= ttl / 2);
                    format!("{}{}", time(pause), if near { " !" } else { "" })
                }),
                left.map_or_else(dash, time),
                refused,
            ]
        }
        Some(State::Delayed(delay)) => {
            let left = format!("closed for {}", time(delay.left_ms));
            [name, format!("> {}", delay.ended_token), dash(), dash(), left, queue, dash(), dash(), refused]
        }
        Some(State::Free(_)) | None => [name, dash(), dash(), dash(), dash(), queue, dash(), dash(), refused],
    }
}

/// How much of the TTL is left.
fn bar(left_ms: u64, ttl_ms: Option<u64>) -> String {
    let full = ttl_ms.filter(|ttl| *ttl > 0).map_or(0, |ttl| (left_ms * BAR).div_ceil(ttl).min(BAR));
    (0..BAR).map(|step| if step < full { '█' } else { '░' }).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn rejection(client: &str, storm: bool) -> v1::Rejection {
        let refusal = v1::StaleRefusal {
            lock: "orders".into(),
            client: client.into(),
            presented: 33,
            mark: 34,
            count: 7,
            ..v1::StaleRefusal::default()
        };
        v1::Rejection { guard: "db".into(), refusal: Some(refusal), storm, ..v1::Rejection::default() }
    }

    #[test]
    fn the_screen_shows_the_awaited_first_and_who_stood_still() {
        let cli = crate::args::Cli::try_parse_from(["palisade", "--color", "never", "top"]).unwrap();
        let signals = v1::HolderSignals {
            pause_longest_ms: 900,
            left_least_ms: Some(4_000),
            ..v1::HolderSignals::default()
        };
        let holder = v1::Holder {
            acquisition: Some(v1::AcquisitionId { session: 7, number: 1 }),
            client: "worker-b".into(),
            signals: Some(signals),
            ..v1::Holder::default()
        };
        let tenure =
            v1::Tenure { token: 34, holders: vec![holder], lease_left_ms: 6_100, ..v1::Tenure::default() };
        let slot = v1::SlotView { slot: 0, state: Some(State::Held(tenure)) };
        let held = v1::LockView {
            lock: "orders".into(),
            slots: vec![slot],
            queue: vec![v1::WaiterView::default()],
            rejections: vec![rejection("worker-a", true)],
            ..v1::LockView::default()
        };
        let idle = v1::LockView { lock: "idle".into(), ..v1::LockView::default() };
        let session = v1::SessionView { session: 7, ttl_ms: 10_000, ..v1::SessionView::default() };
        let mut look = Look {
            status: v1::StatusAnswer { healthy: true, ..v1::StatusAnswer::default() },
            locks: v1::LockList { locks: vec![idle, held], ..v1::LockList::default() },
            sessions: v1::SessionList { sessions: vec![session], ..v1::SessionList::default() },
            rejections: v1::RejectionList {
                rejections: vec![rejection("worker-c", false), rejection("worker-a", true)],
                ..v1::RejectionList::default()
            },
            entries_per_second: Some(12.4),
        };
        let text = screen(Output::new(&cli.globals), &mut look, 1);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("Healthy: ") && lines[0].ends_with(", 12 entries/s"), "{text}");
        assert!(lines[3].starts_with("orders  34     worker-b"), "{text}");
        assert!(lines[3].contains("███████░░░ 6.1s") && lines[3].contains("0.9s"), "{text}");
        assert!(lines[3].ends_with("  7"), "{text}");
        assert_eq!(lines[4], "1 more");
        assert!(
            lines[6].starts_with("orders  refused: worker-a, token 33 below mark 34, 7 times by db"),
            "{text}"
        );
        assert!(lines[6].ends_with("STORM: it does not stop") && lines[7].contains("worker-c"), "{text}");
        assert_eq!(document(&look)["locks"][0]["lock"], "orders");
    }
}
