//! How holds ended, as every node tells it, also after a restart.

use std::time::Duration;

use palisade_proto::v1;

use super::TTL;
use crate::live::{Live, eventually, hold, name, open_session};

/// What the nodes say of a lock's past.
async fn told(live: &Live, lock: &str) -> v1::HistoryPage {
    let mut pages = Vec::new();
    for node in 0..live.cluster.nodes().len() {
        let client = live.client_of(node);
        let mut page = client.history(&name(lock), 0, 0).await.unwrap();
        page.index = 0;
        pages.push(page);
    }
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
    pages.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_tells_the_same_history_also_after_a_restart_of_all() {
    let mut live = Live::prepare(3);
    // A snapshot now and then, so that the history comes out of one.
    live.cluster = live.cluster.with_arguments(&["--snapshot-every", "40", "--keep-log", "10"]);
    live.cluster.start_all().unwrap();
    live.ready().await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    let mut tokens = Vec::new();
    for _ in 0..40 {
        let guard = hold(&session, "l").await;
        tokens.push(guard.token().get());
        guard.release().await.unwrap();
    }
    let before = told(&live, "l").await;
    let newest: Vec<u64> = before.holds.iter().map(|hold| hold.token).collect();
    assert_eq!(newest, tokens.iter().rev().copied().collect::<Vec<_>>());
    assert!(before.holds.iter().all(|hold| hold.ended() == v1::Ended::Released));
    assert_eq!((before.expired_known_after, before.others_known_after), (0, 0), "nothing is forgotten");

    live.cluster.kill_all();
    live.cluster.start_all().unwrap();
    live.ready().await;
    assert_eq!(told(&live, "l").await, before);
    // Page by page it is the same.
    let (mut paged, mut last) = (Vec::new(), 0);
    loop {
        let page = client.history(&name("l"), 7, last).await.unwrap();
        last = page.holds.last().map_or(0, |hold| hold.number);
        paged.extend(page.holds);
        if !page.more {
            break;
        }
    }
    assert_eq!(paged, before.holds);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_lists_where_a_holder_was_lost_and_who_came_next() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    // Nobody keeps this one alive: it expires.
    let lost = open_session(live.channel(0), Duration::from_secs(2), "lost").await;
    let mut raw = live.raw(0).await;
    raw.bind(&lost).await;
    let acquire = crate::live::acquire(1, "audit/l", crate::live::while_session());
    let token = raw.granted(lost.id, acquire).await.parts[0].token;
    let next = hold(&session, "audit/l").await;
    let released = hold(&session, "audit/m").await;
    released.release().await.unwrap();
    let asked = v1::GetAudit { prefix: "audit/".to_owned(), ..v1::GetAudit::default() };
    let page = client.audit(asked.clone()).await.unwrap();
    let [boundary] = &page.boundaries[..] else { panic!("{page:?}") };
    let (ended, after) = (boundary.ended.as_ref().unwrap(), boundary.next.as_ref().unwrap());
    assert_eq!((ended.lock.as_str(), ended.token, ended.client.as_str()), ("audit/l", token, "lost"));
    assert_eq!(ended.ended(), v1::Ended::Expired);
    assert_eq!((after.token, after.holds), (next.token().get(), true));
    next.release().await.unwrap();
    // What came next is told also when it is over; and an expiry is not, of which nothing is asked.
    let page = client.audit(asked.clone()).await.unwrap();
    let after = page.boundaries[0].next.as_ref().unwrap();
    assert!(!after.holds && after.token > token);
    let later = v1::GetAudit { since_us: ended.ended_at_us + 1, ..asked.clone() };
    assert_eq!(client.audit(later).await.unwrap().boundaries, []);
    let elsewhere = v1::GetAudit { prefix: "other/".to_owned(), ..asked };
    assert_eq!(client.audit(elsewhere).await.unwrap().boundaries, []);
    // A follower that leads next tells the same.
    eventually("every node tells it", async || {
        let mut told = Vec::new();
        for node in 0..3 {
            let asked = v1::GetAudit { prefix: "audit/".to_owned(), ..v1::GetAudit::default() };
            told.push(live.client_of(node).audit(asked).await.ok()?.boundaries);
        }
        told.iter().all(|boundaries| *boundaries == page.boundaries).then_some(())
    })
    .await;
    client.close().await;
}
