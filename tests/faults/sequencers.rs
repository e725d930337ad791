//! What a resource asks about a sequencer, of every node, and of the last one that is left.

use std::time::Duration;

use palisade_proto::v1;
use palisade_proto::v1::sequencers_client::SequencersClient;
use palisade_proto::v1::verdict::State;

use crate::live::{Live, eventually, name, soon};

/// Claims of one call.
const BATCH: usize = 32;

async fn check(
    live: &Live,
    node: usize,
    items: &[(String, &str)],
) -> Result<Vec<v1::Verdict>, tonic::Status> {
    let mut verdicts = Vec::new();
    for batch in items.chunks(BATCH) {
        let items = batch.iter().map(|(sequencer, lock)| v1::CheckItem {
            what: Some(v1::check_item::What::Sequencer(sequencer.clone())),
            lock: (*lock).to_owned(),
        });
        let check = v1::Check { items: items.collect() };
        let mut client = SequencersClient::new(live.channel(node));
        verdicts.extend(soon("a verdict", client.check(check)).await?.into_inner().verdicts);
    }
    Ok(verdicts)
}

async fn one(live: &Live, node: usize, sequencer: &str, lock: &str) -> Result<v1::Verdict, tonic::Status> {
    Ok(check(live, node, &[(sequencer.to_owned(), lock)]).await?.remove(0))
}

/// Every text that differs from this one in one character.
fn altered(text: &str) -> impl Iterator<Item = String> {
    (0..text.len()).map(|at| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_takes_a_sequencer_that_the_cluster_did_not_sign_for_this_lock() {
    let live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = session.lock(name("orders")).with_sequencer().acquire().await.unwrap();
    let other = session.lock(name("another")).with_sequencer().acquire().await.unwrap();
    let genuine = guard.sequencer().await.unwrap();
    let others = other.sequencer().await.unwrap();
    // The claims of one with the signature of another.
    let spliced = format!("{}.{}", genuine.rsplit_once('.').unwrap().0, others.rsplit_once('.').unwrap().1);
    let mut forged: Vec<_> = altered(&genuine).map(|text| (text, "")).collect();
    forged.push((spliced, ""));
    for node in 0..3 {
        assert_eq!(one(&live, node, &genuine, "orders").await.unwrap().state(), State::Current);
        let wrong = one(&live, node, &genuine, "another").await.unwrap();
        assert_eq!(wrong.state(), State::WrongLock, "{wrong:?}");
        let verdicts = check(&live, node, &forged).await.unwrap();
        assert_eq!(verdicts.len(), forged.len());
        for (verdict, (text, _)) in verdicts.iter().zip(&forged) {
            // A changed key id names no key.
            let refused = matches!(verdict.state(), State::Forged | State::UnknownKey);
            assert!(refused && verdict.token == 0, "{verdict:?}\n{text}");
        }
        assert_eq!(verdicts.last().unwrap().state(), State::Forged);
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_node_still_rejects_what_it_knows_to_be_superseded() {
    let mut live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let take = async || session.lock(name("orders")).with_sequencer().acquire().await.unwrap();
    let first = take().await;
    let stale = first.sequencer().await.unwrap();
    first.release().await.unwrap();
    let second = take().await;
    let present = second.sequencer().await.unwrap();

    let leader = live.leader().await;
    let [last, other] = live.followers().await;
    eventually("the follower has applied it", async || {
        let status = live.status(last).await?;
        (status.nodes[0].applied >= second.grant_index()).then_some(())
    })
    .await;
    live.cluster.kill(leader);
    live.cluster.kill(other);
    eventually("the node knows that it is alone", async || {
        let status = live.status(last).await?;
        (!status.healthy).then_some(())
    })
    .await;

    let verdict = one(&live, last, &stale, "orders").await.unwrap();
    assert_eq!(verdict.state(), State::Superseded, "{verdict:?}");
    assert_eq!(verdict.superseded_by, second.token().get());
    let unproved = one(&live, last, &present, "orders").await;
    assert_eq!(unproved.unwrap_err().code(), tonic::Code::Unavailable, "only a majority says current");
}

/// Checks at one time: several times as many as a node verifies at one time.
const AT_ONCE: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequencer_that_was_verified_before_is_checked_however_many_ask_at_once() {
    let live = Live::start(3).await;
    let client = live.client(Duration::from_secs(60));
    let session = client.open_session().await.unwrap();
    let guard = session.lock(name("orders")).with_sequencer().acquire().await.unwrap();
    let sequencer = guard.sequencer().await.unwrap();
    for node in 0..3 {
        one(&live, node, &sequencer, "orders").await.unwrap();
        let channel = live.channel(node);
        let checks = (0..AT_ONCE).map(|_| {
            let item = v1::CheckItem {
                what: Some(v1::check_item::What::Sequencer(sequencer.clone())),
                lock: "orders".to_owned(),
            };
            let mut client = SequencersClient::new(channel.clone());
            async move { client.check(v1::Check { items: vec![item] }).await }
        });
        for answer in soon("all verdicts", futures_util::future::join_all(checks)).await {
            assert_eq!(answer.unwrap().into_inner().verdicts[0].state(), State::Current);
        }
    }
}
