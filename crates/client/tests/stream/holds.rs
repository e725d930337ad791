//! What a holder asks about its own hold: metadata, batons, downgrades and handovers; each also over a broken connection.

use palisade_client::{ChangeError, HoldError, LockGuard, LostReason};
use palisade_core::ids::SessionId;
use palisade_core::reply::Ended;
use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::fake::{Scene, granted, orders, part, release, soon};

/// A guard under token 40, of acquisition 1.
async fn held(scene: &mut Scene) -> LockGuard {
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    scene.stream.grant(&request, 40).await;
    soon(asked).await.expect("it ran").expect("a guard")
}

/// As a binding lists it.
fn listed(grant: v1::Grant) -> Vec<v1::BoundAcquisition> {
    vec![v1::BoundAcquisition { number: 1, grant: Some(grant) }]
}

fn written(revision: u64) -> Answer {
    Answer::Written(v1::Written { revision })
}

fn downgraded(token: u64) -> v1::Grant {
    let part = v1::GrantedPart { mode: v1::Mode::Shared.into(), ..part("orders", 0, token) };
    v1::Grant { parts: vec![part], ..granted(7, 1, token) }
}

#[tokio::test]
async fn a_holder_hears_what_it_inherits() {
    let mut scene = Scene::start().await;
    let asked = tokio::spawn(scene.session.lock(orders()).acquire());
    let request = scene.stream.request().await;
    let mut grant = granted(7, 1, 40);
    grant.parts[0].inherited = Some(v1::Inherited {
        token: 33,
        client: "worker-a".to_owned(),
        ended: v1::Ended::Expired.into(),
        baton: b"page 7".to_vec(),
        baton_token: 21,
    });
    scene.stream.respond_so(&request, Answer::Granted(grant), true).await;
    let guard = soon(asked).await.expect("it ran").expect("a guard");
    let inherited = guard.inherited().expect("a predecessor");
    assert_eq!((inherited.token.get(), inherited.ended), (33, Ended::Expired));
    assert_eq!(inherited.baton.as_bytes(), b"page 7");
    assert_eq!(inherited.baton_token.map(palisade_core::token::Token::get), Some(21));
}

#[tokio::test]
async fn metadata_is_written_again_as_it_was_and_the_next_has_the_next_revision() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let writing = tokio::spawn(async move { (guard.set_metadata(b"10.0.0.3:80").await, guard) });
    let first = scene.stream.request().await;
    let mut stream = scene.stream.broken(&mut scene.node, listed(granted(7, 1, 40))).await;
    let second = stream.request().await;
    assert_eq!(second.op, first.op);
    let Some(Op::SetMetadata(sent)) = &second.op else { panic!("{second:?}") };
    assert_eq!((sent.token, sent.revision), (40, 1));
    stream.respond(&second, written(1)).await;
    let (outcome, guard) = soon(writing).await.expect("it ran");
    assert_eq!(outcome, Ok(()));
    let writing = tokio::spawn(async move { (guard.set_metadata(b"elsewhere").await, guard) });
    let third = stream.request().await;
    assert!(matches!(&third.op, Some(Op::SetMetadata(sent)) if sent.revision == 2), "{third:?}");
    stream.respond(&third, written(2)).await;
    assert_eq!(soon(writing).await.expect("it ran").0, Ok(()));
}

#[tokio::test]
async fn revisions_of_an_earlier_process_are_passed() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let writing = tokio::spawn(async move { (guard.set_metadata(b"mine").await, guard) });
    let request = scene.stream.request().await;
    scene.stream.respond(&request, written(9)).await;
    let again = scene.stream.request().await;
    assert!(matches!(&again.op, Some(Op::SetMetadata(sent)) if sent.revision == 10), "{again:?}");
    scene.stream.respond(&again, written(10)).await;
    assert_eq!(soon(writing).await.expect("it ran").0, Ok(()));
}

#[tokio::test]
async fn a_stale_baton_fails_as_a_late_release_does_and_the_guard_is_lost() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let leaving = tokio::spawn(async move { (guard.leave_baton(b"page 8").await, guard) });
    let request = scene.stream.request().await;
    let Some(Op::SetBaton(sent)) = &request.op else { panic!("{request:?}") };
    assert_eq!((sent.lock.as_str(), sent.slot, sent.token, sent.revision), ("orders", 0, 40, 1));
    let error =
        v1::Error { name: "BROKEN".to_owned(), ended: v1::Ended::Broken.into(), ..v1::Error::default() };
    scene.stream.respond(&request, Answer::Error(error)).await;
    let (outcome, guard) = soon(leaving).await.expect("it ran");
    assert!(matches!(outcome, Err(HoldError::NotHeld { ended: Some(Ended::Broken), .. })), "{outcome:?}");
    assert_eq!(soon(guard.lost()).await, LostReason::Ended(Ended::Broken));
}

