//! Five candidates of one election are killed and come back, and so is the leader of the cluster, under an observer that
//! changes nodes: it hears of every leader, once and in order, and never two lead at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use palisade_client::{Client, ClientConfig, Leader, Leadership};
use palisade_host::Host;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::live::{Live, eventually, name};

const CANDIDATES: usize = 5;
/// How long it goes on, seconds; `PALISADE_ELECTION_SECONDS` says otherwise.
const SECONDS: u64 = 15;
/// The shortest lease: a killed leader makes way soon.
const TTL: Duration = Duration::from_secs(2);
/// The observer leaves its node so often, and with each news.
const MOVES: Duration = Duration::from_millis(700);
/// How long one leads before it is killed.
const REIGN: Duration = Duration::from_millis(300);
/// So many resign one after the other, as soon as they lead: some of them while the observer changes nodes.
const RESIGNATIONS: usize = 10;

/// One leadership, as its own process knew it.
#[derive(Clone, Debug)]
struct Reign {
    token: u64,
    value: Vec<u8>,
    began: Instant,
    ended: Option<Ended>,
}

/// When a leadership ended.
#[derive(Clone, Copy, Debug)]
enum Ended {
    /// It was killed, or began to resign.
    At(Instant),
    /// It was told that its lease is not to be believed in; by then that had been so for a moment.
    Before,
}

type Reigns = Arc<Mutex<Vec<Reign>>>;

fn client(endpoints: &[String]) -> Client {
    let mut config = ClientConfig::new(endpoints.iter().cloned());
    config.ttl = TTL;
    Client::new(config, Host::system()).unwrap()
}

/// A candidate with a runtime of its own, so that it ends as a killed process does.
struct Candidate {
    runtime: Option<Runtime>,
}

impl Candidate {
    fn start(
        endpoints: Vec<String>,
        value: String,
        reigns: Reigns,
        mut resigns: watch::Receiver<u64>,
    ) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let client = client(&endpoints);
            loop {
                // While nobody leads the cluster, this may fail.
                let Ok(session) = client.open_session().await else { continue };
                let election = client.election(name("elected"));
                // No lock-delay: who comes next is known by its token.
                let stand =
                    || election.candidate(&session, value.as_bytes()).lock_delay(Duration::ZERO).acquire();
                while let Ok(leadership) = stand().await.map(Leadership::from) {
                    let began = Instant::now();
                    let token = leadership.token().get();
                    let reign = Reign { token, value: value.clone().into_bytes(), began, ended: None };
                    reigns.lock().unwrap().push(reign);
                    resigns.mark_unchanged();
                    let resigns = tokio::select! {
                        _ = resigns.wait_for(|of| *of == token) => true,
                        _ = leadership.suspended() => false,
                    };
                    let now = Instant::now();
                    end(&reigns, token, if resigns { Ended::At(now) } else { Ended::Before });
                    if resigns {
                        let _ = leadership.resign().await;
                    }
                }
            }
        });
        Self { runtime: Some(runtime) }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn end(reigns: &Reigns, token: u64, ended: Ended) {
    let mut reigns = reigns.lock().unwrap();
    if let Some(reign) = reigns.iter_mut().find(|reign| reign.token == token) {
        reign.ended.get_or_insert(ended);
    }
}

/// Who leads now, by its own account.
async fn reigning(reigns: &Reigns, after: u64) -> Reign {
    eventually("somebody leads", async || {
        let reigns = reigns.lock().unwrap();
        reigns.last().filter(|reign| reign.token > after && reign.ended.is_none()).cloned()
    })
    .await
}

type Heard = Arc<Mutex<Vec<Option<Leader>>>>;

/// Keeps all that the observer hears.
async fn observe(client: Client, heard: Heard) {
    let mut observer = client.election(name("elected")).observe();
    let mut moves = tokio::time::interval(MOVES);
    moves.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // An error says that no node answered for a while: it goes on.
            news = observer.next() => {
                heard.lock().unwrap().extend(news.ok());
                observer.move_on();
            }
            _ = moves.tick() => observer.move_on(),
        }
    }
}

