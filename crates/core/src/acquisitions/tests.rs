use super::*;
use crate::ids::{GuardName, OwnerLabel};

fn held() -> Acquisition {
    let token = Token::new(7).unwrap();
    let lock = LockName::new("l").unwrap();
    let part = AcquirePart {
        lock: lock.clone(),
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay: LockDelay::Named(Millis(5)),
        fenced_by: Vec::new(),
    };
    let (slot, mode, delay) = (Slot(0), Mode::Exclusive, Millis(5));
    let held = HeldPart { lock, slot, mode, token, delay, downgraded_from: None, baton_revision: 0 };
    Acquisition {
        content: ContentHash(1),
        parts: vec![part],
        wait: Wait::Bounded(Millis(9)),
        owner: None,
        terms: Terms::default(),
        metadata_revision: 0,
        arrived: LogIndex(6),
        arrived_at: WallTime(60),
        state: AcquisitionState::Holding {
            grant: LogIndex(7),
            held: vec![held],
            reports: Reports::default(),
        },
    }
}

fn held_part(acquisition: &mut Acquisition) -> &mut HeldPart {
    match &mut acquisition.state {
        AcquisitionState::Holding { held, .. } => &mut held[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plain_hold_is_the_same_when_it_is_looked_at_again() {
    for wait in [Wait::Try, Wait::Bounded(Millis(9)), Wait::Session] {
        for delay in [LockDelay::Named(Millis(5)), LockDelay::Default(Millis(5))] {
            let mut one = Acquisition { wait, ..held() };
            one.parts[0].delay = delay;
            let mut all = Acquisitions::default();
            all.insert(RequestNumber(1), one.clone());
            assert!(all.get_whole(RequestNumber(1)).is_none(), "it is plain");
            assert_eq!(all.get(RequestNumber(1)).as_deref(), Some(&one));
            assert_eq!(all.plain_part(RequestNumber(1)).as_ref(), Some(&*held_part(&mut one.clone())));
            assert_eq!(all.get_mut(RequestNumber(1)), Some(&mut one.clone()));
            assert_eq!(all.get_whole(RequestNumber(1)), Some(&one), "it may be changed");
            assert_eq!((all.plain_part(RequestNumber(1)), all.remove_plain(RequestNumber(1))), (None, None));
            assert_eq!(all.remove(RequestNumber(1)), Some(one));
        }
    }
}

#[test]
fn whatever_else_there_is_to_know_is_kept() {
    let changes: [fn(&mut Acquisition); 15] = [
        |a| a.owner = OwnerLabel::new("task").ok(),
        |a| a.terms.hold_max = Some(Millis(1)),
        |a| a.metadata_revision = 1,
        |a| a.state = AcquisitionState::Waiting,
        |a| a.parts[0].permits = 2,
        |a| a.parts[0].capacity = 2,
        |a| held_part(a).slot = Slot(1),
        |a| a.arrived = LogIndex(8),
        |a| a.parts[0].fenced_by = vec![GuardName::new("db").unwrap()],
        |a| a.parts.push(a.parts[0].clone()),
        |a| a.parts[0].delay = LockDelay::Named(Millis(u64::MAX)),
        |a| held_part(a).delay = Millis(6),
        |a| held_part(a).downgraded_from = Token::new(3),
        |a| held_part(a).baton_revision = 1,
        |a| {
            if let AcquisitionState::Holding { reports, .. } = &mut a.state {
                reports.number = 1;
            }
        },
    ];
    for change in changes {
        let mut one = held();
        change(&mut one);
        let mut all: Acquisitions = [(RequestNumber(1), one.clone())].into_iter().collect();
        assert_eq!(all.get_whole(RequestNumber(1)), Some(&one));
        all.insert(RequestNumber(1), one.clone());
        assert_eq!(all.get_whole(RequestNumber(1)), Some(&one));
    }
}

#[test]
fn both_kinds_come_in_the_order_of_their_numbers() {
    let mut all: Acquisitions = (1..=6).map(|number| (RequestNumber(number), held())).collect();
    for number in [2, 5] {
        all.get_mut(RequestNumber(number)).unwrap().metadata_revision = 1;
    }
    let whole: Vec<bool> = all.iter_whole().map(|(_, whole)| whole.is_some()).collect();
    assert_eq!(whole, [false, true, false, false, true, false]);
    assert!(all.iter().map(|(number, _)| number.0).eq(1..=6));
    assert_eq!((all.len(), all.count_from(RequestNumber(3))), (6, 4));
    assert_eq!(all, all.clone().into_iter().collect());
    all.insert(RequestNumber(2), held());
    all.insert(RequestNumber(1), Acquisition { metadata_revision: 1, ..held() });
    let whole: Vec<bool> = all.iter_whole().map(|(_, whole)| whole.is_some()).collect();
    assert_eq!(whole, [true, false, false, false, true, false]);
}

#[test]
fn a_plain_hold_takes_64_bytes() {
    assert!(size_of::<Plain>() <= 64, "{}", size_of::<Plain>());
}
