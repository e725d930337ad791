//! A payout worker on PostgreSQL: pays what accounts are owed, each debt once, as the holder of a lock.
//!
//! With `palisade dev` and a database, the second time with two debts:
//!
//! ```text
//! export DATABASE_URL='host=/var/run/postgresql user=postgres dbname=payouts'
//! cargo run --features postgres --example payout -- setup --lock payouts
//! cargo run --features postgres --example payout -- run --lock payouts --bank /tmp/bank.txt
//! ```
//!
//! Everything in the database is written in a transaction that raises the lock's mark. The bank is not fenced: it gets a
//! key, made of lock and token, that was written down before, so that whoever comes later sends the same.
//!
//! With `--stop-before order` (or `call`, or `mark`) the process stops itself there, as a suspended machine would. Start
//! that, a second one when the lease has ended, and wake the first: it is refused (exit code 4; or 1, where its own look at the
//! lease came before), and every debt is paid once. The same with `--unfenced` throughout: a debt is paid twice.

#[path = "../held/after_check.rs"]
mod after_check;
mod bank;
#[path = "../held/mod.rs"]
mod held;
#[path = "../held/pause.rs"]
mod pause;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use palisade_core::ids::LockName;
use palisade_fence::adapters::postgres::PostgresMarks;
use palisade_fence::guard::Guard;
use tokio_postgres::{Client, NoTls};

use self::bank::Bank;
use self::held::{Held, LockArguments};
use self::pause::Pause;
use self::worker::{Pauses, Worker};

/// Pays debts under a lock.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    act: Act,
    /// The database, as libpq writes it
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        global = true,
        default_value = "host=/var/run/postgresql user=postgres"
    )]
    database: String,
    /// Neither claim nor compare: an experiment
    #[arg(long, global = true)]
    unfenced: bool,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Make the tables, with two debts, the marks, and the triggers that ask for them
    Setup(LockArguments),
    /// Pay
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    lock: LockArguments,
    /// The bank's books, a file
    #[arg(long)]
    bank: PathBuf,
    /// Stop the process (SIGSTOP) right before this; in a drill, only that of the first run
    #[arg(long)]
    stop_before: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Writing down the first transfer
    Order,
    /// Calling the bank
    Call,
    /// Writing down that the bank was called
    Mark,
}

async fn connect(database: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
    // Whoever uses the client hears of it when the connection ends.
    tokio::spawn(connection);
    Ok(client)
}

/// Whoever forgets the admission cannot write the tables: docs/adapters/postgresql.md.
fn required(cluster: &str, lock: &LockName) -> String {
    let lock = lock.as_str().replace('\'', "''");
    let on = |table: &str| {
        format!(
            "CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}
             FOR EACH STATEMENT EXECUTE FUNCTION palisade_require('{cluster}', '{lock}');"
        )
    };
    on("owed") + &on("outbox")
}

async fn setup(db: &mut Client, held: &Held, unfenced: bool) -> anyhow::Result<()> {
    db.batch_execute(include_str!("ledger.sql")).await?;
    if !unfenced {
        PostgresMarks::create(db).await?;
        db.batch_execute(&required(&held.cluster.to_string(), held.holding().lock())).await?;
    }
    Ok(())
}

async fn pay(db: &mut Client, held: &Held, run: &Run, unfenced: bool) -> anyhow::Result<()> {
    let guard = match unfenced {
        true => None,
        false => Some(Guard::new(PostgresMarks::open(db).await?, held.scope())),
    };
    let pause = |step| Pause::new(run.stop_before == Some(step));
    let pauses = Pauses { order: pause(Step::Order), call: pause(Step::Call), mark: pause(Step::Mark) };
    let worker = Worker { guard, held: held.holding(), bank: Bank::at(run.bank.clone()), pauses };
    worker.run(db).await
}

async fn act(Arguments { act, database, unfenced }: &Arguments) -> anyhow::Result<()> {
    let lock = match act {
        Act::Setup(lock) | Act::Run(Run { lock, .. }) => lock,
    };
    let mut db = connect(database).await?;
    let held = Held::take(lock).await?;
    match act {
        Act::Setup(_) => setup(&mut db, &held, *unfenced).await?,
        Act::Run(run) => pay(&mut db, &held, run, *unfenced).await?,
    }
    held.release().await
}

// On the main thread alone, so that a pause takes effect where it is asked for.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    held::exit_code(&act(&Arguments::parse()).await)
}
