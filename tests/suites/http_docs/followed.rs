//! Pages of the docs, followed from top to bottom on a fresh `palisade dev`: what they print is what happens.
//!
//! Each `$` line of a page's `console` blocks is typed into one shell, and what comes out is compared with what follows
//! it on the page. Numbers may be others, and `…` stands for anything within a line.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::PATIENCE;

/// A command of a page, and what it shows.
struct Step {
    typed: String,
    shown: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for block in page.split("\n```console\n").skip(1) {
        for line in block.split("\n```").next().unwrap_or_default().lines() {
            match line.strip_prefix("$ ") {
                Some(typed) => found.push(Step { typed: typed.to_owned(), shown: Vec::new() }),
                None => found.last_mut().expect("a command comes first").shown.push(line.to_owned()),
            }
        }
    }
    found
}

/// Every run of digits and points is one `#`.
fn numbers(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() || (c == '.' && out.ends_with('#')) {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

/// Whether a line is as the page shows it.
fn fits(shown: &str, line: &str) -> bool {
    let (shown, line) = (numbers(shown), numbers(line));
    let mut parts = shown.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let at = if parts.peek().is_none() {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        let Some(at) = at else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// A shell that types what a page says.
struct Shell {
    shell: Child,
    typed: ChildStdin,
    lines: Receiver<String>,
}

impl Shell {
    fn start(endpoints: &str) -> Self {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_palisade"));
        let folder = program.parent().unwrap().to_str().unwrap();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash")
            .env("PATH", path)
            .env("PALISADE_ENDPOINTS", endpoints)
            .env_remove("PALISADE_SEQUENCER")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut typed = shell.stdin.take().unwrap();
        writeln!(typed, "exec 2>&1").unwrap();
        let lines = listen(shell.stdout.take().unwrap());
        Self { shell, typed, lines }
    }

    /// What a command prints.
    fn types(&mut self, command: &str) -> Vec<String> {
        const END: &str = "-- that was it --";
        // Commands that read are not fed with the next ones.
        writeln!(self.typed, "{{ {command}\n}} < /dev/null; echo; echo '{END}'").unwrap();
        let mut printed = Vec::new();
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{command}: no end; {printed:?}"));
            if line == END {
                // The line before it is the one that puts the mark on a line of its own.
                if printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                return printed;
            }
            printed.push(line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn listen(output: ChildStdout) -> Receiver<String> {
    let (told, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if told.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Three nodes in one process, in memory, as the page says.
struct Dev {
    process: Child,
    endpoints: String,
}

impl Dev {
    fn start() -> Self {
        // Its ports follow each other; another process may have one of them.
        (0..5).find_map(|_| Self::try_start()).expect("palisade dev finds ports")
    }

    fn try_start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new(env!("CARGO_BIN_EXE_palisade"))
            .args(["dev", "--port-base", &port.min(65_000).to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = listen(process.stdout.take().unwrap());
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some(endpoints) = line.trim().strip_prefix("export PALISADE_ENDPOINTS=") {
                        return Some(Self { process, endpoints: endpoints.to_owned() });
                    }
                }
                Err(_) => {
                    let _ = process.kill();
                    let _ = process.wait();
                    return None;
                }
            }
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn follow(page: &str) {
    let dev = Dev::start();
    let mut shell = Shell::start(&dev.endpoints);
    shell.types("palisade status --wait-ready --timeout 30s");
    let steps = steps(page);
    assert!(!steps.is_empty(), "the page has nothing to follow");
    for step in steps {
        let printed = shell.types(&step.typed);
        let same =
            printed.len() == step.shown.len() && step.shown.iter().zip(&printed).all(|(a, b)| fits(a, b));
        assert!(
            same,
            "$ {}\nthe page shows\n{}\nand it is\n{}",
            step.typed,
            step.shown.join("\n"),
            printed.join("\n")
        );
    }
}

#[test]
fn the_page_of_locks_can_be_followed() {
    follow(include_str!("../../../docs/locks.md"));
}

#[test]
fn a_line_that_differs_in_more_than_numbers_is_noticed() {
    assert!(fits("token 8, waited 0.0s", "token 123, waited 1.25s"));
    assert!(fits("held by …, …", "held by vm/1 (session 7), vm/2"));
    assert!(fits("a … ms …", "a 1000 to 5000 ms are asked"));
    for (shown, line) in
        [("slot 1", "slots 1"), ("held by …", "held"), ("… b", "a c"), ("released", "released ")]
    {
        assert!(!fits(shown, line), "{shown:?} {line:?}");
    }
}
