//! What a holder passes on: metadata, a baton, and the lock itself.

use palisade_proto::v1;
use palisade_proto::v1::event::What;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use serde_json::json;

use super::{TTL, acquire, caller, part};
use crate::live::{
    Live, Seen, eventually, get, insist, no_wait, open_session, release, status_name, while_session,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_handed_to_a_named_waiter_with_its_baton_over_a_lost_leader() {
    let mut live = Live::start(3).await;
    let [stays, other] = live.followers().await;
    let mut holder = caller(&live, stays, "primary").await;
    let asked =
        v1::Acquire { metadata: b"10.0.0.7:80".to_vec(), ..acquire(1, vec![part("primary")], no_wait()) };
    let grant = holder.acquire(asked).await.unwrap();
    let token = grant.parts[0].token;
    let (acquisition, lock) = (grant.acquisition, "primary".to_owned());
    let baton = v1::SetBaton {
        acquisition,
        lock: lock.clone(),
        slot: 0,
        token,
        revision: 1,
        baton: b"page 7".to_vec(),
    };
    assert_eq!(holder.set_baton(baton.clone()).await.unwrap(), 1);
    let metadata = v1::SetMetadata { acquisition, token, revision: 2, metadata: b"10.0.0.7:8080".to_vec() };
    assert_eq!(holder.set_metadata(metadata.clone()).await.unwrap(), 2);

    // Two wait, each on a stream of its own; nobody can be given what nobody awaits.
    let asked = v1::HandOver { acquisition, lock: lock.clone(), slot: 0, token, to: 0 };
    assert_eq!(status_name(&holder.hand_over(asked.clone()).await.unwrap_err()), "NOBODY_TO_HAND_TO");
    let (first, second) = (
        open_session(live.channel(stays), TTL, "first").await,
        open_session(live.channel(stays), TTL, "second").await,
    );
    let mut raw = live.raw(stays).await;
    for session in [&first, &second] {
        raw.bind(session).await;
        let ask = acquire(1, vec![part("primary")], while_session());
        let answer = raw.ask(session.id, Op::Acquire(ask)).await;
        assert!(matches!(answer.result, Some(Answer::Queued(_))), "{answer:?}");
    }

    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    // An earlier copy of what the holder wrote changes nothing.
    let late = v1::SetMetadata { revision: 1, metadata: b"10.0.0.6:80".to_vec(), ..metadata.clone() };
    assert_eq!(insist("a late copy", async || holder.set_metadata(late.clone()).await).await.unwrap(), 2);
    let who = eventually("the view", async || {
        let answer = get(live.address(other), "/v1/locks/who?name=primary").await?;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    assert_eq!(who["slots"][0]["holders"][0]["metadata"], "10.0.0.7:8080");
    assert_eq!(who["batons"], json!([{ "slot": 0, "baton": "page 7", "token": token.to_string() }]));

    // The second is given it, past the first; its stream was bound again for the new leader.
    raw.find("another leader", |seen| match seen {
        Seen::Leader(leader) if !leader.client_address.is_empty() || leader.here => Some(()),
        Seen::Leader(_) | Seen::Response(_) | Seen::Event(_) | Seen::Renewed(_) => None,
    })
    .await;
    for session in [&first, &second] {
        eventually("it is bound", async || {
            let bind = Op::Bind(v1::Bind { secret: session.secret.clone() });
            matches!(raw.ask(session.id, bind).await.result, Some(Answer::Bound(_))).then_some(())
        })
        .await;
    }
    let asked = v1::HandOver { to: second.id, ..asked };
    let handed = insist("the handover", async || holder.hand_over(asked.clone()).await).await.unwrap();
    let again = holder.hand_over(asked).await.unwrap();
    assert_eq!(again, v1::HandedOver::default(), "a repeat tells of no other");
    let given = raw
        .find("the grant", |seen| match seen {
            Seen::Event(v1::Event { session, what: Some(What::Granted(grant)), .. })
                if *session == second.id =>
            {
                Some(grant.clone())
            }
            Seen::Event(_) | Seen::Response(_) | Seen::Leader(_) | Seen::Renewed(_) => None,
        })
        .await;
    let inherited = given.parts[0].inherited.clone().unwrap();
    assert_eq!((inherited.ended(), inherited.client.as_str()), (v1::Ended::HandedOver, "primary"));
    assert_eq!(
        (&inherited.baton[..], inherited.token, inherited.baton_token),
        (&b"page 7"[..], token, token)
    );
    // The repeat may have been the first to be answered by the new leader.
    if handed != v1::HandedOver::default() {
        assert_eq!((handed.to, handed.token), (given.acquisition, given.parts[0].token));
    }

    // What the earlier holder sends from now on is stale.
    for status in [
        holder.set_baton(v1::SetBaton { revision: 9, ..baton }).await.unwrap_err(),
        holder.set_metadata(v1::SetMetadata { revision: 9, ..metadata }).await.unwrap_err(),
    ] {
        assert_eq!(status_name(&status), "ALREADY_ENDED", "{status}");
    }
    assert_eq!(status_name(&holder.release(release(&grant)).await.unwrap_err()), "ALREADY_ENDED");
}
