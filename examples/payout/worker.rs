//! One run of the worker: it claims, orders a transfer for each debt, and sends what was ordered.

use palisade_core::holding::Holding;
use palisade_fence::adapters::postgres::PostgresMarks;
use palisade_fence::guard::Guard;
use tokio_postgres::{Client, Transaction};

use crate::after_check::PausedAfterCheck;
use crate::bank::Bank;
use crate::pause::Pause;

/// Where it can be paused.
pub(crate) struct Pauses {
    pub(crate) order: Pause,
    pub(crate) call: Pause,
    pub(crate) mark: Pause,
}

pub(crate) struct Worker<'a> {
    /// None: the worker believes in its lock, and writes.
    pub(crate) guard: Option<Guard<PostgresMarks>>,
    pub(crate) held: &'a dyn Holding,
    pub(crate) bank: Bank,
    pub(crate) pauses: Pauses,
}

impl Worker<'_> {
    pub(crate) async fn run(&self, db: &mut Client) -> anyhow::Result<()> {
        // First of all: no earlier worker writes from here on.
        if let Some(guard) = &self.guard {
            guard.claim(db, self.held).await?;
        }
        let debts =
            db.query("SELECT account, amount FROM owed WHERE amount > 0 ORDER BY account", &[]).await?;
        for debt in debts {
            self.order(db, debt.get(0), debt.get(1)).await?;
        }
        let ordered =
            db.query("SELECT key, account, amount FROM outbox WHERE NOT sent ORDER BY key", &[]).await?;
        for transfer in ordered {
            self.send(db, transfer.get(0), transfer.get(1), transfer.get(2)).await?;
        }
        Ok(())
    }

    /// The first statement of each transaction. Without the guard the rest is what most workers do.
    async fn admit(&self, transaction: &Transaction<'_>, pause: &Pause) -> anyhow::Result<()> {
        let held = PausedAfterCheck { held: self.held, pause };
        match &self.guard {
            Some(guard) => guard.admit_in(transaction, &held).await?, // Err(Stale) once a newer holder was here
            None => held.check()?,
        }
        Ok(())
    }

    /// The debt goes down and the transfer is written down, in one step. Nothing is sent yet.
    async fn order(&self, db: &mut Client, account: i64, amount: i64) -> anyhow::Result<()> {
        let transaction = db.transaction().await?;
        self.admit(&transaction, &self.pauses.order).await?;
        let numbered = transaction.query_one("SELECT count(*) + 1 FROM outbox", &[]).await?;
        let number: i64 = numbered.get(0);
        // Whoever finds it in the outbox, now or later, sends it under this key and no other.
        let key = format!("{}:{}:{number}", self.held.lock(), self.held.token());
        let debit = "UPDATE owed SET amount = amount - $1 WHERE account = $2";
        transaction.execute(debit, &[&amount, &account]).await?;
        let insert = "INSERT INTO outbox (key, account, amount) VALUES ($1, $2, $3)";
        transaction.execute(insert, &[&key, &account, &amount]).await?;
        transaction.commit().await?;
        println!("ordered {amount} for account {account}: {key}");
        Ok(())
    }

    /// The bank is called outside of any transaction; then the row is marked.
    async fn send(&self, db: &mut Client, key: String, account: i64, amount: i64) -> anyhow::Result<()> {
        self.held.check()?;
        self.pauses.call.here();
        self.bank.transfer(&key, account, amount)?;
        let transaction = db.transaction().await?;
        self.admit(&transaction, &self.pauses.mark).await?;
        transaction.execute("UPDATE outbox SET sent = true WHERE key = $1", &[&key]).await?;
        Ok(transaction.commit().await?)
    }
}
