//! The commands of `docs/http.md` and of `docs/locks.md` do what the pages say: they are taken from the pages and run
//! against real nodes.
//!
//! Needs: curl, jq, openssl.
//!
//! Of the page of HTTP, the `sh` blocks run in one shell, in their order, so that what one sets the next one finds. The `json` block that
//! follows one is what its output must look like: the same fields, of the same types; words without a digit, and numbers
//! and truth values, word for word. Only numbers in strings, and what ends in `…`, may be others.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod followed;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use palisade_testkit::cluster::ProcessCluster;
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/http.md");
/// A node that starts serves within this, on the slowest machine that runs the tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A block of commands, and what its output must look like.
struct Block {
    commands: String,
    answer: Option<Value>,
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for rest in page.split("\n```").skip(1) {
        if let Some(commands) = rest.strip_prefix("sh\n") {
            found.push(Block { commands: commands.to_owned(), answer: None });
        } else if let Some(answer) = rest.strip_prefix("json\n") {
            let block = found.last_mut().expect("an answer follows its commands");
            block.answer = Some(serde_json::from_str(answer).expect("the page shows JSON"));
        }
    }
    found
}

/// Where `found` is not as the page shows it.
fn differences(place: &str, shown: &Value, found: &Value) -> Vec<String> {
    match (shown, found) {
        (Value::Object(shown), Value::Object(found)) => {
            let missing = shown.keys().filter(|key| !found.contains_key(*key));
            let missing = missing.map(|key| format!("{place}.{key} is not there"));
            let stray = found.keys().filter(|key| !shown.contains_key(*key));
            let stray = stray.map(|key| format!("{place}.{key} is not on the page"));
            let both = shown.iter().filter_map(|(key, shown)| Some((key, shown, found.get(key)?)));
            let both =
                both.flat_map(|(key, shown, found)| differences(&format!("{place}.{key}"), shown, found));
            missing.chain(stray).chain(both).collect()
        }
        (Value::Array(shown), Value::Array(found)) if shown.len() == found.len() => {
            shown.iter().zip(found).flat_map(|(shown, found)| differences(place, shown, found)).collect()
        }
        (Value::String(shown), Value::String(found)) if fits(shown, found) => Vec::new(),
        (shown, found) if shown == found => Vec::new(),
        (shown, found) => vec![format!("{place}: the page shows {shown}, and it is {found}")],
    }
}

fn fits(shown: &str, found: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match shown.split_once('…') {
        // A beginning in words must be there; one of a secret or a signature is only an example.
        Some((begin, _)) if begin.contains(' ') => found.starts_with(begin),
        Some((begin, _)) => found.len() > begin.len(),
        None => shown == found || (digits(shown) && digits(found)),
    }
}

fn serves(address: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(
            format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// Runs the blocks; the output of each is in a file of its number.
fn run(folder: &Path, blocks: &[Block], address: &str) {
    let mut script = String::from("set -eu -o pipefail\n");
    for (at, block) in blocks.iter().enumerate() {
        let commands = block.commands.replace("127.0.0.1:7170", address);
        script.push_str(&format!("{{\n{commands}\n}} > {at}.out\n"));
    }
    fs::write(folder.join("script"), &script).unwrap();
    let ran = Command::new("bash").arg("script").current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}\n{script}");
}

#[test]
fn the_page_s_commands_answer_what_the_page_shows() {
    let cluster = ProcessCluster::start(Path::new(env!("CARGO_BIN_EXE_palisade")), 1).unwrap();
    let address = cluster.endpoints().remove(0);
    let deadline = Instant::now() + PATIENCE;
    while !serves(&address) {
        assert!(Instant::now() < deadline, "the node does not serve:\n{}", cluster.log(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(PAGE);
    assert!(blocks.len() > 10);
    run(folder.path(), &blocks, &address);
    let mut findings = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let Some(shown) = &block.answer else { continue };
        let output = fs::read_to_string(folder.path().join(format!("{at}.out"))).unwrap();
        let found: Value = serde_json::from_str(&output)
            .unwrap_or_else(|error| panic!("{}answers no document ({error}):\n{output}", block.commands));
        findings.extend(
            differences("answer", shown, &found)
                .into_iter()
                .map(|what| format!("{what}, by\n{}", block.commands)),
        );
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn an_answer_that_is_not_as_shown_is_found() {
    let shown =
        serde_json::json!({ "state": "granted", "token": "9", "secret": "6f…", "slot": 0, "to": ["a"] });
    let like = |found: Value| differences("answer", &shown, &found).len();
    assert_eq!(
        like(
            serde_json::json!({ "state": "granted", "token": "812", "secret": "0abc", "slot": 0, "to": ["a"] })
        ),
        0
    );
    assert_eq!(
        like(
            serde_json::json!({ "state": "queued", "token": "9", "secret": "0abc", "slot": 0, "to": ["a"] })
        ),
        1
    );
    assert_eq!(
        like(serde_json::json!({ "state": "granted", "token": 9, "secret": "0abc", "slot": 1, "to": ["b"] })),
        3
    );
    assert_eq!(
        like(serde_json::json!({ "state": "granted", "secret": "0abc", "slot": 0, "to": [], "more": 1 })),
        3
    );
    assert_eq!(blocks("a\n```sh\nls\n```\n```json\n{}\n```\n").len(), 1);
}
