//! Three nodes as containers: `docker-compose.yml`, an image that `scripts/image.sh` makes, and what happens to
//! containers. Names are resolved, addresses change, and processes are frozen by the engine, as nothing else does it.
//!
//! Needs: docker, with its engine running, and docker-compose.
//!
//! One cluster lives through all stories, each of which leaves three healthy nodes to the next. `grants` runs
//! throughout: nothing that happens to *one* node may interrupt it for long. Whatever was made (image, containers,
//! network, volumes) is removed at the end, also after a failure.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod engine;
#[path = "../../live/example.rs"]
mod example;
mod grants;
mod image;
mod outages;
mod paused_worker;
mod restarts;
mod service;
mod three;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use grants::Grants;
use image::Image;
use three::Three;

/// Anything that takes longer than this on any machine is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_containers_serve_through_the_loss_of_any_one() {
    let image = Image::make().await;
    image.check().await;
    let three = Three::new(image).await;
    three.check().await;
    three.up().await;

    service::each_node_grants(&three).await;
    service::the_program_works_from_the_host_and_from_a_fourth_container(&three).await;
    paused_worker::a_write_of_a_worker_that_was_paused_past_its_lease_is_refused(&three).await;
    paused_worker::without_a_fence_the_same_write_lands(&three).await;

    let grants = Grants::start(&three);
    grants.go_on().await;
    outages::a_leader_that_is_stopped_hands_over(&three, &grants).await;
    outages::a_leader_is_killed(&three, &grants).await;
    outages::a_leader_is_paused_past_every_lease(&three, &grants).await;
    outages::a_leader_is_cut_off(&three, &grants).await;
    restarts::node_after_node_is_restarted(&three, &grants).await;
    restarts::a_node_comes_back_at_another_address(&three, &grants).await;
    grants.end();
    restarts::volumes_outlive_their_containers(&three).await;
}

/// Waits until `found` says yes.
async fn until(what: &str, mut found: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !found().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(LOOK).await;
    }
}
