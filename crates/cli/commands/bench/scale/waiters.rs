//! Waiters: what each takes, and whether locks are handed on in the order of their queues.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::crowd::Crowd;
use super::nodes::{Cpu, bytes_each};
use super::work::{HandingOn, Holding, Queueing, Queues, Rising, releases};
use super::{Common, Scene, Told, seconds_since, tell};
use crate::commands::Failure;

/// Of holders and waiters.
const TTL: Duration = Duration::from_secs(60);
/// Sessions that hold; they are the first of their crowd.
pub(super) const HOLDERS: usize = 10;

pub(super) async fn measure(common: &Common<'_>, waiters: usize, over: usize) -> Result<Told, Failure> {
    let story = format!("{waiters} waiters");
    let mut scene = Scene::set(common, u64::from(u32::MAX), &story).await?;
    let mut told = Told::default();
    let probe = scene.probe()?;
    let began = Instant::now();
    sleep(common.pause).await;
    told.before = probe.between(began, Instant::now());

    let mut crowd = scene.crowd(TTL).await?;
    let (mut tokens, mut queues) = (Vec::new(), Queues::new());
    let members = members_for(waiters, over);
    crowd.open(HOLDERS + members).await?;
    hold(&mut crowd, over, &mut tokens, &mut told.rising).await?;
    let (memory, began) = (scene.cluster()?.memory(), Instant::now());
    queue(&mut crowd, (0, waiters), over, members, &mut queues).await?;
    told.build = seconds_since(began);
    told.loaded = probe.between(began, Instant::now());
    tell(format_args!("{waiters} waiters: queued after {:.1} s", began.elapsed().as_secs_f64()));

    crowd.idle(common.pause).await?;
    let (cpu, began) = (Cpu::now(scene.cluster()?), Instant::now());
    crowd.idle(common.pause).await?;
    told.idle_cores = cpu.cores(scene.cluster()?);
    told.idle = probe.between(began, Instant::now());
    told.bytes_each = bytes_each(memory.as_ref(), scene.cluster()?, waiters);

    let (cpu, began) = (Cpu::now(scene.cluster()?), Instant::now());
    let mut handing = HandingOn {
        next: releases(over, HOLDERS, |member| crowd.session(member), &tokens),
        left: waiters,
        last: began,
        queues: &mut queues,
        blind: crowd.leader_changes() > 0,
        out_of_order: 0,
        rising: &mut told.rising,
    };
    crowd.run(&mut handing).await?;
    let took = (handing.last - began).as_secs_f64();
    told.out_of_order = handing.out_of_order;
    told.drained = Some(took);
    told.cycles_per_second = Some(waiters as f64 / took);
    told.cpu_per_1000 = cpu.all(scene.cluster()?).map(|all| all * 1e3 / waiters as f64);
    tell(format_args!("{waiters} waiters: {:.0} hand-offs a second", waiters as f64 / took));
    told.sessions_lost = crowd.lost();
    told.probed(&probe);
    probe.end().await?;
    drop(crowd);
    scene.place.end().await;
    Ok(told)
}

/// A member waits for each lock once at most.
pub(super) fn members_for(waiters: usize, over: usize) -> usize {
    (waiters / 100).max(waiters.div_ceil(over)).max(1)
}

/// The first members hold all locks that are queued for.
pub(super) async fn hold(
    crowd: &mut Crowd,
    over: usize,
    tokens: &mut Vec<u64>,
    rising: &mut Rising,
) -> anyhow::Result<()> {
    let mut holding =
        Holding { story: "queue", from: 0, to: over, members: HOLDERS, delay_ms: None, tokens, rising };
    crowd.run(&mut holding).await
}

/// The others queue, from the waiter with one number to that with the other.
pub(super) async fn queue(
    crowd: &mut Crowd,
    (from, to): (usize, usize),
    over: usize,
    members: usize,
    queues: &mut Queues,
) -> anyhow::Result<()> {
    crowd.run(&mut Queueing { from, to, first: HOLDERS, members, over, queues }).await
}
