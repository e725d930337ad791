//! The leader alone is left: the others could have elected another, for all that it knows.

use std::time::{Duration, Instant};

use palisade_proto::v1;
use palisade_proto::v1::locks_client::LocksClient;
use palisade_proto::v1::request::Op;

use crate::live::{
    Live, Seen, acknowledges, acquire, error_name, eventually, get, no_wait, open_session, soon,
};

/// Several election timeouts.
const ISOLATED: Duration = Duration::from_secs(3);
/// A caller hears at latest after this that there is no quorum: an election timeout, and the machine's sloth.
const PROMPT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_acknowledges_nothing_and_says_so() {
    let live = Live::start(3).await;
    let leader = live.leader().await;
    let followers = live.followers().await;
    let session = open_session(live.channel(leader), Duration::from_secs(60), "cut off").await;
    let mut raw = live.raw(leader).await;
    raw.bind(&session).await;
    assert!(acknowledges(&raw.renew(1, &[session.id]).await, session.id));

    for follower in followers {
        live.pause(follower).await;
    }
    let cut = Instant::now();
    let asked = raw.send_op(session.id, Op::Acquire(acquire(1, "orders", no_wait()))).await;
    let mut number = 1;
    let mut told = false;
    while cut.elapsed() < ISOLATED {
        number += 1;
        raw.send_renew(number, &[session.id]).await;
        while let Some(seen) = raw.next(Duration::from_millis(50)).await {
            match seen {
                Seen::Renewed(renewed) => assert!(!acknowledges(&renewed, session.id), "{renewed:?}"),
                Seen::Response(response) if response.tag == asked => {
                    let name = error_name(&response);
                    assert!(["OUTCOME_UNKNOWN", "NO_QUORUM"].contains(&name), "{response:?}");
                    assert!(cut.elapsed() < PROMPT, "told after {:?}", cut.elapsed());
                    told = true;
                }
                // It may give up the lead: what was asked is unanswered then, and to be asked again.
                Seen::Leader(_) => told = true,
                Seen::Response(_) | Seen::Event(_) => {}
            }
        }
    }
    assert!(told, "the request was left hanging");

    // Whoever asks now is told at once, and whoever balances load sends nobody here.
    let began = Instant::now();
    let mut locks = LocksClient::new(live.channel(leader));
    let refused = soon("the caller is told", locks.get(v1::GetLock { lock: "orders".into() })).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::Unavailable);
    assert!(began.elapsed() < PROMPT, "told after {:?}", began.elapsed());
    assert_eq!(get(live.address(leader), "/readyz").await.unwrap().status, 503);
    assert_eq!(get(live.address(leader), "/livez").await.unwrap().status, 200);

    for follower in followers {
        live.cluster.wake(follower);
    }
    live.ready().await;
    let mut raw = live.raw(leader).await;
    let renewed = eventually("it is renewed again", async || {
        let bound = Op::Bind(v1::Bind { secret: session.secret.clone() });
        // The leader may change once more while the three find together.
        let mut again = live.raw(leader).await;
        let bound = again.ask(session.id, bound).await;
        if !error_name(&bound).is_empty() {
            return None;
        }
        let renewed = again.renew(1, &[session.id]).await;
        acknowledges(&renewed, session.id).then_some(renewed)
    })
    .await;
    assert_eq!(renewed.error, None);
    // What was asked under its number is decided once, whatever became of it.
    raw.bind(&session).await;
    let first = raw.granted(session.id, acquire(1, "orders", no_wait())).await;
    let again = raw.granted(session.id, acquire(1, "orders", no_wait())).await;
    assert_eq!(first, again);
}
