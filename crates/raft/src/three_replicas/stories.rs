//! Elections, losses, restarts and refusals, as a server would see them.

use super::*;

#[tokio::test]
async fn what_was_decided_survives_the_leader() {
    let mut nodes = three(config).await;
    let first = session(&decide(&nodes, open(1)).await);
    let old = leader(&nodes).await;
    nodes[old].kill();

    let second = session(&decide(&nodes, open(2)).await);
    assert!(second > first, "ids come from the log");
    let again = session(&decide(&nodes, open(1)).await);
    assert_eq!(again, first, "the repeated open finds the first session");

    nodes[old].run(config).await;
    let replica = nodes[old].replica().clone();
    until("the old leader catches up", || replica.read(|table| table.session_count() == 2)).await;
    // It may still have to apply the repeated open.
    let agree = || nodes.iter().all(|node| node.replica().view() == replica.view());
    until("all agree", agree).await;
    assert_eq!(nodes[old].replica().credentials().identity().cluster_id, Some(ClusterId([7; 16])));
}

#[tokio::test]
async fn an_idle_cluster_rests_until_its_leader_is_gone() {
    let mut nodes = three(config).await;
    let rest = |nodes: &[Node]| {
        nodes.iter().filter_map(|node| node.running.as_ref()).all(|running| running.replica.heard().rests())
    };
    until("all rest", || rest(&nodes)).await;
    let before = *nodes[0].replica().leadership().borrow();
    let calls = |nodes: &[Node]| nodes.iter().map(|node| node.calls.load(Ordering::Relaxed)).sum::<usize>();
    let called = calls(&nodes);
    // Three times the longest election timeout: the heartbeats are heard.
    tokio::time::sleep(Duration::from_millis(3 * 1_200)).await;
    assert_eq!(calls(&nodes), called, "heartbeats share a stream");
    for node in &nodes {
        let now = *node.replica().leadership().borrow();
        assert_eq!((now.term, now.leader), (before.term, before.leader));
    }
    until("all rest still", || rest(&nodes)).await;

    let old = leader(&nodes).await;
    nodes[old].kill();
    until("silence is noticed", || !rest(&nodes)).await;
    leader(&nodes).await;
    // The follower that is left hears the new leader, and each rests again.
    until("the others rest again", || rest(&nodes)).await;
}

#[tokio::test]
async fn a_node_far_behind_gets_a_snapshot() {
    let small = |id| ReplicaConfig { snapshot_every: 50, keep_log: 10, ..config(id) };
    let mut nodes = three(small).await;
    let leads = leader(&nodes).await;
    let behind = (leads + 1) % 3;
    nodes[behind].kill();
    let recovered = |node: &Node| node.memory.load().expect("it is read");
    let last = recovered(&nodes[behind]).log.map_or(0, |(_, last)| last);
    // Whoever leads by then: a log that still reaches back would be sent instead of a snapshot.
    let cut = |node: &Node| recovered(node).purged.is_some_and(|point| point.index > last);
    let mut opened = 0;
    while opened < 200 || !nodes.iter().filter(|node| node.running.is_some()).all(cut) {
        assert!(opened < 5_000, "the logs are cut while entries come");
        decide(&nodes, open(opened)).await;
        opened += 1;
    }

    let before = *nodes[behind].seen.installed.lock();
    nodes[behind].run(small).await;
    let replica = nodes[behind].replica().clone();
    until("it catches up", || replica.read(|table| table.session_count() as u64 == opened)).await;
    assert!(*nodes[behind].seen.installed.lock() > before, "by a snapshot");

    nodes[behind].kill();
    nodes[behind].run(small).await;
    let restarted = nodes[behind].replica().read(LockTable::session_count);
    assert!(restarted > 0, "a restart begins with the snapshot");
}

