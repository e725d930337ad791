//! What operators ask: of no session, and repeated until it is decided.

use std::time::Duration;

use palisade_client::CallError;
use palisade_client::operators::Closed;
use palisade_core::ids::Slot;
use palisade_core::token::Token;
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;

use crate::fake::{Scene, orders, soon};

fn token() -> Token {
    Token::new(40).expect("a token")
}

#[tokio::test]
async fn a_break_is_asked_again_as_it_was_and_says_who_held() {
    let mut scene = Scene::start().await;
    let client = scene.client.clone();
    let breaking = tokio::spawn(async move {
        client.break_lock(&orders(), Slot(0), token(), Closed::For(Duration::from_secs(3))).await
    });
    let first = scene.stream.request().await;
    assert_eq!(first.session, 0);
    assert!(
        matches!(&first.op, Some(Op::BreakLock(sent)) if (sent.token, sent.closed_ms) == (40, Some(3_000)))
    );
    scene.stream.refuse(&first, "OUTCOME_UNKNOWN").await;
    let second = scene.stream.request().await;
    assert_eq!(second.op, first.op);
    let mut stream = scene.stream.broken(&mut scene.node, Vec::new()).await;
    let third = stream.request().await;
    assert_eq!(third.op, first.op);
    let holders = vec![v1::Holder { client: "worker-a".to_owned(), ..v1::Holder::default() }];
    stream.respond(&third, Answer::Broken(v1::Broken { holders, closed_ms: 3_000 })).await;
    let broken = soon(breaking).await.expect("it ran").expect("it is broken");
    assert_eq!(broken.holders[0].client, "worker-a");
}

#[tokio::test]
async fn a_refusal_is_told_by_its_name() {
    let mut scene = Scene::start().await;
    let client = scene.client.clone();
    let setting = tokio::spawn(async move { client.set_capacity(&orders(), 5).await });
    let request = scene.stream.request().await;
    scene.stream.refuse(&request, "NOT_IN_USE").await;
    let outcome = soon(setting).await.expect("it ran");
    assert!(matches!(&outcome, Err(CallError::Refused { name, .. }) if name == "NOT_IN_USE"), "{outcome:?}");
}

#[tokio::test]
async fn safely_is_left_to_the_cluster() {
    let mut scene = Scene::start().await;
    let client = scene.client.clone();
    let id = palisade_core::ids::SessionId(3);
    let ending = tokio::spawn(async move { client.end_session(id, Closed::Safely).await });
    let request = scene.stream.request().await;
    assert!(matches!(&request.op, Some(Op::EndSession(sent)) if (sent.session, sent.closed_ms) == (3, None)));
    scene.stream.respond(&request, Answer::Stopped(v1::Stopped { held: 2, waited: 1 })).await;
    assert_eq!(soon(ending).await.expect("it ran"), Ok(v1::Stopped { held: 2, waited: 1 }));
}
