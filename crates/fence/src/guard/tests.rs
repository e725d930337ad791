use std::sync::{Arc, Mutex};

use palisade_core::holding::NotHolding;
use palisade_core::mode::Mode;
use palisade_core::rejections::Above;

use super::*;
use crate::adapters::memory::MemoryResource;
use crate::conformance::SigningCluster;
use crate::trusted::TrustedToken;

const LOCK: &str = "orders/shard-7";

type Orders = Guard<MemoryResource<Vec<u64>>>;

fn lock() -> LockName {
    LockName::new(LOCK).unwrap()
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn orders(cluster: &SigningCluster) -> Orders {
    Guard::new(MemoryResource::new(Vec::new()), Scope::new(cluster.id(), lock()))
}

fn push(orders: &Orders, holding: &impl Holding) -> Result<(), FenceError> {
    orders.write(holding, |orders| {
        orders.push(holding.token().get());
        Ok(())
    })
}

#[test]
fn a_floor_refuses_before_any_successor_has_written() {
    let cluster = SigningCluster::new(1);
    let floor = Arc::new(Mutex::new(Floor::MarksAlone));
    let asked = Arc::clone(&floor);
    let orders = orders(&cluster).with_floors(move |_, _| *asked.lock().unwrap());
    push(&orders, &cluster.exclusive(LOCK, 34)).unwrap();
    *floor.lock().unwrap() = Floor::At(token(41));
    let refused = push(&orders, &cluster.exclusive(LOCK, 34));
    assert!(matches!(refused, Err(FenceError::Stale { mark, .. }) if mark == token(41)));
    assert_eq!(orders.mark(&lock(), Slot(0)).unwrap(), Some(HighWaterMark(token(34))));
    push(&orders, &cluster.exclusive(LOCK, 41)).unwrap();
    *floor.lock().unwrap() = Floor::Refuse;
    let holder = cluster.exclusive(LOCK, 41);
    assert!(matches!(push(&orders, &holder), Err(FenceError::NoFloor { .. })));
    assert!(holder.check().is_ok(), "a lost feed does not poison a holding");
}

#[test]
fn a_stale_refusal_is_counted_and_told_once_with_both_tokens() {
    let cluster = SigningCluster::new(1);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let orders = orders(&cluster).on_stale(move |rejection| {
        let tokens = (rejection.presented.get(), rejection.mark.get());
        tell.lock().unwrap().push((rejection.lock.to_string(), tokens, rejection.sequencer.is_some()));
    });
    let old = cluster.exclusive(LOCK, 34);
    push(&orders, &cluster.exclusive(LOCK, 41)).unwrap();
    orders.claim(&cluster.exclusive(LOCK, 42)).unwrap();
    assert!(push(&orders, &old).is_err());
    assert!(push(&orders, &old).is_err());
    assert_eq!(*told.lock().unwrap(), [(LOCK.to_owned(), (34, 42), true)]);
    assert_eq!(orders.counts(), Counts { claimed: 1, written: 1, stale: 1, other: 1 });
}

#[test]
fn what_is_reported_names_the_holder_and_what_was_above_it() {
    let cluster = SigningCluster::new(1);
    let tally = Arc::new(Tally::default());
    let orders = orders(&cluster).counted_in(Arc::clone(&tally));
    push(&orders, &cluster.exclusive(LOCK, 41)).unwrap();
    let told = |orders: &Orders, stale: u64| {
        assert!(push(orders, &cluster.exclusive(LOCK, stale)).is_err_and(|error| error.is_stale()));
        let told = tally.take_rejections().stale;
        let (holder, refused) = told.first_key_value().unwrap();
        assert_eq!((told.len(), holder.presented, refused.count), (1, token(stale), 1));
        assert_eq!((&holder.lock, holder.slot), (&lock(), Slot(0)));
        assert!(holder.acquisition.is_some(), "the sequencer names it");
        assert_eq!(holder.client, None, "no name is no client");
        (refused.mark, refused.above)
    };
    assert_eq!(told(&orders, 34), (token(41), Above::Mark));
    let orders = orders.with_floors(|_, _| Floor::At(token(52)));
    assert_eq!(told(&orders, 41), (token(52), Above::Floor));
    let orders = orders.with_floors(|_, _| Floor::At(token(30)));
    assert_eq!(told(&orders, 34), (token(41), Above::Mark), "a floor below the mark refuses nobody");
    assert_eq!((orders.counts().stale, tally.counts().stale), (3, 3));
}

#[test]
fn a_holder_that_should_not_act_is_stopped_before_the_resource_is_touched() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster);
    let holder = cluster.exclusive(LOCK, 34);
    holder.rejected(token(41));
    let stopped = push(&orders, &holder);
    assert!(matches!(stopped, Err(FenceError::NotHolding(NotHolding::Rejected { .. }))));
    assert_eq!(orders.mark(&lock(), Slot(0)).unwrap(), None);
}