fn check(heard: &[Option<Leader>], mut reigns: Vec<Reign>) {
    let told: Vec<&Leader> = heard.iter().flatten().collect();
    assert!(told.windows(2).all(|pair| pair[0].token < pair[1].token), "out of order: {told:#?}");
    let told: BTreeMap<u64, &[u8]> =
        told.iter().map(|leader| (leader.token.get(), leader.value.as_slice())).collect();
    reigns.sort_by_key(|reign| reign.token);
    // The watch has no gap, whatever node it is at: not even a short one is missed.
    for reign in &reigns {
        assert_eq!(told.get(&reign.token), Some(&reign.value.as_slice()), "missed, or wrong: {reign:?}");
    }
    for pair in reigns.windows(2) {
        assert!(pair[0].token < pair[1].token, "two led under one token: {pair:?}");
        if let Some(Ended::At(ended)) = pair[0].ended {
            assert!(ended <= pair[1].began, "two led at a time: {pair:?}");
        }
    }
    println!("{} led by their own account, {} as the observer heard", reigns.len(), told.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_hears_of_every_leader_in_order_and_never_two_lead() {
    let seconds = std::env::var("PALISADE_ELECTION_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(SECONDS));
    let mut live = Live::start(3).await;
    let endpoints = live.cluster.endpoints();
    let reigns = Reigns::default();
    let (resign, resigns) = watch::channel(0);
    let start = |candidate: usize, life: usize| {
        let value = format!("candidate {candidate}, life {life}");
        Candidate::start(endpoints.clone(), value, reigns.clone(), resigns.clone())
    };
    let heard = Heard::default();
    let observing = tokio::spawn(observe(client(&endpoints), heard.clone()));
    let reader = client(&endpoints);
    let mut candidates: Vec<Candidate> = (0..CANDIDATES).map(|candidate| start(candidate, 0)).collect();

    let (mut last, mut killed_cluster_leader) = (0, false);
    for turn in 1.. {
        if Instant::now() >= until && turn > 6 {
            break;
        }
        let reign = reigning(&reigns, last).await;
        last = reign.token;
        let leader = reader.election(name("elected")).leader().await.unwrap();
        assert!(leader.is_none_or(|leader| leader.token.get() >= last), "a read of an earlier leader");
        if turn % 3 == 0 {
            // One after the other resigns, and the next one leads at once.
            for _ in 1..RESIGNATIONS {
                resign.send_replace(last);
                last = reigning(&reigns, last).await.token;
            }
            resign.send_replace(last);
        } else {
            // It is killed, and comes back.
            tokio::time::sleep_until((reign.began + REIGN).into()).await;
            let text = String::from_utf8(reign.value).unwrap();
            let led = |candidate: &usize| text.starts_with(&format!("candidate {candidate},"));
            let candidate = (0..CANDIDATES).find(led).unwrap();
            drop(candidates.remove(candidate));
            end(&reigns, last, Ended::At(Instant::now()));
            candidates.insert(candidate, start(candidate, turn));
        }
        if turn == 3 {
            let (leader, term) = live.leader_and_term().await;
            live.cluster.kill(leader);
            live.leader_after(term).await;
            live.cluster.start_node(leader).unwrap();
            live.node_ready(leader).await;
            killed_cluster_leader = true;
        }
    }
    assert!(killed_cluster_leader);
    let last = reigning(&reigns, last).await.token;
    eventually("the observer hears of the last", async || {
        let heard = heard.lock().unwrap();
        heard.iter().flatten().any(|leader| leader.token.get() >= last).then_some(())
    })
    .await;
    observing.abort();
    drop(candidates);
    let reigns = reigns.lock().unwrap().iter().filter(|reign| reign.token <= last).cloned().collect();
    check(&heard.lock().unwrap(), reigns);
}
