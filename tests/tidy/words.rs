//! Words that belong to one room, and words that belong nowhere.
//!
//! Each foreign thing has one door (ARCHITECTURE.md), so that replacing it touches one crate, and a simulation can put
//! its own time, network and chance in place of the machine's. Comments may name them; code in other rooms may not.

use super::{Text, assert_none, has_word, sources, texts};

/// Words of code, and the paths where they may stand.
struct Rule {
    words: &'static [&'static str],
    /// Only on lines that hold this as well.
    beside: &'static str,
    rooms: &'static [&'static str],
}

/// The test kit brings the simulated ones; the program is the shell around everything. The thread of an engine on
/// disk is real wherever it runs, and its stopwatch measures the disk.
const RULES: [Rule; 6] = [
    Rule { words: &["openraft"], beside: "", rooms: &["crates/raft/"] },
    Rule { words: &["sled"], beside: "sled::", rooms: &["crates/raft/", "crates/fence/src/adapters/sled"] },
    Rule { words: &["bincode"], beside: "", rooms: &["crates/raft/src/codec"] },
    Rule {
        words: &["Instant", "SystemTime"],
        beside: "std::time::",
        rooms: &[
            "crates/host/",
            "crates/testkit/",
            "crates/cli/",
            "crates/raft/src/engine/sled/",
            "crates/raft/src/engine/segments/",
        ],
    },
    Rule {
        words: &["rand", "getrandom"],
        beside: "::",
        rooms: &["crates/host/", "crates/testkit/", "crates/raft/"],
    },
    Rule {
        words: &["TcpListener", "TcpStream", "UdpSocket", "UnixListener", "UnixStream", "ToSocketAddrs"],
        beside: "",
        rooms: &["crates/host/", "crates/testkit/", "crates/cli/"],
    },
];

/// The code of a file: without its tests, and without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    lines.map(|(at, line)| (at + 1, line.split("//").next().unwrap_or(line)))
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn check_rooms(files: &[Text]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !is_test(&file.path)) {
        for rule in RULES.iter().filter(|rule| !rule.rooms.iter().any(|room| file.path.starts_with(room))) {
            for (at, line) in code(&file.text) {
                for word in
                    rule.words.iter().filter(|word| line.contains(rule.beside) && has_word(line, word))
                {
                    findings.push(format!(
                        "{}:{at}: `{word}` belongs to {}",
                        file.path,
                        rule.rooms.join(", ")
                    ));
                }
            }
        }
    }
    findings
}

/// A letter and a number that only a private list explains.
fn private_id(line: &str) -> Option<&str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let mut ids = words.filter(|word| {
        let digits = word.strip_prefix(['H', 'T']).unwrap_or("");
        !digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    ids.next()
}

/// A folder of somebody's machine.
fn machine_path(line: &str) -> Option<&'static str> {
    const FOLDERS: [&str; 4] = ["/home/", "/root/", "/Users/", "/work/"];
    FOLDERS.into_iter().find(|folder| {
        line.match_indices(folder)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || ".-_".contains(c)))
    })
}

/// What the line says to people: in Rust its comment, elsewhere all of it.
fn prose<'a>(path: &str, line: &'a str) -> &'a str {
    if path.ends_with(".rs") { line.find("//").map_or("", |at| &line[at..]) } else { line }
}

fn check_everywhere(files: &[Text]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        for (at, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}", file.path, at + 1);
            if let Some(id) = private_id(prose(&file.path, line)) {
                findings.push(format!("{place}: `{id}` means nothing to a reader"));
            }
            if let Some(folder) = machine_path(line) {
                findings.push(format!("{place}: `{folder}` is of one machine"));
            }
        }
    }
    findings
}

#[test]
fn words_stay_in_their_rooms() {
    assert_none(&check_rooms(&sources()));
}

#[test]
fn nothing_is_private() {
    let files: Vec<Text> =
        texts("").into_iter().filter(|file| !file.path.starts_with("tests/tidy/")).collect();
    assert_none(&check_everywhere(&files));
}

#[test]
fn a_word_in_the_wrong_room_is_found() {
    let check = |path: &str, text: &str| check_rooms(&[Text { path: path.into(), text: text.into() }]).len();
    assert_eq!(check("crates/server/src/node.rs", "use openraft::Raft;"), 1);
    assert_eq!(check("crates/server/src/node.rs", "let db = sled::open(path);"), 1);
    assert_eq!(check("crates/raft/src/state_machine.rs", "bincode::serialize(&entry)"), 1);
    assert_eq!(check("crates/server/src/node.rs", "use std::time::{Duration, Instant};"), 1);
    assert_eq!(check("crates/client/src/session.rs", "let jitter = rand::random();"), 1);
    assert_eq!(check("crates/client/src/session.rs", "TcpStream::connect(address)"), 1);
    assert_eq!(check("crates/raft/src/codec.rs", "bincode::serialize(&entry)"), 0);
    assert_eq!(check("crates/server/src/node.rs", "use std::time::Duration; // not Instant"), 0);
    assert_eq!(
        check("crates/server/src/node.rs", "fn a() {}\n#[cfg(test)]\nmod tests { use openraft::Raft; }"),
        0
    );
}

#[test]
fn a_private_word_is_found() {
    let check =
        |path: &str, text: &str| check_everywhere(&[Text { path: path.into(), text: text.into() }]).len();
    assert_eq!(check("a.rs", "// see H12"), 1);
    assert_eq!(check("a.md", "T3 covers it"), 1);
    assert_eq!(check("a.rs", "fn zip<T1, T2>() {}"), 0);
    assert_eq!(check("a.toml", "path = \"/work/main\""), 1);
    assert_eq!(check("a.rs", "let home = \"/home/me/palisade\";"), 1);
    assert_eq!(check("a.md", "https://example.org/work/palisade"), 0);
}
