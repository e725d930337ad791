//! Held locks: what each takes, what a snapshot of them costs others, and how soon they are back after a power failure.

use std::time::Duration;

use anyhow::Context;
use palisade_core::ids::LockName;
use palisade_proto::v1;
use tokio::time::{Instant, sleep};

use super::nodes::{Cpu, Snapshots, bytes_each};
use super::work::{Cycles, Holding, name, name_bytes};
use super::{Common, Scene, Told, seconds_since, tell};
use crate::commands::Failure;

/// The longest lease that is not in the log: a restart must not take longer.
const TTL: Duration = Duration::from_secs(60);
/// Sessions that hold them; fewer hold fewer.
const MEMBERS: usize = 1_000;
/// Entries from the last held lock to the snapshot: those of the time before it, and of the load beside it.
const UNTIL_SNAPSHOT: u64 = 30_000;
/// Cycles under way at one time while the snapshot is made.
const LANES: usize = 4;
/// Before the snapshot, so that there is something to compare with.
const BESIDE: Duration = Duration::from_secs(2);
/// For the snapshot to be made.
const PATIENCE: Duration = Duration::from_secs(120);
/// Locks that are looked at after the restart.
const SAMPLES: usize = 500;
/// Between two attempts to be granted a lock after the restart.
const LOOK: Duration = Duration::from_millis(10);

pub(super) async fn measure(common: &Common<'_>, locks: usize) -> Result<Told, Failure> {
    let members = MEMBERS.min(locks);
    let until_snapshot = UNTIL_SNAPSHOT.min((locks as u64).max(2_000));
    let mut scene =
        Scene::set(common, (locks + members) as u64 + until_snapshot, &format!("{locks} locks")).await?;
    let mut told = Told::default();
    let probe = scene.probe()?;
    let began = Instant::now();
    sleep(common.pause).await;
    told.before = probe.between(began, Instant::now());

    let mut crowd = scene.crowd(TTL).await?;
    crowd.open(members).await?;
    let (memory, began) = (scene.cluster()?.memory(), Instant::now());
    let mut tokens = vec![0; locks];
    let mut holding = Holding {
        story: "held",
        from: 0,
        to: locks,
        members,
        delay_ms: None,
        tokens: &mut tokens,
        rising: &mut told.rising,
    };
    crowd.run(&mut holding).await?;
    told.build = seconds_since(began);
    told.loaded = probe.between(began, Instant::now());
    tell(format_args!("{locks} locks: held after {:.1} s", began.elapsed().as_secs_f64()));

    crowd.idle(common.pause).await?;
    let (cpu, began) = (Cpu::now(scene.cluster()?), Instant::now());
    crowd.idle(common.pause).await?;
    told.idle_cores = cpu.cores(scene.cluster()?);
    told.idle = probe.between(began, Instant::now());
    let each = bytes_each(memory.as_ref(), scene.cluster()?, locks);
    told.bytes_each = each.map(|bytes| bytes - name_bytes("held") as f64);
    tell(format_args!(
        "{locks} locks: {:.0} bytes each beyond the name",
        told.bytes_each.unwrap_or_default()
    ));

    // Beside the snapshot some load goes on, as it would.
    let (snapshots, began) = (Snapshots::watch(scene.cluster()?), Instant::now());
    let until = || (snapshots.all_made() && began.elapsed() > BESIDE) || began.elapsed() > PATIENCE;
    let first_free = (locks / members + 2) as u64;
    let mut cycles = Cycles::new(0..LANES.min(members), first_free, &until, &mut told.rising);
    crowd.run(&mut cycles).await?;
    if let Some((begun, done, longest)) = snapshots.span() {
        told.snapshot = Some(longest.as_secs_f64());
        told.snapshot_worst = Some(probe.worst(begun, done).as_secs_f64());
        told.worst_beside = Some(probe.worst(began, begun).as_secs_f64());
    }
    told.probed(&probe);
    probe.end().await?;
    told.sessions_lost = crowd.lost();
    drop(crowd);
    tell(format_args!(
        "{locks} locks: snapshots in {:.2} s, worst cycle {:.0} ms, {:.0} ms without",
        told.snapshot.unwrap_or_default(),
        told.snapshot_worst.unwrap_or_default() * 1e3,
        told.worst_beside.unwrap_or_default() * 1e3
    ));
    restart(&mut scene, &mut told, &tokens).await?;
    scene.place.end().await;
    Ok(told)
}

/// Kills all nodes, and looks at what they know once the first of them grants again.
async fn restart(scene: &mut Scene<'_>, told: &mut Told, tokens: &[u64]) -> Result<(), Failure> {
    let began = Instant::now();
    scene.cluster()?.kill_and_start_again().await?;
    let client = scene.place.client(0, |settings| settings.request_timeout = TTL)?;
    let lock = LockName::new("scale/after").context("the name of a lock")?;
    loop {
        scene.cluster()?.check()?;
        let granted = async {
            client.open_session().await?.lock(lock.clone()).acquire().await.map_err(anyhow::Error::from)
        };
        match granted.await {
            Ok(guard) => {
                drop(guard);
                break;
            }
            Err(_) if began.elapsed() < TTL => sleep(LOOK).await,
            Err(error) => return Err(error.into()),
        }
    }
    told.restart = seconds_since(began);
    tell(format_args!(
        "{} locks: granted {:.2} s after kill -9",
        tokens.len(),
        began.elapsed().as_secs_f64()
    ));
    let held = client.status(false).await?.locks_held;
    told.locks_lost = (tokens.len() as u64).saturating_sub(held);
    for sample in 0..SAMPLES.min(tokens.len()) {
        let at = sample * tokens.len() / SAMPLES.min(tokens.len());
        let view = client.lock_view(&LockName::new(&name("held", at)).context("the name of a lock")?).await?;
        told.rising.checked += 1;
        told.locks_lost += u64::from(!holds(&view, tokens[at]));
    }
    client.close().await;
    Ok(())
}

pub(super) fn holds(view: &v1::LockView, token: u64) -> bool {
    view.slots.iter().any(|slot| match &slot.state {
        Some(v1::slot_view::State::Held(tenure)) => tenure.token == token,
        Some(v1::slot_view::State::Delayed(_) | v1::slot_view::State::Free(_)) | None => false,
    })
}