#[tokio::test]
async fn a_node_cut_off_proves_nothing() {
    let mut nodes = three(config).await;
    let leads = leader(&nodes).await;
    let index = nodes[leads].replica().confirm_leadership(PATIENCE).await.expect("it leads");
    assert!(nodes[leads].replica().status().applied >= index);
    let follower = (leads + 1) % 3;
    let refused = nodes[follower].replica().confirm_leadership(PATIENCE).await;
    assert_eq!(refused, Err(ConfirmError::NotLeader { leader: Some(nodes[leads].id) }));

    for at in [(leads + 1) % 3, (leads + 2) % 3] {
        nodes[at].kill();
    }
    let replica = nodes[leads].replica();
    let lonely = replica.confirm_leadership(Duration::from_millis(500)).await;
    assert!(matches!(lonely, Err(ConfirmError::NoQuorum | ConfirmError::NotLeader { .. })), "{lonely:?}");
    until("the quorum ages", || replica.quorum_age().is_none_or(|age| age > Duration::from_secs(1))).await;
    let refused = replica.propose(open(1)).await;
    assert!(
        matches!(refused, Err(ProposeError::NotLeader { .. } | ProposeError::OutcomeUnknown)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_lead_can_be_handed_over() {
    let nodes = three(config).await;
    let old = leader(&nodes).await;
    assert!(nodes[old].replica().transfer_leadership(PATIENCE).await);
    assert_ne!(leader(&nodes).await, old);
    assert!(!nodes[old].replica().transfer_leadership(PATIENCE).await, "it has no lead to hand over");
}

#[tokio::test]
async fn outcomes_come_in_order_and_each_sink_hears_once() {
    let nodes = three(config).await;
    let replica = nodes[leader(&nodes).await].replica();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let proposals = (0..500).map(|secret| {
        let heard = heard.clone();
        let sink = crate::Sink::new(move |outcome| heard.lock().push((secret, outcome)));
        Proposal { command: open(secret), sink }
    });
    replica.submit(proposals.collect()).await.expect("it runs");
    until("all are heard", || heard.lock().len() == 500).await;
    let mut last = LogIndex(0);
    for (at, (secret, outcome)) in heard.lock().iter().enumerate() {
        let Outcome::Decided(decided) = outcome else { panic!("{outcome:?}") };
        assert_eq!((at as u64, session(&decided.reply)), (*secret, SessionId(decided.index.0)));
        assert_eq!(decided.renewed, Some(SessionId(decided.index.0)));
        assert!(decided.index > last);
        last = decided.index;
    }
    let seen = nodes[leader(&nodes).await].seen.commands.lock().clone();
    assert!(seen.is_sorted() && seen.contains(&last.0));
}

#[tokio::test]
async fn a_follower_appends_nothing() {
    let nodes = three(config).await;
    let leads = leader(&nodes).await;
    let follower = nodes[(leads + 1) % 3].replica();
    let refused = follower.propose(open(1)).await;
    assert_eq!(refused, Err(ProposeError::NotLeader { leader: Some(nodes[leads].id) }));
    let (sink, outcome) = crate::Sink::oneshot();
    let command = Command::CloseSession(CloseSession { session: SessionId(1) });
    follower.submit(vec![Proposal { command, sink }]).await.expect("it runs");
    assert_eq!(outcome.await, Ok(Outcome::NotAppended { leader: Some(nodes[leads].id) }));
}

#[tokio::test]
async fn a_stopped_node_leaves_outcomes_unknown() {
    let nodes = three(config).await;
    let replica = nodes[leader(&nodes).await].replica();
    replica.shutdown().await;
    let (sink, outcome) = crate::Sink::oneshot();
    assert!(replica.submit(vec![Proposal { command: open(1), sink }]).await.is_err());
    assert_eq!(outcome.await, Ok(Outcome::Unknown));
}

#[tokio::test]
async fn a_failed_disk_stops_the_node() {
    let nodes = three(config).await;
    let leads = leader(&nodes).await;
    nodes[leads].memory.fail("no space left on device");
    let replica = nodes[leads].replica();
    let outcome = replica.propose(open(1)).await;
    assert!(matches!(
        outcome,
        Err(ProposeError::OutcomeUnknown | ProposeError::NotLeader { .. } | ProposeError::Stopped(_))
    ));
    let mut failed = replica.failed();
    let why = tokio::time::timeout(PATIENCE, failed.wait_for(Option::is_some)).await.expect("it fails");
    let why = why.expect("the replica is there").clone();
    assert!(
        matches!(&why, Some(ReplicaFailure::Storage(words)) if words.contains("no space left")),
        "{why:?}"
    );
}

#[tokio::test]
async fn a_node_says_who_it_is() {
    let node = Node::start(1, config).await;
    let introduction =
        Introduction { members: vec!["n1=127.0.0.1:1".into()], client_address: "127.0.0.1:2".into() };
    node.replica().set_identify(introduction);
    let net: Arc<dyn Net> = Arc::new(TcpNet);
    let answer = identify(net.clone(), &node.address, &cluster(), PATIENCE).await.expect("it answers");
    assert!(answer.pristine);
    assert_eq!((answer.node_id, answer.node_name.as_str()), (1, "n1"));
    assert_eq!(
        (answer.members, answer.client_address.as_str()),
        (vec!["n1=127.0.0.1:1".to_owned()], "127.0.0.1:2")
    );
    node.replica().found([node.member()].into()).await.expect("it is pristine");
    assert!(node.replica().found([node.member()].into()).await.is_err());
    let answer = identify(net.clone(), &node.address, &cluster(), PATIENCE).await.expect("it answers");
    assert!(!answer.pristine);
    let stranger = ClusterName::new("other").expect("a name");
    let refused =
        identify(net.clone(), &node.address, &stranger, PATIENCE).await.expect_err("another cluster");
    assert!(refused.to_string().contains("this node is of cluster stories"), "{refused}");
    let nobody: SocketAddr = ([127, 0, 0, 1], 1).into();
    assert!(identify(net, &nobody.to_string(), &cluster(), PATIENCE).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_disk_starts_again_where_it_stopped() {
    let dir = TempDir::new().expect("a directory");
    let small = ReplicaConfig { snapshot_every: 100, keep_log: 20, ..config(NodeId(1)) };
    let start = async || {
        let engine = EngineKind::default().open(&dir.path().join("log")).expect("it opens");
        if engine.identity().is_none() {
            save_identity(&engine, identity(NodeId(1))).await.expect("it is durable");
        }
        let snapshots: Arc<dyn SnapshotStore> =
            Arc::new(FileSnapshots::open(&dir.path().join("snapshots")).expect("it opens"));
        Replica::start(small.clone(), Host::system(), engine, snapshots, Box::new(Seen::default())).await
    };
    let replica = start().await.expect("it starts");
    replica.found([(NodeId(1), PeerNode::default())].into()).await.expect("it is pristine");
    let mut leadership = replica.leadership();
    leadership.wait_for(|leadership| leadership.leads).await.expect("it runs");
    replica.propose(founding()).await.expect("it leads");
    for secret in 0..250 {
        replica.propose(open(secret)).await.expect("it leads");
    }
    until("a snapshot is taken", || replica.status().snapshot >= LogIndex(100)).await;
    let (table, status) = (replica.view(), replica.status());
    assert!(status.flush.count > 250 && status.flush.p50_micros > 0);
    replica.shutdown().await;
    drop(replica);

    let replica = start().await.expect("it starts");
    assert!(!replica.is_pristine());
    let mut leadership = replica.leadership();
    leadership.wait_for(|leadership| leadership.leads).await.expect("it runs");
    replica.confirm_leadership(PATIENCE).await.expect("it leads");
    assert_eq!(replica.view(), table);
    assert!(replica.status().term > status.term);
    assert_eq!(replica.credentials().identity().cluster_id, Some(ClusterId([7; 16])));
    replica.shutdown().await;
}

#[tokio::test]
async fn the_storage_of_another_node_is_refused() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new(Duration::ZERO));
    let start = async |engine: Arc<dyn Engine>| {
        let snapshots = Arc::new(MemorySnapshots::default());
        Replica::start(config(NodeId(1)), Host::system(), engine, snapshots, Box::new(Seen::default())).await
    };
    assert!(matches!(start(engine.clone()).await, Err(StartError::NoIdentity)));
    save_identity(&engine, identity(NodeId(2))).await.expect("it is durable");
    assert!(matches!(start(engine).await, Err(StartError::OtherIdentity { .. })));
}
