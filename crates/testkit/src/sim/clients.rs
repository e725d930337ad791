//! The clients of a simulation: the product's client, taking turns at a few locks and writing to fenced resources.

use std::sync::Arc;
use std::time::Duration;

use palisade_client::{Client, ClientConfig, LockGuard, Session};
use palisade_core::ids::{ClientName, LockName};
use turmoil::Sim;

use super::{Skew, World, draw, host, nodes};
use crate::history::{Held, Write};

/// Locks that all clients fight for.
const LOCKS: u64 = 3;
/// The shortest lease: expiries happen within a run.
const TTL: Duration = Duration::from_secs(2);

/// The name of a client's host.
pub(crate) fn name(client: usize) -> String {
    format!("c{client}")
}

pub(crate) fn start(sim: &mut Sim<'_>, world: &World, client: usize) {
    let world = world.clone();
    sim.client(name(client).as_str(), async move {
        work(&world, client).await?;
        Ok(())
    });
}

async fn work(world: &World, client: usize) -> Result<(), Box<dyn std::error::Error>> {
    let scenario = world.scenario;
    let seed = draw(scenario.seed, 100 + client as u64);
    let mut config = ClientConfig::new((0..scenario.nodes).map(nodes::client_address));
    config.name = ClientName::new(&name(client))?;
    config.ttl = TTL;
    // Some stay where they are, so that relays are used.
    config.follow_leader = client.is_multiple_of(2);
    let until = scenario.hurt + scenario.heal;
    let host = host(seed, Arc::<Skew>::default());
    let pal = Client::new(config, host)?;
    let mut turn = 0;
    while now() < until {
        let opened = tokio::time::timeout(Duration::from_secs(5), pal.open_session()).await;
        let Ok(Ok(session)) = opened else { continue };
        while now() < until && session.remaining().is_some() {
            turn += 1;
            take_turn(world, client, &session, draw(seed, turn)).await;
        }
        // A session that lapsed is left to its expiry.
        if session.remaining().is_some() {
            let _ = tokio::time::timeout(Duration::from_secs(2), session.close()).await;
        }
    }
    Ok(())
}

async fn take_turn(world: &World, client: usize, session: &Session, chance: u64) {
    let Ok(lock) = LockName::new(&format!("lock-{}", chance % LOCKS)) else { return };
    let ask = session.lock(lock.clone()).lock_delay(Duration::ZERO);
    let ask = match (chance >> 8) % 4 {
        0 => ask.try_now(),
        1 => ask.wait_for(Duration::from_millis(500 + (chance >> 16) % 1_500)),
        _ => ask.wait_while_session(),
    };
    // Now and then the caller's own patience ends first; nothing may be left behind.
    let patience = Duration::from_millis(200 + (chance >> 24) % 6_000);
    let Ok(Ok(guard)) = tokio::time::timeout(patience, ask.acquire()).await else {
        tokio::time::sleep(Duration::from_millis(20 + (chance >> 32) % 100)).await;
        return;
    };
    hold(world, client, guard, lock, chance).await;
}

/// Works under a lock: writes as long as the guard says that it may, then releases or just lets go.
async fn hold(world: &World, client: usize, guard: LockGuard, lock: LockName, chance: u64) {
    let token = guard.token();
    let held = Held {
        client,
        lock: lock.clone(),
        token,
        acquisition: guard.acquisition(),
        from: now(),
        until: None,
    };
    world.grants.lock().push(held.from);
    let entry = world.history.lock().granted(held);
    // Some work outlasts a lease, so that a holder which is cut off meanwhile has something to do when it should not.
    let work = match (chance >> 36) % 6 {
        0 => Duration::from_millis(2_000 + (chance >> 40) % 4_000),
        _ => Duration::from_millis(5 + (chance >> 40) % 400),
    };
    let done = now() + work;
    while now() < done && guard.check().is_ok() {
        let wrote = Write { lock: lock.clone(), token, accepted: world.admit(&lock, token) };
        world.history.lock().wrote(wrote);
        let left = guard.remaining().unwrap_or_default();
        tokio::time::sleep(left.min(Duration::from_millis(20))).await;
    }
    // It believed until it let go, or until its own deadline; whichever came first.
    world.history.lock().stopped(entry, now());
    // A holder that was cut off sleeps on, past its lease and into somebody else's tenure.
    if guard.check().is_err() {
        tokio::time::sleep(TTL + Duration::from_millis((chance >> 44) % 2_000)).await;
    }
    // A careless holder writes once more without asking its guard: the resource must not let it in when it is stale.
    let wrote = Write { lock: lock.clone(), token, accepted: world.admit(&lock, token) };
    world.history.lock().wrote(wrote);
    match (chance >> 50) % 4 {
        0 => drop(guard),
        _ => {
            let _ = tokio::time::timeout(Duration::from_secs(3), guard.release()).await;
        }
    }
}

fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}
