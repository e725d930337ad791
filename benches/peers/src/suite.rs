//! `bench-peers suite`: one service, started anew, and the workloads that were asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::backend::Backend;
use crate::cluster::{Cluster, Service};
use crate::measure::{Sample, sample};
use crate::report::brief;
use crate::work::{self, Place};
use crate::{ProgramArgs, etcd, floor, palisade, postgres, redis, zookeeper};

/// Of every session and lease.
const TTL: Duration = Duration::from_secs(10);
/// Threads of the load generator.
const THREADS: usize = 2;
/// Sessions that queue for one lock.
const QUEUE: usize = 32;
/// Tasks while the leader is lost.
const FAILOVER_TASKS: usize = 24;
/// Longest measurement of checks.
const CHECK_MAX: Duration = Duration::from_secs(2);
/// Tasks of the warm-up.
const WARMUP_TASKS: usize = 256;
/// The JVM compiles as it runs: cold, ZooKeeper looks two to three times slower than it is.
const WARMUP_ZOOKEEPER: f64 = 25.0;
const WARMUP: f64 = 1.0;
/// Longest time of one measurement: what takes longer hangs.
const MEASUREMENT_MAX: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Its Rust client, which moves to the leader
    Palisade,
    /// Its Rust client, which stays with its node
    PalisadeStay,
    /// One gRPC call a request
    PalisadeUnary,
    EtcdLock,
    EtcdTxn,
    Zk,
    RedisAlways,
    RedisEverysec,
    PgRow,
    PgAdvisory,
    Floor,
    FloorQ,
}

impl Which {
    fn service(self) -> Service {
        match self {
            Self::Palisade | Self::PalisadeStay | Self::PalisadeUnary => Service::Palisade,
            Self::EtcdLock | Self::EtcdTxn => Service::Etcd,
            Self::Zk => Service::ZooKeeper,
            Self::RedisAlways => Service::RedisAlways,
            Self::RedisEverysec => Service::RedisEverySecond,
            Self::PgRow | Self::PgAdvisory => Service::Postgres,
            Self::Floor | Self::FloorQ => Service::Floor,
        }
    }

    fn backend(self) -> Arc<dyn Backend> {
        let (endpoints, ttl) = (self.service().endpoints(), TTL);
        let first = endpoints[0].clone();
        match self {
            Self::Palisade | Self::PalisadeStay => {
                Arc::new(palisade::Palisade { endpoints, ttl, stay: self == Self::PalisadeStay })
            }
            Self::PalisadeUnary => Arc::new(palisade::Unary { endpoints, ttl }),
            Self::EtcdLock | Self::EtcdTxn => {
                Arc::new(etcd::Etcd { endpoints, call: self == Self::EtcdLock, ttl })
            }
            Self::Zk => Arc::new(zookeeper::ZooKeeper { endpoints, ttl }),
            Self::RedisAlways | Self::RedisEverysec => Arc::new(redis::Redis { endpoint: first, ttl }),
            Self::PgRow | Self::PgAdvisory => {
                Arc::new(postgres::Postgres { connection: first, rows: self == Self::PgRow, ttl })
            }
            Self::Floor | Self::FloorQ => {
                Arc::new(floor::Floor { endpoint: first, quorum_read: self == Self::FloorQ })
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Acquire and release, a lock of its own for each task
    W1,
    /// The same, with every connection at the leader
    W1Leader,
    /// Many sessions queue for one lock
    W2,
    /// Keepalives of many leases
    W3,
    /// The leader is killed, then one is stopped
    W4,
    /// Is this token still current?
    W5,
}

/// What is measured at one time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Cycles(Place),
    Handoffs,
    Keepalives,
    Failover(Signal),
    Checks,
    /// What the nodes hold after all that came before.
    Memory,
}

/// One line of the results.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Measurement {
    what: What,
    name: &'static str,
    tasks: usize,
}

fn each(what: What, name: &'static str, tasks: &[usize]) -> Vec<Measurement> {
    tasks.iter().map(|&tasks| Measurement { what, name, tasks }).collect()
}

#[derive(Args)]
pub(crate) struct SuiteArgs {
    #[arg(long)]
    backend: Which,
    /// What the results are called; without it, as the backend
    #[arg(long)]
    label: Option<String>,
    #[arg(long, value_delimiter = ',', default_value = "w1,w2,w5,w3,w4")]
    workloads: Vec<Workload>,
    /// Tasks of W1
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256,1024")]
    concs: Vec<usize>,
    /// Tasks of W5
    #[arg(long, value_delimiter = ',', default_value = "1,64,256")]
    checks: Vec<usize>,
    /// Leases of W3
    #[arg(long, default_value_t = 10_000)]
    leases: usize,
    /// Which round of a comparison it is
    #[arg(long, default_value_t = 1)]
    round: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3.0)]
    secs: f64,
    /// Seconds of load before the first; without it, 1, and 25 for the JVM
    #[arg(long)]
    warmup: Option<f64>,
    #[command(flatten)]
    place: crate::Place,
    #[command(flatten)]
    programs: ProgramArgs,
}

