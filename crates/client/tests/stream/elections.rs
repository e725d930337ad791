//! Leading, and hearing of who leads.

use palisade_client::{HoldError, Leader, Leadership};
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::lock_event::Kind;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::slot_view::State;
use palisade_proto::v1::watch_message::Message;
use palisade_proto::v1::watch_request::From as Start;

use crate::fake::{Node, Scene, acquire, client, orders, release, released, soon};
use crate::watching::Telling;

async fn leading(scene: &mut Scene) -> Leadership {
    let election = scene.client.election(orders());
    let session = scene.session.clone();
    let campaign = tokio::spawn(async move { election.campaign(&session, b"10.0.0.3:80").await });
    let request = scene.stream.request().await;
    assert_eq!(acquire(&request).metadata, b"10.0.0.3:80");
    scene.stream.grant(&request, 40).await;
    soon(campaign).await.expect("it ran").expect("it leads")
}

#[tokio::test]
async fn a_leader_proclaims_and_resigns() {
    let mut scene = Scene::start().await;
    let leadership = leading(&mut scene).await;
    let proclaiming = tokio::spawn(async move { (leadership.proclaim(b"elsewhere").await, leadership) });
    let request = scene.stream.request().await;
    assert!(matches!(&request.op, Some(Op::SetMetadata(sent)) if sent.metadata == b"elsewhere"));
    scene.stream.respond(&request, Answer::Written(v1::Written { revision: 1 })).await;
    let (outcome, leadership) = soon(proclaiming).await.expect("it ran");
    assert_eq!(outcome, Ok(()));
    let resigning = tokio::spawn(leadership.resign());
    let request = scene.stream.request().await;
    assert_eq!(release(&request).token, 40);
    scene.stream.respond(&request, released()).await;
    assert!(soon(resigning).await.expect("it ran").is_ok());
}

#[tokio::test]
async fn a_leader_that_another_followed_proclaims_nothing() {
    let mut scene = Scene::start().await;
    let leadership = leading(&mut scene).await;
    let proclaiming = tokio::spawn(async move { (leadership.proclaim(b"late").await, leadership) });
    let request = scene.stream.request().await;
    scene.stream.refuse(&request, "NOT_HELD").await;
    let (outcome, leadership) = soon(proclaiming).await.expect("it ran");
    assert!(matches!(outcome, Err(HoldError::NotHeld { .. })), "{outcome:?}");
    assert!(leadership.check().is_err());
    assert_eq!(soon(leadership.lost()).await, palisade_client::LostReason::Ended(Ended::Forgotten));
}

fn tenure(session: u64, token: u64) -> v1::LockView {
    let acquisition = Some(v1::AcquisitionId { session, number: 1 });
    let holder = v1::Holder { acquisition, ..v1::Holder::default() };
    let mode = v1::Mode::Exclusive.into();
    let state = State::Held(v1::Tenure { token, mode, holders: vec![holder], ..v1::Tenure::default() });
    let slots = vec![v1::SlotView { slot: 0, state: Some(state) }];
    v1::LockView { lock: orders().as_str().to_owned(), slots, ..v1::LockView::default() }
}

const INCARNATION: &str = "0123456789abcdef0123456789abcdef";

fn snapshot(view: v1::LockView, index: u64) -> Message {
    let position = Some(v1::Position { incarnation: INCARNATION.to_owned(), index });
    Message::Snapshot(v1::LockSnapshot { locks: vec![view], position, last: true })
}

fn entry(index: u64, events: Vec<v1::LockEvent>) -> Message {
    let entries = vec![v1::WatchEntry { index, wall_us: 0, events }];
    Message::Entries(v1::WatchEntries { incarnation: INCARNATION.to_owned(), entries })
}

fn event(kind: Kind, session: u64, token: u64) -> v1::LockEvent {
    v1::LockEvent {
        kind: kind.into(),
        lock: orders().as_str().to_owned(),
        acquisition: Some(v1::AcquisitionId { session, number: 1 }),
        token,
        mode: v1::Mode::Exclusive.into(),
        ..v1::LockEvent::default()
    }
}

/// The next watch, on whichever node it begins.
async fn watch(one: &mut Node, other: &mut Node) -> Telling {
    let telling = soon(async {
        tokio::select! {
            telling = one.watches.recv() => telling,
            telling = other.watches.recv() => telling,
        }
    });
    telling.await.expect("a watch")
}

#[tokio::test]
async fn an_observer_misses_nobody_over_broken_watches_and_hears_of_nobody_twice() {
    let (mut one, mut other) = (Node::start().await, Node::start().await);
    let client = client(&[&one, &other], &std::sync::Arc::default());
    let mut observer = client.election(orders()).observe();
    let (news, mut heard) = tokio::sync::mpsc::channel(16);
    let observing = tokio::spawn(async move {
        loop {
            let told = observer.next().await.expect("a node answers");
            news.send(told.map_or(0, |leader: Leader| leader.token.get())).await.expect("it is heard");
        }
    });

    let telling = watch(&mut one, &mut other).await;
    assert_eq!(telling.request.from, Some(Start::Snapshot(true)));
    telling.tell(snapshot(tenure(3, 40), 50)).await;
    assert_eq!(soon(heard.recv()).await, Some(40));
    drop(telling);

    // At the other node it goes on from where it was.
    let telling = watch(&mut one, &mut other).await;
    assert!(matches!(&telling.request.from, Some(Start::After(at)) if at.index == 50));
    telling.tell(entry(60, vec![event(Kind::HoldEnded, 3, 40), event(Kind::Granted, 4, 60)])).await;
    assert_eq!(soon(heard.recv()).await, Some(60));
    drop(telling);

    // What happened is not kept there: how it stands is.
    let telling = watch(&mut one, &mut other).await;
    let reason = v1::resynchronise::Reason::TooOld.into();
    telling.tell(Message::Resynchronise(v1::Resynchronise { reason })).await;
    telling.tell(snapshot(tenure(4, 60), 80)).await;
    telling.tell(entry(90, vec![event(Kind::HoldEnded, 4, 60)])).await;
    assert_eq!(soon(heard.recv()).await, Some(0), "the same leader is not told again");
    telling.tell(entry(95, vec![event(Kind::Granted, 5, 95)])).await;
    assert_eq!(soon(heard.recv()).await, Some(95));
    observing.abort();
}