#[tokio::test]
async fn a_hold_that_is_taken_away_is_lost_at_once_and_says_how() {
    for (told, how) in [(v1::Ended::Overdue, Ended::Overdue), (v1::Ended::Broken, Ended::Broken)] {
        let mut scene = Scene::start().await;
        let guard = held(&mut scene).await;
        let lost = guard.lost();
        let ended =
            v1::HoldEnded { number: 1, lock: "orders".to_owned(), slot: 0, token: 40, ended: told.into() };
        // One of an earlier tenure says nothing of this one.
        let earlier = v1::HoldEnded { token: 39, ended: v1::Ended::Expired.into(), ..ended.clone() };
        scene.stream.event(7, What::HoldEnded(earlier)).await;
        scene.stream.event(7, What::HoldEnded(ended)).await;
        assert_eq!(soon(lost).await, LostReason::Ended(how));
        assert!(guard.check().is_err());
        let outcome = soon(guard.release()).await;
        assert!(
            matches!(outcome, Err(palisade_client::ReleaseError::NotHeld { ended: Some(ended), .. }) if ended == how),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_downgrade_is_asked_again_over_a_broken_connection_and_has_a_new_token() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let changing = tokio::spawn(guard.downgrade());
    let first = scene.stream.request().await;
    assert!(matches!(&first.op, Some(Op::Downgrade(sent)) if sent.token == 40), "{first:?}");
    // It took effect, and its answer was lost.
    let mut stream = scene.stream.broken(&mut scene.node, listed(downgraded(44))).await;
    let second = stream.request().await;
    assert_eq!(second.op, first.op);
    stream.respond(&second, Answer::Downgraded(v1::Downgraded { grant: Some(downgraded(44)) })).await;
    let guard = soon(changing).await.expect("it ran").expect("a guard");
    assert_eq!(guard.token().get(), 44);
    assert!(guard.check().is_ok());
    let releasing = tokio::spawn(guard.release());
    let request = stream.request().await;
    assert_eq!(release(&request).token, 44);
    stream.respond(&request, crate::fake::released()).await;
    assert!(soon(releasing).await.expect("it ran").is_ok());
}

#[tokio::test]
async fn what_a_dropped_downgrade_left_is_released() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let changing = tokio::spawn(guard.downgrade());
    let request = scene.stream.request().await;
    changing.abort();
    let _ = changing.await;
    scene.stream.respond(&request, Answer::Downgraded(v1::Downgraded { grant: Some(downgraded(44)) })).await;
    assert_eq!(release(&scene.stream.request().await).token, 44);
}

#[tokio::test]
async fn a_handover_names_who_came_and_is_asked_again_over_a_broken_connection() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let lost = guard.lost();
    let handing = tokio::spawn(guard.hand_over(Some(SessionId(9))));
    let first = scene.stream.request().await;
    assert!(matches!(&first.op, Some(Op::HandOver(sent)) if (sent.token, sent.to) == (40, 9)), "{first:?}");
    // It took effect, and its answer was lost: the binding's list has nothing of it.
    let mut stream = scene.stream.broken(&mut scene.node, Vec::new()).await;
    let second = stream.request().await;
    assert_eq!(second.op, first.op);
    let to = Some(v1::AcquisitionId { session: 9, number: 4 });
    stream.respond(&second, Answer::HandedOver(v1::HandedOver { to, token: 51 })).await;
    let handed = soon(handing).await.expect("it ran").expect("handed over");
    assert_eq!((handed.to.session, handed.token.get()), (SessionId(9), 51));
    assert_eq!(soon(lost).await, LostReason::Ended(Ended::HandedOver));
}

#[tokio::test]
async fn with_nobody_to_hand_to_the_lock_is_kept() {
    let mut scene = Scene::start().await;
    let guard = held(&mut scene).await;
    let handing = tokio::spawn(guard.hand_over(None));
    let request = scene.stream.request().await;
    scene.stream.refuse(&request, "NOBODY_TO_HAND_TO").await;
    let outcome = soon(handing).await.expect("it ran");
    let Err(error @ ChangeError::Nobody { .. }) = outcome else { panic!("{outcome:?}") };
    let guard = error.into_guard().expect("it is kept");
    assert!(guard.check().is_ok());
    drop(guard);
    assert_eq!(release(&scene.stream.request().await).token, 40);
}
