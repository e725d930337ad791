//! A compaction job: puts one segment in the place of all those of a shard, in an object store, as the holder of its lock.
//!
//! With `palisade dev` running, a bucket in a directory, two segments, and one in their place:
//!
//! ```text
//! cargo run --features object-store --example compaction -- new /tmp/bucket
//! cargo run --features object-store --example compaction -- add /tmp/bucket --lock orders/shard-7 "an order"
//! cargo run --features object-store --example compaction -- add /tmp/bucket --lock orders/shard-7 "another"
//! cargo run --features object-store --example compaction -- merge /tmp/bucket --lock orders/shard-7
//! cargo run --features object-store --example compaction -- read /tmp/bucket
//! ```
//!
//! With `--stop` it stops itself, as a suspended machine would, once everything is uploaded and right before the manifest
//! names it. Start that, `add` an order beside it when the lease has ended, and wake it: it is refused (exit code 4), and
//! the order is there. The same with `--unconditional` throughout: the manifest names a segment that is no longer there,
//! and every order is lost.

mod bucket;
#[path = "../held/mod.rs"]
mod held;
mod manifest;
#[path = "../held/pause.rs"]
mod pause;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};
use palisade_core::holding::Holding;

use self::bucket::Bucket;
use self::held::{Held, LockArguments};
use self::manifest::Manifest;
use self::pause::Pause;

/// Merges segments in an object store under a lock.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    act: Act,
    /// Write the manifest without a condition, as most jobs do: an experiment
    #[arg(long, global = true)]
    unconditional: bool,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// A bucket without segments
    New { bucket: PathBuf },
    /// All that the segments hold, each line after the token under which it was written
    Read { bucket: PathBuf },
    /// One more segment
    Add(Work),
    /// One segment in the place of all, and of the lines if there are any
    Merge(Work),
}

#[derive(Debug, Args)]
struct Work {
    /// The directory
    bucket: PathBuf,
    /// What to write
    lines: Vec<String>,
    #[command(flatten)]
    lock: LockArguments,
    /// Stop the process (SIGSTOP) right before the manifest is written; in a drill, only that of the first run
    #[arg(long)]
    stop: bool,
}

/// One run, under the lock.
struct Job<'a> {
    store: Arc<dyn ObjectStore>,
    manifest: Manifest,
    held: &'a dyn Holding,
    pause: Pause,
}

impl Job<'_> {
    async fn run(&self, lines: &[String], merge: bool) -> anyhow::Result<()> {
        // First of all: no earlier holder changes the manifest from here on.
        let named = self.manifest.claim(self.held).await?;
        let mut segment = String::new();
        if merge {
            segment = read(&*self.store, &named).await?;
        }
        for line in lines {
            segment += &format!("{} {line}\n", self.held.token());
        }
        let at = self.upload(&segment).await?;
        let names = if merge { format!("{at}\n") } else { format!("{named}{at}\n") };
        self.manifest.replace(self.held, &names, &self.pause).await?;
        self.sweep(&names).await
    }

    /// Under a name of its own: nobody else writes below this token, but an earlier run under it may have.
    async fn upload(&self, segment: &str) -> anyhow::Result<Path> {
        let mut number = 1;
        loop {
            let at = self.manifest.segment(self.held, number);
            match self.store.put_opts(&at, segment.to_owned().into(), PutMode::Create.into()).await {
                Err(Error::AlreadyExists { .. }) => number += 1,
                uploaded => return Ok(uploaded.map(|_| at)?),
            }
        }
    }

    /// What was merged, and what paused holders left: below this token nobody names an object any more that is not named now.
    async fn sweep(&self, names: &str) -> anyhow::Result<()> {
        let own = self.manifest.segment(self.held, 0);
        let objects: Vec<_> = self.store.list(Some(&manifest::segments())).try_collect().await?;
        let unnamed = objects.into_iter().map(|object| object.location);
        for object in
            unnamed.filter(|object| *object < own && !names.lines().any(|name| name == object.as_ref()))
        {
            self.store.delete(&object).await?;
        }
        Ok(())
    }
}

/// What the named segments hold.
async fn read(store: &dyn ObjectStore, names: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    for name in names.lines() {
        let segment = store.get(&Path::from(name)).await.context("a segment that the manifest names")?;
        text += std::str::from_utf8(&segment.bytes().await?)?;
    }
    Ok(text)
}

async fn work(work: &Work, merge: bool, unconditional: bool) -> anyhow::Result<()> {
    let store = Bucket::at(&work.bucket)?;
    let held = Held::take(&work.lock).await?;
    let manifest = Manifest::open(&store, (!unconditional).then(|| held.scope())).await?;
    let job = Job { store, manifest, held: held.holding(), pause: Pause::new(work.stop) };
    job.run(&work.lines, merge).await?;
    println!("written under token {}", held.holding().token());
    held.release().await
}

async fn act(Arguments { act, unconditional }: &Arguments) -> anyhow::Result<()> {
    match act {
        Act::New { bucket } => Manifest::create(&Bucket::at(bucket)?, *unconditional).await,
        Act::Read { bucket } => {
            let store = Bucket::at(bucket)?;
            let names = manifest::read(&store, *unconditional).await?;
            print!("{}", read(&*store, &names).await?);
            Ok(())
        }
        Act::Add(more) => work(more, false, *unconditional).await,
        Act::Merge(more) => work(more, true, *unconditional).await,
    }
}

// On the main thread alone, so that a pause takes effect where it is asked for.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    held::exit_code(&act(&Arguments::parse()).await)
}