impl SuiteArgs {
    fn plan(&self) -> Vec<Measurement> {
        let mut plan: Vec<Measurement> =
            self.workloads.iter().flat_map(|&workload| self.measurements(workload)).collect();
        if plan.iter().any(|measurement| matches!(measurement.what, What::Cycles(_))) {
            plan.extend(each(What::Memory, "memory", &[0]));
        }
        plan
    }

    /// Those of a workload, where the service offers it.
    fn measurements(&self, workload: Workload) -> Vec<Measurement> {
        match workload {
            Workload::W1 => each(What::Cycles(Place::Spread), "w1", &self.concs),
            Workload::W1Leader => each(What::Cycles(Place::Leader), "w1-leader", &self.concs),
            Workload::W2 => each(What::Handoffs, "w2", &[QUEUE]),
            Workload::W3 => each(What::Keepalives, "w3", &[self.leases]),
            Workload::W4 if self.backend.service().can_fail_over() => {
                let killed = each(What::Failover(Signal::KILL), "w4-kill", &[FAILOVER_TASKS]);
                let stopped = each(What::Failover(Signal::STOP), "w4-stop", &[FAILOVER_TASKS]);
                [killed, stopped].concat()
            }
            Workload::W5 if self.backend.backend().can_check() => each(What::Checks, "w5", &self.checks),
            Workload::W4 | Workload::W5 => Vec::new(),
        }
    }

    /// What was measured, or why it was not: nothing that was asked for is missing from the results.
    fn put(&self, measurement: Measurement, measured: Result<Value>) -> Result<()> {
        let mut line = measured.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        let named = self.backend.to_possible_value().map(|value| value.get_name().to_owned());
        line["backend"] = json!(self.label.clone().or(named));
        line["workload"] = json!(measurement.name);
        line["tasks"] = json!(measurement.tasks);
        line["round"] = json!(self.round);
        eprintln!("{}", brief(&line));
        self.place.emit(&line)
    }
}

pub(crate) fn run(arguments: &SuiteArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let mut left: VecDeque<Measurement> = arguments.plan().into();
    let ended = runtime.block_on(suite(arguments, &mut left));
    // A task that hangs is not waited for.
    runtime.shutdown_background();
    if let Err(error) = &ended {
        for measurement in left {
            arguments.put(measurement, Err(anyhow!("{error:#}")))?;
        }
    }
    ended
}

/// Takes from `left` what has its line.
async fn suite(arguments: &SuiteArgs, left: &mut VecDeque<Measurement>) -> Result<()> {
    let service = arguments.backend.service();
    let cluster = Cluster::start(service, &arguments.place.data, arguments.programs.programs()).await?;
    let run = format!("{:x}", rand::random::<u32>());
    let mut suite = Suite { arguments, backend: arguments.backend.backend(), cluster, run };
    let measured = suite.measure(left).await;
    suite.cluster.stop().await;
    measured
}

struct Suite<'a> {
    arguments: &'a SuiteArgs,
    backend: Arc<dyn Backend>,
    cluster: Cluster,
    /// So that no run uses a lock of another.
    run: String,
}

