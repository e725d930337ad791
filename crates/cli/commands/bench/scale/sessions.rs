//! Idle sessions: what each takes, and what keeping them alive costs the nodes and others.

use tokio::time::{Instant, sleep};

use super::nodes::{Cpu, bytes_each};
use super::{Common, Scene, Told, seconds_since, tell};
use crate::commands::Failure;

pub(super) async fn measure(common: &Common<'_>, sessions: usize) -> Result<Told, Failure> {
    let ttl = common.ttl;
    let mut scene = Scene::set(common, u64::from(u32::MAX), &format!("{sessions} sessions")).await?;
    let mut told = Told::default();
    let probe = scene.probe()?;
    let began = Instant::now();
    sleep(common.pause).await;
    told.before = probe.between(began, Instant::now());

    let mut crowd = scene.crowd(ttl).await?;
    let (memory, began) = (scene.cluster()?.memory(), Instant::now());
    crowd.open(sessions).await?;
    told.build = seconds_since(began);
    told.loaded = probe.between(began, Instant::now());
    tell(format_args!("{sessions} sessions: open after {:.1} s", began.elapsed().as_secs_f64()));

    // Twice the lease: whoever is not renewed is gone before it ends. The probe rests, or its own cycles would count.
    let began = Instant::now();
    crowd.idle(ttl).await?;
    told.idle = probe.between(began, Instant::now());
    told.probed(&probe);
    probe.end().await?;
    crowd.take_keepalives();
    let cpu = Cpu::now(scene.cluster()?);
    crowd.idle(ttl).await?;
    told.idle_cores = cpu.cores(scene.cluster()?);
    let all = cpu.all(scene.cluster()?);
    let (keepalives, renewed) = crowd.take_keepalives();
    told.keepalive = keepalives;
    told.cpu_per_1000 = all.filter(|_| renewed > 0).map(|all| all * 1e3 / renewed as f64);
    told.bytes_each = bytes_each(memory.as_ref(), scene.cluster()?, sessions);
    told.sessions_lost = crowd.lost();
    let (busiest, _) = told.idle_cores.unwrap_or_default();
    tell(format_args!("{sessions} sessions: the busiest node uses {:.1} % of a core", busiest * 1e2));
    drop(crowd);
    scene.place.end().await;
    Ok(told)
}
