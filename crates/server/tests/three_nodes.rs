//! Three whole nodes in this process, over loopback, asked through every one of them.

use std::time::Duration;

use palisade_core::ids::{ClusterName, NodeName};
use palisade_host::Host;
use palisade_proto::v1::{
    self, cluster_client::ClusterClient, locks_client::LocksClient, sessions_client::SessionsClient,
};
use palisade_server::{InitialMember, Node, ServerConfig};

fn free() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string()
}

async fn start() -> Vec<Node> {
    let name = |number: usize| NodeName::new(&format!("n{number}")).expect("a name");
    let addresses: Vec<_> = (0..3).map(|_| free()).collect();
    let members: Vec<_> = addresses
        .iter()
        .enumerate()
        .map(|(at, address)| InitialMember { name: name(at), peer_address: address.clone() })
        .collect();
    let mut nodes = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        let cluster = ClusterName::new("test").expect("a name");
        let mut config = ServerConfig::new(name(at), cluster, members.clone());
        config.peer_listen = address.clone();
        nodes.push(Node::start(config, Host::system()).await.expect("the node starts"));
    }
    let ready = async {
        while !nodes.iter().all(Node::is_ready) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ready).await.expect("the cluster comes up");
    nodes
}

fn acquire(lock: &str, number: u64, wait: v1::wait::Kind) -> v1::Acquire {
    let part = v1::AcquirePart { lock: lock.to_owned(), ..v1::AcquirePart::default() };
    v1::Acquire {
        number,
        parts: vec![part],
        wait: Some(v1::Wait { kind: Some(wait) }),
        want_sequencer: true,
        ..v1::Acquire::default()
    }
}

#[tokio::test]
async fn a_lock_is_granted_through_every_node_and_its_token_is_the_log_index() {
    let nodes = start().await;
    let mut last = 0;
    for node in &nodes {
        let url = format!("http://{}", node.client_address());
        let mut sessions = SessionsClient::connect(url.clone()).await.expect("it connects");
        let mut locks = LocksClient::connect(url.clone()).await.expect("it connects");
        let open = v1::OpenSession { client: "a test".to_owned(), ..v1::OpenSession::default() };
        let opened =
            sessions.open(v1::OpenSessionCall { open: Some(open) }).await.expect("it opens").into_inner();
        let call = v1::AcquireCall {
            session: opened.session,
            secret: opened.secret.clone(),
            acquire: Some(acquire("orders/7", 1, v1::wait::Kind::Session(true))),
        };
        let grant = locks.acquire(call.clone()).await.expect("it is granted").into_inner();
        let part = grant.parts.first().expect("one part");
        assert_eq!(part.token, grant.grant_index, "nothing was restored: a token is a log index");
        assert!(part.token > last, "tokens rise");
        assert_eq!(grant.sequencers.len(), 1);
        last = part.token;

        let again = locks.acquire(call).await.expect("a repeat gets the same grant").into_inner();
        assert_eq!(again.grant_index, grant.grant_index);
        let view =
            locks.get(v1::GetLock { lock: "orders/7".to_owned() }).await.expect("it is read").into_inner();
        let Some(v1::slot_view::State::Held(tenure)) = &view.slots[0].state else { panic!("{view:?}") };
        assert_eq!(tenure.begin_index + view.token_base, tenure.token);

        let item = v1::CheckItem {
            what: Some(v1::check_item::What::Sequencer(grant.sequencers[0].clone())),
            lock: "orders/7".to_owned(),
        };
        let mut sequencers =
            v1::sequencers_client::SequencersClient::connect(url.clone()).await.expect("it connects");
        let check = v1::Check { items: vec![item] };
        let answer = sequencers.check(check.clone()).await.expect("it is checked").into_inner();
        assert_eq!(answer.verdicts[0].state(), v1::verdict::State::Current, "{answer:?}");

        sessions
            .keep_alive(v1::KeepAliveCall { session: opened.session, secret: opened.secret.clone() })
            .await
            .expect("it is renewed");
        let release =
            v1::Release { acquisition: grant.acquisition, token: part.token, ..v1::Release::default() };
        let call = v1::ReleaseCall {
            session: opened.session,
            secret: opened.secret.clone(),
            release: Some(release),
        };
        locks.release(call).await.expect("it is released");
        let answer = sequencers.check(check).await.expect("it is checked").into_inner();
        assert_eq!(answer.verdicts[0].state(), v1::verdict::State::Ended, "{answer:?}");
    }
    let url = format!("http://{}", nodes[0].client_address());
    let status = ClusterClient::connect(url).await.expect("it connects");
    let mut status = status;
    let answer = status.status(v1::StatusRequest { local: false }).await.expect("it tells").into_inner();
    assert!(answer.healthy);
    assert_eq!(answer.nodes.len(), 3);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_late_release_through_a_single_call_hears_who_came_after() {
    let nodes = start().await;
    let url = format!("http://{}", nodes[0].client_address());
    let mut sessions = SessionsClient::connect(url.clone()).await.expect("it connects");
    let mut locks = LocksClient::connect(url).await.expect("it connects");
    let mut open = async |ttl_ms| {
        let open = v1::OpenSession { client: "a test".to_owned(), ttl_ms, ..v1::OpenSession::default() };
        sessions.open(v1::OpenSessionCall { open: Some(open) }).await.expect("it opens").into_inner()
    };
    let mut without_delay = acquire("orders/7", 1, v1::wait::Kind::Session(true));
    without_delay.parts[0].lock_delay_ms = Some(0);
    let call = |opened: &v1::SessionOpened| v1::AcquireCall {
        session: opened.session,
        secret: opened.secret.clone(),
        acquire: Some(without_delay.clone()),
    };
    let first = open(2_000).await;
    let held = locks.acquire(call(&first)).await.expect("it is granted").into_inner();
    // Nobody keeps the first session alive: it expires, and the second one's wait ends in a grant.
    let second = open(60_000).await;
    let waited = locks.acquire(call(&second));
    let granted =
        tokio::time::timeout(Duration::from_secs(20), waited).await.expect("in time").expect("it is granted");
    let release = v1::Release {
        acquisition: held.acquisition,
        lock: "orders/7".to_owned(),
        slot: 0,
        token: held.parts[0].token,
    };
    let late = v1::ReleaseCall { session: first.session, secret: first.secret, release: Some(release) };
    let status = locks.release(late).await.expect_err("it is too late");
    let error =
        palisade_proto::convert::error::error_of(&status).expect("the whole error is among the details");
    assert_eq!(error.name, "SESSION_EXPIRED");
    assert_eq!(error.superseded_by, granted.into_inner().parts[0].token);
    for node in nodes {
        node.stop().await;
    }
}
