//! Sessions that expire all at one time, each with a lock: how soon they are gone, and what others notice.

use std::time::Duration;

use anyhow::{Context, ensure};
use palisade_core::ids::LockName;
use tokio::time::{Instant, sleep};

use super::probe::cycle;
use super::work::{Holding, name};
use super::{Common, Scene, Told, seconds_since, tell};
use crate::commands::Failure;

/// Sessions that are kept alive meanwhile, each with a lock, too.
const KEPT: usize = 1_000;
/// How long each lock stays closed after its holder expired.
const DELAY: Duration = Duration::from_secs(1);
/// Between two looks at how many are left.
const LOOK: Duration = Duration::from_millis(50);
/// Beyond the lease, for all to be gone.
const PATIENCE: Duration = Duration::from_secs(120);
/// Locks that are taken afterwards.
const SAMPLES: usize = 200;

pub(super) async fn measure(common: &Common<'_>, sessions: usize) -> Result<Told, Failure> {
    let ttl = common.ttl;
    let scene = Scene::set(common, u64::from(u32::MAX), &format!("{sessions} expire")).await?;
    let mut told = Told::default();
    let probe = scene.probe()?;
    let began = Instant::now();
    sleep(common.pause).await;
    told.before = probe.between(began, Instant::now());

    let (mut kept, mut dying) = (scene.crowd(ttl).await?, scene.crowd(ttl).await?);
    kept.open(KEPT).await?;
    let (mut kept_tokens, mut tokens) = (Vec::new(), Vec::new());
    let delay_ms = u64::try_from(DELAY.as_millis()).ok();
    let mut holding = Holding {
        story: "kept",
        from: 0,
        to: KEPT,
        members: KEPT,
        delay_ms,
        tokens: &mut kept_tokens,
        rising: &mut told.rising,
    };
    kept.run(&mut holding).await?;
    let began = Instant::now();
    let keeping = tokio::task::spawn_local(async move {
        kept.idle(ttl * 4 + PATIENCE).await?;
        Ok::<_, anyhow::Error>(kept)
    });
    dying.open(sessions).await?;
    let mut holding = Holding {
        story: "dying",
        from: 0,
        to: sessions,
        members: sessions,
        delay_ms,
        tokens: &mut tokens,
        rising: &mut told.rising,
    };
    dying.run(&mut holding).await?;
    told.build = seconds_since(began);
    told.sessions_lost = dying.lost();
    tell(format_args!("{sessions} expire: open after {:.1} s", began.elapsed().as_secs_f64()));

    // From now on nobody speaks for them.
    drop(dying);
    let silent = Instant::now();
    let client = scene.place.client(0, |settings| settings.ttl = ttl)?;
    let (mut first, mut left) = (silent, sessions as u64);
    while left > 0 {
        ensure_in_time(silent, ttl)?;
        let asked = Instant::now();
        let status = client.status(false).await?;
        // The probe has a session, too.
        left = status.sessions.saturating_sub(KEPT as u64 + 1);
        if left >= sessions as u64 {
            first = asked;
        }
        sleep(LOOK).await;
    }
    let last = Instant::now();
    told.drained = Some((last - first).as_secs_f64());
    sleep(DELAY + common.pause).await;
    told.loaded = probe.between(first, Instant::now());
    tell(format_args!("{sessions} expire: gone within {:.2} s", (last - first).as_secs_f64()));

    let session = client.open_session().await?;
    for sample in 0..SAMPLES.min(sessions) {
        let at = sample * sessions / SAMPLES.min(sessions);
        let lock = LockName::new(&name("dying", at)).context("the name of a lock")?;
        let token = cycle(&session, &lock).await?;
        told.rising.checked += 1;
        told.rising.broken += u64::from(token <= tokens[at]);
    }
    let status = client.status(false).await?;
    told.locks_lost = (KEPT as u64).saturating_sub(status.locks_held);
    let opened = 2; // the probe, and this one
    told.sessions_lost += (KEPT as u64 + opened).saturating_sub(status.sessions);
    told.probed(&probe);
    probe.end().await?;
    keeping.abort();
    drop(session);
    client.close().await;
    scene.place.end().await;
    Ok(told)
}

fn ensure_in_time(silent: Instant, ttl: Duration) -> anyhow::Result<()> {
    ensure!(silent.elapsed() < ttl + PATIENCE, "sessions that nobody speaks for are still there");
    Ok(())
}
