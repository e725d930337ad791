//! Several slots at once: several locks, or several permits of one; and the refusals that only they meet.

use palisade_client::{AcquireError, GuardSet, LostReason, Part};
use palisade_core::ids::{LockName, OwnerLabel};
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::response::Result as Answer;

use crate::fake::{Scene, acquire, granted, orders, part, release, released, soon};

fn stock() -> LockName {
    LockName::new("stock").expect("a name")
}

fn both(token: u64) -> v1::Grant {
    v1::Grant { parts: vec![part("orders", 0, token), part("stock", 0, token)], ..granted(7, 1, token) }
}

async fn held(scene: &mut Scene) -> GuardSet {
    let asked = tokio::spawn(scene.session.lock_all([orders(), stock()]).acquire());
    let request = scene.stream.request().await;
    let names: Vec<&str> = acquire(&request).parts.iter().map(|part| part.lock.as_str()).collect();
    assert_eq!(names, ["orders", "stock"]);
    scene.stream.respond_so(&request, Answer::Granted(both(40)), true).await;
    soon(asked).await.expect("it ran").expect("guards")
}

#[tokio::test]
async fn several_locks_are_granted_together_and_released_in_one_entry() {
    let mut scene = Scene::start().await;
    let guards = held(&mut scene).await;
    assert!(guards.guards().all(|guard| guard.token().get() == 40));
    assert!(guards.check().is_ok() && guards.of(&stock()).is_some());
    let releasing = tokio::spawn(guards.release());
    let first = scene.stream.request().await;
    assert_eq!((release(&first).lock.as_str(), release(&first).token), ("", 40));
    let listed = vec![v1::BoundAcquisition { number: 1, grant: Some(both(40)) }];
    let mut stream = scene.stream.broken(&mut scene.node, listed).await;
    let second = stream.request().await;
    assert_eq!(second.op, first.op);
    stream.respond(&second, released()).await;
    assert!(soon(releasing).await.expect("it ran").is_ok());
}

#[tokio::test]
async fn one_part_is_released_and_another_lost_by_itself() {
    let mut scene = Scene::start().await;
    let mut guards = held(&mut scene).await.into_guards();
    let (second, first) = (guards.pop().expect("stock"), guards.pop().expect("orders"));
    let releasing = tokio::spawn(first.release());
    let request = scene.stream.request().await;
    assert_eq!(release(&request).lock, "orders");
    scene.stream.respond(&request, released()).await;
    assert!(soon(releasing).await.expect("it ran").is_ok());
    assert!(second.check().is_ok());
    // A binding lists what is left of it; later it lists nothing of this lock.
    let left = v1::Grant { parts: vec![part("stock", 0, 40)], ..granted(7, 1, 40) };
    let listed = vec![v1::BoundAcquisition { number: 1, grant: Some(left) }];
    scene.stream = scene.stream.broken(&mut scene.node, listed).await;
    scene.settle().await;
    assert!(second.check().is_ok());
    let other = v1::Grant { parts: vec![part("orders", 0, 40)], ..granted(7, 1, 40) };
    let listed = vec![v1::BoundAcquisition { number: 1, grant: Some(other) }];
    scene.stream = scene.stream.broken(&mut scene.node, listed).await;
    assert_eq!(soon(second.lost()).await, LostReason::Ended(Ended::Forgotten));
}

#[tokio::test]
async fn a_set_is_not_to_be_believed_in_once_a_part_is_lost() {
    let mut scene = Scene::start().await;
    let guards = held(&mut scene).await;
    let suspended = guards.suspended();
    let ended = v1::HoldEnded {
        number: 1,
        lock: "stock".to_owned(),
        slot: 0,
        token: 40,
        ended: v1::Ended::Broken.into(),
    };
    scene.stream.event(7, What::HoldEnded(ended)).await;
    let lost = palisade_client::SessionState::Lost(LostReason::Ended(Ended::Broken));
    assert_eq!(soon(suspended).await, lost);
    assert!(guards.check().is_err());
    assert_eq!(guards.remaining(), None);
    assert!(guards.of(&orders()).is_some_and(|guard| guard.check().is_ok()));
    drop(guards);
    assert_eq!(release(&scene.stream.request().await).lock, "orders", "what is left is released");
}

#[tokio::test]
async fn permits_of_a_semaphore_have_slots_of_their_own() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).capacity(5).permits(2).acquire());
    let request = scene.stream.request().await;
    assert_eq!((acquire(&request).parts[0].capacity, acquire(&request).parts[0].permits), (5, 2));
    let parts = vec![part("orders", 1, 40), part("orders", 4, 40)];
    let grant = v1::Grant { parts, ..granted(7, 1, 40) };
    scene.stream.respond_so(&request, Answer::Granted(grant), true).await;
    let guards = soon(asked).await.expect("it ran").expect("guards");
    let slots: Vec<u32> = guards.guards().map(|guard| guard.slot().0).collect();
    assert_eq!(slots, [1, 4]);
}

#[tokio::test]
async fn what_a_part_asks_for_is_sent() {
    let mut scene = Scene::start().await;
    let owner = OwnerLabel::new("task-3").expect("a label");
    let parts = [Part::new(orders()).shared(), Part::new(stock())];
    let asked = scene.session.lock_all(parts).owner(owner).metadata("10.0.0.3:80");
    let asked = tokio::spawn(asked.acquire());
    let request = scene.stream.request().await;
    let sent = acquire(&request);
    assert_eq!((sent.owner.as_str(), sent.metadata.as_slice()), ("task-3", b"10.0.0.3:80".as_slice()));
    assert_eq!(sent.parts[0].mode, i32::from(v1::Mode::Shared));
    asked.abort();
}

#[tokio::test]
async fn a_wait_that_would_never_end_is_refused_with_its_cycle() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    let step = |owner: &str, lock: &str| v1::CycleStep {
        owner: owner.to_owned(),
        lock: lock.to_owned(),
        ..v1::CycleStep::default()
    };
    let error = v1::Error {
        name: "WOULD_DEADLOCK".to_owned(),
        cycle: vec![step("a", "orders"), step("b", "stock")],
        ..v1::Error::default()
    };
    scene.stream.respond(&request, Answer::Error(error)).await;
    match soon(asked).await.expect("it ran") {
        Err(AcquireError::WouldDeadlock { cycle, .. }) => assert_eq!(cycle.len(), 2),
        other => panic!("{other:?}"),
    }
}
