//! Many sessions on one stream: one keepalive for all, and one queue for everything that comes back.

use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::live::{Live, PATIENCE, RawSession, Seen, acquire, open_session, release, while_session};

/// Sessions of one process.
const SESSIONS: usize = 333;
/// Opened at a time.
const AT_ONCE: usize = 37;

async fn sessions(live: &Live, node: usize, count: usize) -> Vec<RawSession> {
    let mut sessions = Vec::with_capacity(count);
    while sessions.len() < count {
        let opening = (sessions.len()..count).take(AT_ONCE).map(|_| {
            let channel = live.channel(node);
            tokio::spawn(async move { open_session(channel, Duration::from_secs(60), "one of many").await })
        });
        for opened in opening.collect::<Vec<_>>() {
            sessions.push(opened.await.unwrap());
        }
    }
    sessions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_frame_renews_every_session_of_a_stream() {
    let live = Live::start(3).await;
    // Through a follower: it relays the frame as it is.
    let node = live.followers().await[0];
    let sessions = sessions(&live, node, SESSIONS).await;
    let mut raw = live.raw(node).await;
    let bind = |session: &RawSession| Op::Bind(v1::Bind { secret: session.secret.clone() });
    let requests: Vec<_> = sessions.iter().map(|session| raw.request(session.id, bind(session))).collect();
    raw.send(v1::ClientFrame { requests, ..v1::ClientFrame::default() }).await;
    for _ in &sessions {
        raw.find("all are bound", |seen| match seen {
            Seen::Response(response) => {
                assert!(matches!(response.result, Some(Answer::Bound(_))), "{response:?}");
                Some(())
            }
            Seen::Event(_) | Seen::Renewed(_) | Seen::Leader(_) => None,
        })
        .await;
    }

    let ids: Vec<u64> = sessions.iter().map(|session| session.id).collect();
    let renewed = raw.renew(1, &ids).await;
    assert_eq!((renewed.error, renewed.ended), (None, Vec::new()));
    let closed = raw.ask(ids[100], Op::Close(v1::CloseSession {})).await;
    assert!(matches!(closed.result, Some(Answer::Closed(_))), "{closed:?}");
    // Nothing else came for the first one: the next answer is that of the second.
    raw.send_renew(2, &ids).await;
    let renewed = raw
        .find("the second answer", |seen| match seen {
            Seen::Renewed(renewed) => Some(renewed.clone()),
            Seen::Event(_) | Seen::Response(_) | Seen::Leader(_) => None,
        })
        .await;
    assert_eq!((renewed.number, renewed.error), (2, None));
    let ended = v1::EndedSession { session: ids[100], ended: v1::Ended::Closed.into() };
    assert_eq!(renewed.ended, [ended]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_and_late_grants_come_in_the_order_of_the_log() {
    let live = Live::start(3).await;
    for node in [live.leader().await, live.followers().await[0]] {
        let [holding, waiting, third]: [RawSession; 3] = sessions(&live, node, 3).await.try_into().unwrap();
        let mut raw = live.raw(node).await;
        for session in [&holding, &waiting, &third] {
            raw.bind(session).await;
        }
        let (first, second) = (format!("first/{node}"), format!("second/{node}"));
        let grant = raw.granted(holding.id, acquire(1, &first, while_session())).await;

        // One frame: the one waits, the other releases, a third takes something that is free.
        let requests = vec![
            raw.request(waiting.id, Op::Acquire(acquire(1, &first, while_session()))),
            raw.request(holding.id, Op::Release(release(&grant))),
            raw.request(third.id, Op::Acquire(acquire(1, &second, while_session()))),
        ];
        raw.send(v1::ClientFrame { requests, ..v1::ClientFrame::default() }).await;
        let mut seen = Vec::new();
        let mut indexes = Vec::new();
        while seen.len() < 4 {
            match raw.next(PATIENCE).await.expect("all four come") {
                Seen::Response(response) => {
                    indexes.push(response.index);
                    seen.push(match response.result {
                        Some(Answer::Queued(_)) => "queued",
                        Some(Answer::Released(_)) => "released",
                        Some(Answer::Granted(_)) => "granted",
                        other => panic!("{other:?}"),
                    });
                }
                Seen::Event(v1::Event { what: Some(What::Granted(grant)), session, index }) => {
                    assert_eq!((session, grant.grant_index), (waiting.id, index));
                    indexes.push(index);
                    seen.push("granted late");
                }
                Seen::Event(_) | Seen::Renewed(_) | Seen::Leader(_) => {}
            }
        }
        assert!(indexes.is_sorted(), "{seen:?} at {indexes:?}");
        assert_eq!(indexes[1], indexes[2], "the entry that frees is the entry that grants: {indexes:?}");
        assert_eq!((seen[0], seen[3]), ("queued", "granted"), "{seen:?}");
        let mut both = [seen[1], seen[2]];
        both.sort_unstable();
        assert_eq!(both, ["granted late", "released"]);
    }
}
