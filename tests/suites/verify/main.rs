//! The verifiers of `docs/verify`, each in its own language, with the sequencer of a running cluster.
//!
//! Needs: python3 with PyJWT and cryptography (Debian's python3-jwt), node, java, openssl.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use palisade_client::{Client, ClientConfig};
use palisade_core::ids::LockName;
use palisade_core::mode::Mode;
use palisade_core::sequencer::FLOOR_TYPE;
use palisade_fence::conformance::SigningCluster;
use palisade_host::Host;
use palisade_testkit::cluster::ProcessCluster;
use tempfile::TempDir;

const LOCK: &str = "orders/shard-7";
const BASE64URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How each is run. Debian's Python has Debian's libraries.
const VERIFIERS: [(&str, &[&str], &str); 4] = [
    ("Python", &["/usr/bin/python3"], "verify.py"),
    ("Node", &["node"], "verify.mjs"),
    ("shell and OpenSSL", &["sh"], "verify.sh"),
    ("Java", &["java"], "Verify.java"),
];

struct Keys {
    _folder: TempDir,
    path: PathBuf,
    cluster: String,
}

impl Keys {
    fn new(jwks: &str, cluster: String) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("keys.json");
        fs::write(&path, jwks).unwrap();
        Self { _folder: folder, path, cluster }
    }

    /// What a verifier says of each sequencer.
    fn verify(&self, (name, run, file): (&str, &[&str], &str), lock: &str, texts: &[String]) -> Vec<String> {
        let mut child = Command::new(run[0])
            .args(&run[1..])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify").join(file))
            .arg(&self.path)
            .args([&self.cluster, lock])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, lines) = (child.stdin.take().unwrap(), texts.join("\n") + "\n");
        let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{name}: {}", output.status);
        let said: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(said.len(), texts.len(), "{name}: {said:?}");
        said
    }

    fn refuses_all(&self, lock: &str, texts: &[String]) {
        for verifier in VERIFIERS {
            for (text, said) in texts.iter().zip(self.verify(verifier, lock, texts)) {
                assert!(said.starts_with("refused"), "{}: {said} for {text}", verifier.0);
            }
        }
    }
}

/// Every text that differs from this one in one character, or lacks its last one; of the last character, all others.
fn altered(text: &str) -> Vec<String> {
    let change = |at: usize, byte: u8| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] = byte;
        String::from_utf8(bytes).unwrap()
    };
    let mut texts: Vec<_> =
        (0..text.len()).map(|at| change(at, if text.as_bytes()[at] == b'A' { b'B' } else { b'A' })).collect();
    let last = text.len() - 1;
    texts.extend(
        BASE64URL.iter().filter(|byte| **byte != text.as_bytes()[last]).map(|byte| change(last, *byte)),
    );
    texts.push(text[..last].to_owned());
    texts
}

/// The sequencer and the keys of a cluster that runs, once for this test.
fn live() -> (Keys, String, u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_palisade"));
    let cluster = ProcessCluster::start(program, 1).unwrap();
    runtime.block_on(async {
        let client = Client::new(ClientConfig::new(cluster.endpoints()), Host::system()).unwrap();
        let work = async {
            let session = client.open_session().await.unwrap();
            let lock = session.lock(LockName::new(LOCK).unwrap()).with_sequencer();
            let held = lock.wait_for(Duration::from_secs(30)).acquire().await.unwrap();
            let keys = client.keys().await.unwrap();
            let id = client.status(false).await.unwrap().cluster_id;
            (Keys::new(&keys, id), held.sequencer().await.unwrap(), held.token().get())
        };
        tokio::time::timeout(Duration::from_secs(60), work).await.unwrap()
    })
}

#[test]
fn each_language_reads_the_token_of_a_running_cluster_and_refuses_every_changed_byte() {
    let (keys, sequencer, token) = live();
    for verifier in VERIFIERS {
        let said = keys.verify(verifier, LOCK, std::slice::from_ref(&sequencer));
        assert_eq!(said, [token.to_string()], "{}", verifier.0);
    }
    keys.refuses_all(LOCK, &altered(&sequencer));
    keys.refuses_all("orders/shard-8", std::slice::from_ref(&sequencer));
    let elsewhere = Keys { cluster: "0".repeat(32), ..keys };
    elsewhere.refuses_all(LOCK, &[sequencer]);
}

#[test]
fn each_language_refuses_what_the_cluster_signed_for_something_else() {
    let (cluster, forger) = (SigningCluster::new(1), SigningCluster::new(2));
    let keys = Keys::new(&cluster.verifier().keys().to_jwks(), cluster.id().to_string());
    let statement = cluster.statement(LOCK, 0, Mode::Exclusive, 34);
    let largest = cluster.statement(LOCK, 0, Mode::Exclusive, palisade_core::limits::TOKEN_MAX);
    for (statement, token) in [(&statement, "34"), (&largest, "9007199254740991")] {
        let text = cluster.sign(&cluster.header(), statement);
        for verifier in VERIFIERS {
            assert_eq!(keys.verify(verifier, LOCK, std::slice::from_ref(&text)), [token], "{}", verifier.0);
        }
    }
    let with = |typ: &str, alg: &str| {
        let mut header = cluster.header();
        (header.typ, header.alg) = (typ.to_owned(), alg.to_owned());
        cluster.sign(&header, &statement)
    };
    let genuine = cluster.sign(&cluster.header(), &statement);
    let unsigned = format!("{}.", genuine.rsplit_once('.').unwrap().0);
    let texts = [
        with(FLOOR_TYPE, "EdDSA"),
        with("JWT", "EdDSA"),
        with("palisade-sequencer+jwt", "none"),
        with("palisade-sequencer+jwt", "HS256"),
        unsigned,
        genuine.replace('.', ".."),
        format!("{genuine}="),
        format!("{genuine}."),
        forger.sign(&forger.header(), &statement),
        forger.sign(&cluster.header(), &statement),
        cluster.sign(&cluster.header(), &cluster.statement(LOCK, 1, Mode::Exclusive, 34)),
        cluster.sign(&cluster.header(), &cluster.statement(LOCK, 0, Mode::Shared, 34)),
        cluster.sign(&cluster.header(), &forger.statement(LOCK, 0, Mode::Exclusive, 34)),
    ];
    keys.refuses_all(LOCK, &texts);
}