impl Suite<'_> {
    async fn measure(&mut self, left: &mut VecDeque<Measurement>) -> Result<()> {
        self.warm_up().await.context("the warm-up failed")?;
        while let Some(&measurement) = left.front() {
            let measured = timeout(MEASUREMENT_MAX, self.one(measurement)).await;
            let measured = measured.with_context(|| format!("{} hung", measurement.name))?;
            self.arguments.put(measurement, measured)?;
            left.pop_front();
        }
        Ok(())
    }

    async fn warm_up(&self) -> Result<()> {
        let of_service = if self.arguments.backend == Which::Zk { WARMUP_ZOOKEEPER } else { WARMUP };
        let warmup = Duration::from_secs_f64(self.arguments.warmup.unwrap_or(of_service));
        if !warmup.is_zero() {
            let tag = format!("{}-warm", self.run);
            work::grant(&self.backend, &self.cluster, WARMUP_TASKS, warmup, Place::Spread, &tag).await?;
        }
        Ok(())
    }

    async fn one(&mut self, Measurement { what, name, tasks }: Measurement) -> Result<Value> {
        let took = Duration::from_secs_f64(self.arguments.secs);
        let tag = format!("{}-{name}-{tasks}", self.run);
        let backend = &self.backend;
        match what {
            What::Cycles(place) => work::grant(backend, &self.cluster, tasks, took, place, &tag).await,
            What::Handoffs => work::handoff(backend, &self.cluster, tasks, took, &tag).await,
            What::Keepalives => work::keepalive(backend, &self.cluster, tasks, TTL).await,
            What::Failover(signal) => work::failover(backend, &mut self.cluster, signal, &tag).await,
            What::Checks => work::check(backend, &self.cluster, tasks, took.min(CHECK_MAX), &tag).await,
            What::Memory => Ok(memory(&sample(&self.cluster.pids()))),
        }
    }
}

fn memory(nodes: &Sample) -> Value {
    let mb = |kb: u64| kb as f64 / 1_024.0;
    json!({ "pss_mb": mb(nodes.pss_kb), "anon_mb": mb(nodes.anon_kb) })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        suite: SuiteArgs,
    }

    fn typed(words: &[&str]) -> SuiteArgs {
        Typed::try_parse_from([&["suite"], words].concat()).expect("good arguments").suite
    }

    fn names(words: &[&str]) -> Vec<(&'static str, usize)> {
        typed(words).plan().into_iter().map(|measurement| (measurement.name, measurement.tasks)).collect()
    }

    #[test]
    fn a_plan_has_what_the_service_offers() {
        let words = ["--backend", "floor", "--workloads", "w4,w5,w1", "--concs", "1,64", "--checks", "256"];
        assert_eq!(names(&words), [("w5", 256), ("w1", 1), ("w1", 64), ("memory", 0)]);
        let words = ["--backend", "zk", "--workloads", "w4"];
        assert_eq!(names(&words), [("w4-kill", FAILOVER_TASKS), ("w4-stop", FAILOVER_TASKS)]);
        assert_eq!(names(&["--backend", "pg-advisory", "--workloads", "w5"]), []);
    }

    #[test]
    fn a_service_that_does_not_start_has_a_line_for_all_that_was_asked_for() {
        let folder = std::env::temp_dir().join(format!("bench-peers-{}", std::process::id()));
        let [data, out] = ["data", "out"].map(|name| folder.join(name).display().to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        let words =
            ["--backend", "palisade", "--palisade", "no/such/program", "--data", &data, "--out", &out];
        let words = [&words[..], &["--workloads", "w1,w4", "--concs", "1,64", "--round", "3"]].concat();
        assert!(run(&typed(&words)).is_err());
        let text = std::fs::read_to_string(&out).expect("lines");
        std::fs::remove_dir_all(&folder).expect("a folder");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let workloads: Vec<_> = lines.iter().filter_map(|line| line["workload"].as_str()).collect();
        assert_eq!(workloads, ["w1", "w1", "w4-kill", "w4-stop", "memory"]);
        assert!(lines.iter().all(|line| line["failed"].is_string() && line["round"] == 3), "{text}");
    }
}
