//! What a cycle of acquire and release costs beside more and more of everything.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::crowd::Crowd;
use super::nodes::Cpu;
use super::waiters::{HOLDERS, hold, members_for, queue};
use super::work::{Cycles, Holding, Queues};
use super::{Common, Scene, Told, tell};
use crate::commands::Failure;
use crate::commands::bench::report::Label;

const TTL: Duration = Duration::from_secs(60);
/// Sessions that hold locks.
const MEMBERS: usize = 1_000;
/// Cycles under way at one time.
const LANES: usize = 64;
/// Numbers beyond those of what is held.
const NUMBERS: u64 = 1 << 40;

/// How far each curve goes; 0 is no curve.
pub(super) struct Ends {
    pub(super) locks: u32,
    pub(super) sessions: u32,
    pub(super) waiters: u32,
    pub(super) over: u32,
}

/// A point of a curve is a row.
type Point = (Label, Told);

/// One cluster for each curve.
pub(super) async fn measure(common: &Common<'_>, ends: &Ends) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    for (what, end) in [("locks", ends.locks), ("sessions", ends.sessions), ("waiters", ends.waiters)] {
        if end == 0 {
            continue;
        }
        let mut scene = Scene::set(common, u64::from(u32::MAX), &format!("curve of {what}")).await?;
        let mut crowd = scene.crowd(TTL).await?;
        let first = match what {
            "locks" => MEMBERS.min(end as usize),
            "waiters" => HOLDERS + members_for(end as usize, ends.over as usize),
            _ => 0,
        };
        // Those that cycle do nothing else.
        crowd.open(first + LANES).await?;
        let (mut there, mut number) = (0, NUMBERS);
        let (mut tokens, mut queues) = (Vec::new(), Queues::new());
        for point in steps(end) {
            let mut told = Told::default();
            let (from, to) = (there as usize, point as usize);
            match what {
                "locks" => {
                    let (tokens, rising) = (&mut tokens, &mut told.rising);
                    let members = first;
                    let mut holding =
                        Holding { story: "held", from, to, members, delay_ms: None, tokens, rising };
                    crowd.run(&mut holding).await?;
                }
                "waiters" => {
                    if from == 0 {
                        hold(&mut crowd, ends.over as usize, &mut tokens, &mut told.rising).await?;
                    }
                    queue(&mut crowd, (from, to), ends.over as usize, first - HOLDERS, &mut queues).await?;
                }
                _ => crowd.open(to.saturating_sub(crowd.len())).await?,
            }
            there = point;
            cycle(common.pause, &mut scene, &mut crowd, first, &mut told, &mut number).await?;
            tell(format_args!(
                "curve of {what}: beside {point}, {:.0} cycles a second, {:.3} ms of the nodes each",
                told.cycles_per_second.unwrap_or_default(),
                told.cpu_per_1000.unwrap_or_default()
            ));
            told.sessions_lost = crowd.lost();
            points.push((label(what, point), told));
        }
        drop(crowd);
        scene.place.end().await;
    }
    Ok(points)
}

fn label(what: &str, point: u32) -> Label {
    match what {
        "locks" => Label::Of(point, "locks, beside"),
        "sessions" => Label::Of(point, "sessions, beside"),
        _ => Label::Of(point, "waiters, beside"),
    }
}

/// None, and powers of ten from 1,000 up to the end.
fn steps(end: u32) -> Vec<u32> {
    let powers = [0, 1_000, 10_000, 100_000, 1_000_000];
    powers.into_iter().filter(|power| *power < end).chain([end]).collect()
}

/// Cycles, and what they cost.
async fn cycle(
    pause: Duration,
    scene: &mut Scene<'_>,
    crowd: &mut Crowd,
    first: usize,
    told: &mut Told,
    number: &mut u64,
) -> Result<(), Failure> {
    crowd.idle(pause / 3).await?;
    let cpu = Cpu::now(scene.cluster()?);
    let began = Instant::now();
    let over = Cell::new(false);
    let until = || {
        over.set(over.get() || began.elapsed() >= pause);
        over.get()
    };
    let mut cycles = Cycles::new(first..first + LANES, *number, &until, &mut told.rising);
    crowd.run(&mut cycles).await?;
    let done = cycles.done as f64;
    *number = cycles.number();
    told.cycles_per_second = Some(done / began.elapsed().as_secs_f64());
    told.cpu_per_1000 = cpu.all(scene.cluster()?).map(|all| all * 1e3 / done.max(1.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_where_it_was_asked_to() {
        assert_eq!(steps(1_000), [0, 1_000]);
        assert_eq!(steps(20_000), [0, 1_000, 10_000, 20_000]);
    }
}