#[test]
fn an_effect_that_fails_says_nothing_about_the_holding() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster);
    let holder = cluster.exclusive(LOCK, 34);
    let failed = orders.write(&holder, |_| Err::<(), _>(FenceError::effect("the order is malformed")));
    assert!(matches!(failed, Err(FenceError::Effect(_))));
    // Another resource, asked within the effect, may have refused another token.
    let elsewhere = orders.write(&holder, |_| {
        Err::<(), _>(FenceError::Stale { lock: lock(), slot: Slot(0), presented: token(1), mark: token(2) })
    });
    assert!(elsewhere.is_err());
    assert!(holder.check().is_ok());
    assert_eq!(orders.counts().stale, 0);
    push(&orders, &holder).unwrap();
}

#[test]
fn a_write_that_panicked_half_way_ends_the_resource() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster);
    let write = || orders.write(&cluster.exclusive(LOCK, 34), |_| -> Result<(), _> { panic!("half-way") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err());
    assert!(matches!(push(&orders, &cluster.exclusive(LOCK, 41)), Err(FenceError::Poisoned)));
}

#[test]
fn a_claim_reads_what_no_earlier_holder_can_change_any_more() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster);
    let old = cluster.exclusive(LOCK, 34);
    push(&orders, &old).unwrap();
    let read = orders.claim_and_read(&cluster.exclusive(LOCK, 41), |orders| Ok(orders.clone())).unwrap();
    assert!(push(&orders, &old).is_err_and(|error| error.is_stale()));
    assert_eq!(orders.adapter().read(Clone::clone).unwrap(), read);
}

#[test]
fn a_trusted_token_is_fenced_like_a_signed_one() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster);
    let old = TrustedToken::exclusive(lock(), token(34));
    push(&orders, &old).unwrap();
    push(&orders, &cluster.exclusive(LOCK, 41)).unwrap();
    assert!(push(&orders, &old).is_err_and(|error| error.is_stale()));
    assert!(old.check().is_err());
    let shared = TrustedToken::new(lock(), Slot(0), Mode::Shared, token(50));
    assert!(matches!(push(&orders, &shared), Err(FenceError::WrongMode { .. })));
}

#[test]
fn a_signed_floor_raises_the_mark_and_never_lowers_it() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster);
    let floor = |text: String| cluster.verifier().floor(&text).unwrap();
    push(&orders, &cluster.exclusive(LOCK, 34)).unwrap();
    let raised = orders.raise(&floor(cluster.floor(LOCK, 0, 41))).unwrap();
    assert_eq!((raised, orders.mark(&lock(), Slot(0)).unwrap()), (HighWaterMark(token(41)), Some(raised)));
    assert!(push(&orders, &cluster.exclusive(LOCK, 34)).is_err_and(|error| error.is_stale()));
    // A floor is no token: the tenure that begins there is admitted.
    push(&orders, &cluster.exclusive(LOCK, 41)).unwrap();
    push(&orders, &cluster.exclusive(LOCK, 52)).unwrap();
    assert_eq!(orders.raise(&floor(cluster.floor(LOCK, 0, 41))).unwrap(), HighWaterMark(token(52)));
    assert_eq!(orders.raise(&floor(cluster.floor(LOCK, 0, 52))).unwrap(), HighWaterMark(token(52)));
    assert_eq!(orders.adapter().read(|orders| orders.clone()).unwrap(), [34, 41, 52]);
    let (other, beyond) = (floor(cluster.floor("other", 0, 60)), floor(cluster.floor(LOCK, 1, 60)));
    assert!(matches!(orders.raise(&other), Err(FenceError::WrongLock { .. })));
    assert!(matches!(orders.raise(&beyond), Err(FenceError::WrongSlot { .. })));
}

#[test]
fn what_a_feed_said_is_no_durable_mark() {
    let cluster = SigningCluster::new(1);
    let orders = orders(&cluster).with_floors(|_, _| Floor::At(token(60)));
    let floor = cluster.verifier().floor(&cluster.floor(LOCK, 0, 41)).unwrap();
    orders.raise(&floor).unwrap();
    assert_eq!(orders.mark(&lock(), Slot(0)).unwrap(), Some(HighWaterMark(token(41))));
    let orders = self::orders(&cluster).with_floors(|_, _| Floor::Refuse);
    assert!(orders.raise(&floor).is_ok(), "a floor that is not known now does not keep the mark down");
}
