//! What a holder asks of its own hold, on real nodes, with the client that people link.

use std::time::{Duration, Instant};

use palisade_client::operators::Closed;
use palisade_client::{AcquireError, ChangeError, LostReason, Session};
use palisade_core::holding::Holding;
use palisade_core::ids::OwnerLabel;
use palisade_core::mode::Mode;
use palisade_core::reply::Ended;

use crate::live::{Live, eventually, hold, name, soon};

const TTL: Duration = Duration::from_secs(60);

async fn waiting(live: &Live, lock: &str, waiters: usize) {
    let client = live.client(TTL);
    eventually("they wait", async || {
        let view = client.lock_view(&name(lock)).await.unwrap();
        (view.queue.len() == waiters).then_some(())
    })
    .await;
}

fn owner(task: &str) -> OwnerLabel {
    OwnerLabel::new(task).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_passes_on_with_its_baton_and_is_shared_without_a_gap() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let (a, b) = (client.open_session().await.unwrap(), client.open_session().await.unwrap());
    let first = hold(&a, "orders").await;
    first.set_metadata(b"10.0.0.1:80").await.unwrap();
    first.leave_baton(b"page 7").await.unwrap();
    let Err(ChangeError::Nobody { guard: first, .. }) = first.hand_over(None).await else {
        panic!("handed over to nobody")
    };
    let next = tokio::spawn(b.lock(name("orders")).acquire());
    waiting(&live, "orders", 1).await;
    let (token, lost) = (first.token(), first.lost());
    let handed = first.hand_over(Some(b.id())).await.unwrap();
    assert_eq!(handed.to.session, b.id());
    assert_eq!(soon("the old holder hears of it", lost).await, LostReason::Ended(Ended::HandedOver));
    let second = soon("the next one holds", next).await.unwrap().unwrap();
    assert_eq!(second.token(), handed.token);
    let inherited = second.inherited().unwrap();
    assert_eq!((inherited.token, inherited.ended), (token, Ended::HandedOver));
    assert_eq!(inherited.baton.as_bytes(), b"page 7");

    let reader = tokio::spawn(a.lock(name("orders")).shared().acquire());
    waiting(&live, "orders", 1).await;
    let shared = second.downgrade().await.unwrap();
    assert!(shared.token() > handed.token);
    assert_eq!(shared.mode(), Mode::Shared);
    let reader = soon("a reader comes in", reader).await.unwrap().unwrap();
    assert_eq!(reader.token(), shared.token());
    shared.release().await.unwrap();
    reader.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_reported_in_time_is_overdue_and_the_session_lives() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    let interval = Duration::from_secs(2);
    let asked = session.lock(name("orders")).progress_every(interval).lock_delay(Duration::ZERO);
    let guard = asked.acquire().await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < 2 * interval {
        guard.report_progress().await.unwrap();
        tokio::time::sleep(interval / 4).await;
    }
    assert!(guard.check().is_ok(), "it reported");
    soon("work must stop", guard.suspended()).await;
    assert_eq!(soon("it is told", guard.lost()).await, LostReason::Ended(Ended::Overdue));
    hold(&session, "orders").await.release().await.unwrap();

    // An operator takes it.
    let guard = hold(&session, "orders").await;
    let broken =
        client.break_lock(guard.lock(), guard.slot(), guard.token(), Closed::For(Duration::ZERO)).await;
    assert_eq!(broken.unwrap().holders.len(), 1);
    assert_eq!(soon("it is told", guard.lost()).await, LostReason::Ended(Ended::Broken));
    assert!(matches!(guard.set_metadata(b"late").await, Err(palisade_client::HoldError::NotHeld { .. })));
    hold(&session, "orders").await.release().await.unwrap();
}

async fn set(session: &Session) -> palisade_client::GuardSet {
    let asked = session.lock_all([name("a"), name("b")]).owner(owner("both")).acquire();
    soon("both are granted", asked).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_at_once_semaphores_and_waits_that_would_never_end() {
    let live = Live::start(3).await;
    let client = live.client(TTL);
    let session = client.open_session().await.unwrap();
    let both = set(&session).await;
    let tokens: Vec<_> = both.guards().map(|guard| guard.token()).collect();
    assert!(tokens.len() == 2 && tokens[0] == tokens[1]);
    both.release().await.unwrap();
    drop(set(&session).await);
    set(&session).await.release().await.unwrap();

    let permits = |permits| session.lock(name("slots")).capacity(3).permits(permits);
    let two = permits(2).acquire().await.unwrap();
    let slots: Vec<u32> = two.guards().map(|guard| guard.slot().0).collect();
    assert_eq!(slots, [0, 1]);
    assert!(matches!(permits(2).try_now().acquire().await, Err(AcquireError::Held { .. })));
    let other = session.lock(name("slots")).capacity(4).try_now().acquire().await;
    assert!(matches!(other, Err(AcquireError::CapacityDiffers { capacity: 3, .. })), "{other:?}");
    two.release().await.unwrap();

    let (x, y) = (session.lock(name("x")), session.lock(name("y")));
    let _x = x.owner(owner("one")).acquire().await.unwrap();
    let _y = y.owner(owner("two")).acquire().await.unwrap();
    let waits = tokio::spawn(session.lock(name("y")).owner(owner("one")).acquire());
    waiting(&live, "y", 1).await;
    let closing = soon("it is refused", session.lock(name("x")).owner(owner("two")).acquire()).await;
    let Err(AcquireError::WouldDeadlock { cycle, .. }) = closing else { panic!("{closing:?}") };
    let mut owners: Vec<_> = cycle.iter().map(|step| step.owner.as_str()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["one", "two"]);
    waits.abort();
}
