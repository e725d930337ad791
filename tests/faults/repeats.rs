//! A request takes effect once, however often and to whomever it is sent.

use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::live::{Live, acquire, error_name, holder, name, open_session, release, while_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_acquire_is_the_same_one_until_it_ended_and_never_again() {
    let mut live = Live::start(3).await;
    let (leader, term) = live.leader_and_term().await;
    let session = open_session(live.channel(leader), Duration::from_secs(60), "repeats").await;
    let mut raw = live.raw(leader).await;
    raw.bind(&session).await;
    let ask = || acquire(5, "orders", while_session());
    let grant = raw.granted(session.id, ask()).await;
    assert_eq!(raw.granted(session.id, ask()).await, grant);
    let other = raw.ask(session.id, Op::Acquire(acquire(5, "another", while_session()))).await;
    assert_eq!(error_name(&other), "BAD_ARGUMENT", "a known number with other content");

    live.cluster.kill(leader);
    let next = live.leader_after(term).await;
    let mut raw = live.raw(next).await;
    let bound = raw.bind(&session).await;
    assert_eq!(bound.acquisitions.len(), 1);
    assert_eq!(bound.acquisitions[0].grant, Some(grant.clone()));
    assert_eq!(raw.granted(session.id, ask()).await, grant);

    let answer = raw.ask(session.id, Op::Release(release(&grant))).await;
    assert!(matches!(answer.result, Some(Answer::Released(_))), "{answer:?}");
    let again = raw.ask(session.id, Op::Release(release(&grant))).await;
    let Some(Answer::Released(released)) = &again.result else { panic!("{again:?}") };
    assert_eq!(released.ended(), v1::Ended::Released, "a repeat says how it ended");
    assert_eq!(error_name(&raw.ask(session.id, Op::Acquire(ask())).await), "ALREADY_ENDED");

    live.cluster.start_node(leader).unwrap();
    live.node_ready(leader).await;
    let (last, term) = live.leader_and_term().await;
    live.cluster.kill(last);
    let next = live.leader_after(term).await;
    let mut raw = live.raw(next).await;
    raw.bind(&session).await;
    assert_eq!(error_name(&raw.ask(session.id, Op::Acquire(ask())).await), "ALREADY_ENDED");
    let client = live.client_of(next);
    assert_eq!(holder(&client.lock_view(&name("orders")).await.unwrap()), None);
    client.close().await;
}
