//! What `strace -f -yy -xx` wrote, as an ordered list of calls.
//!
//! A call has two places in that order: the line of its entry and the line of its return. The tracer stops a thread at
//! both, so a call whose return stands above the entry of another had ended before that one began. Calls that never
//! returned are left out.

use std::collections::BTreeMap;

/// One call that returned.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Such as `fdatasync`.
    pub(crate) name: String,
    /// The path, or the two addresses, behind its first argument when that is a descriptor.
    pub(crate) on: String,
    /// Its string arguments. Of a call that moves bytes: one string, as far as it was moved.
    pub(crate) strings: Vec<Vec<u8>>,
    /// Whether it returns only when what it wrote is durable.
    pub(crate) durable: bool,
    /// What it returned; -1 for an error.
    pub(crate) result: i64,
    /// The line of its entry.
    pub(crate) began: usize,
    /// The line of its return.
    pub(crate) ended: usize,
}

const READS: [&str; 4] = ["read", "recvfrom", "readv", "recvmsg"];
const WRITES: [&str; 7] = ["write", "writev", "sendto", "sendmsg", "pwrite64", "pwritev", "pwritev2"];

/// The calls that the suite traces.
pub(crate) fn traced() -> String {
    let files = ["fdatasync", "fsync", "sync_file_range", "mkdir", "rename", "renameat", "renameat2"];
    READS.into_iter().chain(WRITES).chain(files).collect::<Vec<_>>().join(",")
}

impl Call {
    /// Whether it took bytes in.
    pub(crate) fn reads(&self) -> bool {
        self.result >= 0 && READS.contains(&self.name.as_str())
    }

    /// Whether it gave bytes out.
    pub(crate) fn writes(&self) -> bool {
        self.result >= 0 && WRITES.contains(&self.name.as_str())
    }

    /// Whether it makes durable what was written, before or by itself.
    pub(crate) fn flushes(&self) -> bool {
        self.durable || matches!(self.name.as_str(), "fdatasync" | "fsync")
    }

    /// The bytes that it moved.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.strings.first().map_or(&[], Vec::as_slice)
    }
}

/// The calls of a trace, in the order of their returns.
pub(crate) fn parse(trace: &str) -> Vec<Call> {
    let mut entered: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut calls = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(head) = rest.strip_suffix(" <unfinished ...>") {
            entered.insert(thread, (at, head));
        } else if let Some(tail) = rest.strip_prefix("<... ") {
            let (began, head) = entered.remove(thread).unwrap_or_else(|| panic!("no entry of: {line}"));
            let (_, tail) = tail.split_once(" resumed>").unwrap_or_else(|| panic!("no return: {line}"));
            calls.extend(call(&format!("{head}{tail}"), began, at));
        } else {
            calls.extend(call(rest, at, at));
        }
    }
    calls
}

fn call(text: &str, began: usize, ended: usize) -> Option<Call> {
    let (name, arguments) = text.split_once('(')?;
    let (arguments, result) = arguments.rsplit_once(" = ")?;
    let result = result.split(' ').next()?.parse().ok()?;
    let mut strings = strings(arguments);
    if let Ok(moved) = usize::try_from(result)
        && READS.iter().chain(&WRITES).any(|mover| *mover == name)
    {
        let mut bytes = strings.concat();
        assert!(bytes.len() >= moved, "the trace cuts what was moved: {} of {moved} bytes", bytes.len());
        bytes.truncate(moved);
        strings = vec![bytes];
    }
    let durable = name == "pwritev2" && arguments.contains("RWF_DSYNC");
    Some(Call { name: name.to_owned(), on: descriptor(arguments), strings, durable, result, began, ended })
}

/// What the first argument stands for.
fn descriptor(arguments: &str) -> String {
    let digits = arguments.trim_start_matches(|c: char| c.is_ascii_digit());
    let Some(shown) = digits.strip_prefix('<').filter(|_| digits.len() < arguments.len()) else {
        return String::new();
    };
    let end = if shown.starts_with("TCP") { shown.find("]>") } else { shown.find('>') };
    let shown = &shown[..end.unwrap_or(shown.len())];
    if shown.starts_with("\\x") {
        String::from_utf8_lossy(&unescape(shown)).into_owned()
    } else {
        shown.to_owned()
    }
}

fn strings(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).map(unescape).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.split("\\x").skip(1);
    bytes.map(|hex| u8::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("{hex:?} is no byte"))).collect()
}

#[test]
fn a_call_that_others_interrupt_keeps_its_entry_and_its_return() {
    let trace = "7 pwrite64(9<\\x2f\\x64>, \"\\x61\\x62\\x63\", 3, 0) = 2\n\
                 8 fdatasync(9<\\x2f\\x64> <unfinished ...>\n\
                 7 pwritev2(9<\\x2f\\x64>, [{iov_base=\"\\x61\", iov_len=1}], 1, 0, RWF_DSYNC) = 1\n\
                 7 writev(4<TCP:[1.1.1.1:1->2.2.2.2:2]>, [{iov_base=\"\\x01\", iov_len=1}, {iov_base=\"\\x02\", iov_len=1}], 2) = 2\n\
                 8 <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED)\n\
                 7 +++ exited with 0 +++\n";
    let calls = parse(trace);
    let seen =
        calls.iter().map(|call| (call.name.as_str(), call.on.as_str(), call.result, call.began, call.ended));
    let seen: Vec<_> = seen.collect();
    assert_eq!(
        seen,
        [
            ("pwrite64", "/d", 2, 0, 0),
            ("pwritev2", "/d", 1, 2, 2),
            ("writev", "TCP:[1.1.1.1:1->2.2.2.2:2", 2, 3, 3),
            ("fdatasync", "/d", -1, 1, 4)
        ]
    );
    assert_eq!(calls.iter().map(Call::flushes).collect::<Vec<_>>(), [false, true, false, true]);
    assert_eq!(calls[0].bytes(), b"ab");
    assert_eq!(calls[2].bytes(), [1, 2]);
}
