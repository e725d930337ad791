//! What a new cluster does for its users.

use palisade_client::{Client, ClientConfig};
use palisade_core::ids::LockName;
use palisade_host::Host;

use crate::engine::said;
use crate::three::{NODES, Three};

/// Each node takes calls, and the tokens of one lock rise through all of them.
pub(crate) async fn each_node_grants(three: &Three) {
    let mut before = 0;
    for node in NODES {
        let mut config = ClientConfig::new([three.endpoint(node)]);
        config.follow_leader = false;
        let client = Client::new(config, Host::system()).unwrap();
        let session = client.open_session().await.unwrap();
        let guard = session.lock(LockName::new("through-each").unwrap()).acquire().await.unwrap();
        assert!(guard.token().get() > before, "{node}: {} after {before}", guard.token());
        before = guard.token().get();
        guard.release().await.unwrap();
        session.close().await.unwrap();
    }
    // Nodes know each other by the names of their services: what resolves them in the image works.
    let view = three.view("n1").await.unwrap();
    let addresses: Vec<_> = view.nodes.iter().map(|node| node.peer_address.as_str()).collect();
    assert_eq!(addresses, ["n1:7171", "n2:7171", "n3:7171"]);
}

/// `palisade lock` runs a command that sees the lock held by the wrapper.
pub(crate) async fn the_program_works_from_the_host_and_from_a_fourth_container(three: &Three) {
    let environment = [("PALISADE_ENDPOINTS".to_owned(), three.endpoints().join(","))];
    let program = env!("CARGO_BIN_EXE_palisade");
    let from_host = ["lock", "nightly", "--", program, "who", "nightly"];
    let first = held(&said(program, &from_host, &environment).await);

    let from_container = ["run", "--rm", "client", "lock", "nightly", "--", "palisade", "who", "nightly"];
    let second = held(&three.compose(&from_container).await);
    assert!(second > first, "{second} after {first}");
}

/// The token of the holder that `palisade who` names.
fn held(who: &str) -> u64 {
    let token = who.split("token ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    token.filter(|_| who.contains(" held by ")).unwrap_or_else(|| panic!("nobody holds it: {who}"))
}
