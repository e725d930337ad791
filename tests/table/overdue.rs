//! Holders' own deadlines, and leases of more than a minute.

use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use serde_json::json;

use super::{TTL, acquire, caller, part};
use crate::live::{
    Live, Seen, acknowledges, error_name, eventually, get, no_wait, open_session, release, soon, status_name,
    while_session,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_stops_reporting_is_overdue_and_its_session_lives() {
    let mut live = Live::start(3).await;
    let [stays, _] = live.followers().await;
    let session = open_session(live.channel(stays), TTL, "export").await;
    let mut raw = live.raw(stays).await;
    raw.bind(&session).await;
    let asked = v1::Acquire { progress_every_ms: 2_000, ..acquire(1, vec![part("export")], no_wait()) };
    let grant = raw.granted(session.id, asked).await;
    assert_eq!((grant.progress_every_ms, grant.hold_max_ms), (2_000, 0));
    let report = |number| {
        let (acquisition, token) = (grant.acquisition, grant.parts[0].token);
        Op::ReportProgress(v1::ReportProgress { acquisition, token, number })
    };
    let behind = caller(&live, stays, "behind").await;
    let behind = tokio::spawn(behind.wait_for(acquire(1, vec![part("export")], while_session())));

    // While it reports it holds, for longer than the interval; also over a lost leader, whose count starts over.
    for number in 1..=4 {
        let answer = raw.ask(session.id, report(number)).await;
        assert!(answer.renewed && matches!(answer.result, Some(Answer::Reported(_))), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    let mut raw = live.raw(stays).await;
    let bound = eventually("it is bound", async || {
        let bind = Op::Bind(v1::Bind { secret: session.secret.clone() });
        match raw.ask(session.id, bind).await.result {
            Some(Answer::Bound(bound)) => Some(bound),
            _ => None,
        }
    })
    .await;
    assert_eq!(bound.acquisitions[0].grant, Some(grant.clone()), "it holds still");

    // It reports no more.
    let ended = raw
        .find("it is told", |seen| match seen {
            Seen::Event(v1::Event { what: Some(What::HoldEnded(ended)), .. }) => Some(ended.clone()),
            Seen::Event(_) | Seen::Response(_) | Seen::Leader(_) | Seen::Renewed(_) => None,
        })
        .await;
    assert_eq!((ended.ended(), ended.token), (v1::Ended::Overdue, grant.parts[0].token));
    let next = soon("the next one", behind).await.unwrap().unwrap();
    assert!(next.parts[0].token > grant.parts[0].token);
    assert_eq!(error_name(&raw.ask(session.id, report(9)).await), "OVERDUE");
    let late = raw.ask(session.id, Op::Release(release(&grant))).await;
    let Some(Answer::Error(late)) = late.result else { panic!("{late:?}") };
    assert_eq!((late.name.as_str(), late.superseded_by), ("OVERDUE", next.parts[0].token));
    assert!(acknowledges(&raw.renew(1, &[session.id]).await, session.id), "the session lives");
    let audit = get(live.address(stays), "/v1/audit?prefix=export").await.unwrap().json();
    assert_eq!(audit["boundaries"][0]["ended"]["ended"], json!("overdue"), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maximum_ends_a_holder_however_often_it_reports_and_one_that_never_does() {
    let live = Live::start(1).await;
    let mut holder = caller(&live, 0, "bounded").await;
    let ask = |number, lock: &str| v1::Acquire {
        hold_max_ms: 1_500,
        ..acquire(number, vec![part(lock)], no_wait())
    };
    let silent = holder.acquire(ask(1, "silent")).await.unwrap();
    let busy = holder.acquire(ask(2, "busy")).await.unwrap();
    let ended = eventually("both end", async || {
        let (acquisition, token) = (busy.acquisition, busy.parts[0].token);
        let answer = holder.report(v1::ReportProgress { acquisition, token, number: 0 }).await;
        answer.err()
    })
    .await;
    assert!(ended.message().starts_with("OVERDUE"), "{ended}");
    let late = holder.release(release(&silent)).await.unwrap_err();
    assert_eq!(status_name(&late), "OVERDUE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_lease_is_kept_in_the_log_with_short_ones_in_one_frame() {
    let mut live = Live::start(3).await;
    let [stays, _] = live.followers().await;
    let long = open_session(live.channel(stays), Duration::from_secs(3_600), "long").await;
    let short = open_session(live.channel(stays), TTL, "short").await;
    let gone = open_session(live.channel(stays), Duration::from_secs(3_600), "gone").await;
    let mut raw = live.raw(stays).await;
    for session in [&long, &short, &gone] {
        raw.bind(session).await;
    }
    raw.ask(gone.id, Op::Close(v1::CloseSession {})).await;
    let applied = async || {
        let nodes = get(live.address(stays), "/v1/status").await?.json();
        let nodes = nodes["nodes"].as_array()?.clone();
        nodes.iter().filter_map(|node| node["committed"].as_str()?.parse::<u64>().ok()).max()
    };
    let before = eventually("the status", applied).await;
    for number in 1..=3 {
        let renewed = raw.renew(number, &[short.id]).await;
        assert!(acknowledges(&renewed, short.id), "{renewed:?}");
    }
    let short_alone = eventually("the status", applied).await;
    assert!(short_alone <= before + 1, "a short lease costs no entry, a minute at most one");
    for number in 4..=6 {
        let renewed = raw.renew(number, &[long.id, short.id, gone.id]).await;
        assert!(acknowledges(&renewed, long.id) && acknowledges(&renewed, short.id), "{renewed:?}");
        let ended = v1::EndedSession { session: gone.id, ended: v1::Ended::Closed.into() };
        assert_eq!(renewed.ended, [ended]);
    }
    assert!(eventually("the status", applied).await >= short_alone + 3, "a long one costs one a frame");

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    let mut raw = live.raw(stays).await;
    eventually("it is kept by the next leader", async || {
        raw.ask(long.id, Op::Bind(v1::Bind { secret: long.secret.clone() })).await;
        acknowledges(&raw.renew(7, &[long.id]).await, long.id).then_some(())
    })
    .await;
}
