//! The bare disk and loopback: small writes with a flush each, to files that were prepared in different ways.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use serde_json::{Value, json};

use crate::measure::{Latencies, cpu_of_this_process, sample_of_the_machine};

/// Bytes of a file; then it begins anew.
const LENGTH: u64 = 32 << 20;
const PAGE: usize = 4_096;

/// How a file is prepared and written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Growing,
    Fallocated,
    WrittenThrough,
    WrittenThroughInLargePieces,
    Direct,
    DirectSync,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Fallocated => "fallocated, unwritten",
            Self::WrittenThrough => "written through in 4 KiB pieces",
            Self::WrittenThroughInLargePieces => "written through in 1 MiB pieces",
            Self::Direct => "O_DIRECT, written through",
            Self::DirectSync => "O_DIRECT + O_DSYNC, written through",
        }
    }

    fn prepare(self, path: &Path) -> Result<File> {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
        let piece = match self {
            Self::Growing => return Ok(file),
            Self::Fallocated => {
                fallocate(&file, FallocateFlags::empty(), 0, LENGTH)?;
                file.sync_all()?;
                return Ok(file);
            }
            Self::WrittenThroughInLargePieces => 1 << 20,
            Self::WrittenThrough | Self::Direct | Self::DirectSync => PAGE,
        };
        let zeroes = vec![0; piece];
        for at in (0..LENGTH).step_by(piece) {
            file.write_all_at(&zeroes, at)?;
        }
        file.sync_all()?;
        let flags = match self {
            Self::Direct => OFlags::DIRECT,
            Self::DirectSync => OFlags::DIRECT | OFlags::DSYNC,
            _ => return Ok(file),
        };
        let flags = i32::try_from(flags.bits())?;
        Ok(File::options().read(true).write(true).custom_flags(flags).open(path)?)
    }
}

fn write(path: &Path, size: usize, way: Way, took: Duration) -> Result<Latencies> {
    let file = way.prepare(path)?;
    // Direct writes ask for an aligned place in memory.
    let room = vec![7; size + PAGE];
    let start = room.as_ptr().align_offset(PAGE);
    let bytes = &room[start..start + size];
    let mut latencies = Latencies::default();
    let (mut at, began) = (0, Instant::now());
    while began.elapsed() < took {
        let written = Instant::now();
        file.write_all_at(bytes, at)?;
        if way != Way::DirectSync {
            file.sync_data()?;
        }
        latencies.record(written.elapsed());
        at += size as u64;
        if at + size as u64 > LENGTH {
            at = 0;
        }
    }
    fs::remove_file(path)?;
    Ok(latencies)
}

/// Writers at one time, bytes of a write, way.
const PROBES: [(usize, usize, Way); 12] = [
    (1, PAGE, Way::Growing),
    (1, PAGE, Way::Fallocated),
    (1, PAGE, Way::WrittenThrough),
    (1, PAGE, Way::WrittenThroughInLargePieces),
    (1, PAGE, Way::Direct),
    (1, PAGE, Way::DirectSync),
    (3, PAGE, Way::Growing),
    (3, PAGE, Way::Fallocated),
    (3, PAGE, Way::WrittenThrough),
    (3, PAGE, Way::DirectSync),
    (1, 16 * PAGE, Way::WrittenThrough),
    (3, 16 * PAGE, Way::WrittenThrough),
];

/// One line for each way, and one for the loopback.
pub(crate) fn run(folder: &Path, took: Duration) -> Result<Vec<Value>> {
    fs::create_dir_all(folder)?;
    let mut lines = Vec::new();
    for (writers, size, way) in PROBES {
        let (cpu, disk) = (cpu_of_this_process(), sample_of_the_machine(folder));
        let running: Vec<_> = (0..writers)
            .map(|writer| {
                let path: PathBuf = folder.join(format!("disk{writer}"));
                std::thread::spawn(move || write(&path, size, way, took))
            })
            .collect();
        let mut sum = Latencies::default();
        for writer in running {
            sum.add(&writer.join().map_err(|_| anyhow!("a writer panicked"))??);
        }
        let writes = sum.len() as f64;
        let written = sample_of_the_machine(folder).write_bytes.saturating_sub(disk.write_bytes);
        lines.push(json!({
            "workload": "disk",
            "writers": writers,
            "bytes": size,
            "way": way.name(),
            "syncs_per_s": writes / took.as_secs_f64(),
            "us": sum.summary(),
            "cpu_us": (cpu_of_this_process() - cpu) * 1e6 / writes,
            "dev_bytes": written as f64 / writes,
        }));
    }
    lines.push(json!({ "workload": "loopback", "us": round_trips(took)?.summary() }));
    Ok(lines)
}

/// Of 64 bytes, between two threads that block.
fn round_trips(took: Duration) -> Result<Latencies> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut bytes = [0; 64];
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (mut bytes, mut latencies) = ([0; 64], Latencies::default());
    let began = Instant::now();
    while began.elapsed() < took {
        let sent = Instant::now();
        stream.write_all(&bytes)?;
        stream.read_exact(&mut bytes)?;
        latencies.record(sent.elapsed());
    }
    drop(stream);
    echo.join().map_err(|_| anyhow!("the echo panicked"))??;
    Ok(latencies)
}
