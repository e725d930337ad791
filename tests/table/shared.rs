//! Readers and writers of one lock.

use palisade_proto::v1;
use serde_json::json;

use super::{acquire, caller, part};
use crate::live::{Live, SECRET, Script, eventually, insist, no_wait, release, status_name, while_session};

fn shared(lock: &str) -> Vec<v1::AcquirePart> {
    vec![v1::AcquirePart { mode: v1::Mode::Shared.into(), ..part(lock) }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_a_token_over_a_lost_leader_and_a_writer_is_not_starved() {
    let mut live = Live::start(3).await;
    let [stays, other] = live.followers().await;
    let (mut left, mut right) = (caller(&live, stays, "left").await, caller(&live, other, "right").await);
    let first = left.acquire(acquire(1, shared("catalogue"), no_wait())).await.unwrap();
    let second = right.acquire(acquire(1, shared("catalogue"), no_wait())).await.unwrap();
    assert_eq!(first.parts[0].token, second.parts[0].token);
    assert!(first.grant_index < second.grant_index);

    // A writer waits, and a reader that comes behind it waits, too.
    let writer = caller(&live, stays, "writer").await;
    let write = acquire(1, vec![part("catalogue")], while_session());
    let write = tokio::spawn(writer.clone().wait_for(write));
    let queued = async |count: u64| {
        let status = live.status(stays).await?;
        (status.waiters == count).then_some(())
    };
    eventually("the writer waits", async || queued(1).await).await;
    let late = Script::open(live.address(stays), SECRET).await;
    let ask = json!({ "lock": "catalogue", "mode": "shared", "wait": "session", "poll_ms": 0 });
    assert_eq!(late.acquire(1, ask.clone()).await.status, 202);

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    assert_eq!(late.acquire(1, ask.clone()).await.status, 202, "it does not slip in");
    for (caller, grant) in [(&mut left, &first), (&mut right, &second)] {
        insist("the release", async || caller.release(release(grant)).await).await.unwrap();
    }
    let written = write.await.unwrap().unwrap();
    let token = written.parts[0].token;
    assert!(token > second.parts[0].token, "the writer shuts the readers before it out");

    // The writer becomes a reader, and lets the one behind it in under the same new token.
    let mut writer = writer;
    let downgrade = v1::Downgrade { acquisition: writer.id(1), lock: "catalogue".to_owned(), token };
    let read = insist("the downgrade", async || writer.downgrade(downgrade.clone()).await).await.unwrap();
    assert_eq!(read.parts[0].mode(), v1::Mode::Shared);
    assert!(read.parts[0].token > token);
    assert_eq!(writer.downgrade(downgrade).await.unwrap(), read, "a repeat is told the same");
    let joined = late.acquire(1, ask).await.json();
    assert_eq!(
        (&joined["state"], &joined["token"]),
        (&json!("granted"), &json!(read.parts[0].token.to_string()))
    );
    let stale = v1::Release { token, ..release(&written) };
    assert_eq!(status_name(&writer.release(stale).await.unwrap_err()), "NOT_HELD", "the old token is over");
    writer.release(release(&read)).await.unwrap();
}
