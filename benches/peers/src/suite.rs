//! `bench-peers suite`: one service, started anew, and the workloads that were asked for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::cluster::{Cluster, Service};
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
const CHECK_TASKS: [usize; 3] = [1, 64, 256];
/// Longest measurement of checks.
const CHECK_MAX: Duration = Duration::from_secs(2);
/// Tasks of the warm-up.
const WARMUP_TASKS: usize = 256;
/// The JVM compiles as it runs: cold, ZooKeeper looks two to three times slower than it is.
const WARMUP_ZOOKEEPER: f64 = 25.0;
const WARMUP: f64 = 1.0;

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

pub(crate) fn run(arguments: &SuiteArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(async {
        let service = arguments.backend.service();
        let cluster = Cluster::start(service, &arguments.place.data, arguments.programs.programs()).await?;
        let mut suite = Suite {
            arguments,
            backend: arguments.backend.backend(),
            cluster,
            run: format!("{:x}", rand::random::<u32>()),
        };
        let measured = suite.measure().await;
        suite.cluster.stop().await;
        measured
    })
}

struct Suite<'a> {
    arguments: &'a SuiteArgs,
    backend: Arc<dyn Backend>,
    cluster: Cluster,
    /// So that no run uses a lock of another.
    run: String,
}

impl Suite<'_> {
    async fn measure(&mut self) -> Result<()> {
        let of_service = if self.arguments.backend == Which::Zk { WARMUP_ZOOKEEPER } else { WARMUP };
        let warmup = Duration::from_secs_f64(self.arguments.warmup.unwrap_or(of_service));
        if !warmup.is_zero() {
            let tag = format!("{}-warm", self.run);
            work::grant(&self.backend, &self.cluster, WARMUP_TASKS, warmup, Place::Spread, &tag).await?;
        }
        for &workload in &self.arguments.workloads {
            self.workload(workload).await?;
        }
        Ok(())
    }

    async fn workload(&mut self, workload: Workload) -> Result<()> {
        let took = Duration::from_secs_f64(self.arguments.secs);
        let run = self.run.clone();
        let backend = self.backend.clone();
        match workload {
            Workload::W1 | Workload::W1Leader => {
                let (name, place) = match workload {
                    Workload::W1 => ("w1", Place::Spread),
                    _ => ("w1-leader", Place::Leader),
                };
                for &tasks in &self.arguments.concs {
                    let tag = format!("{run}-{name}-{tasks}");
                    let measured = work::grant(&backend, &self.cluster, tasks, took, place, &tag).await;
                    self.put(name, tasks, measured)?;
                }
            }
            Workload::W2 => {
                let measured = work::handoff(&backend, &self.cluster, QUEUE, took, &run).await;
                self.put("w2", QUEUE, measured)?;
            }
            Workload::W3 => {
                let leases = self.arguments.leases;
                let measured = work::keepalive(&backend, &self.cluster, leases, TTL).await;
                self.put("w3", leases, measured)?;
            }
            Workload::W4 if self.cluster.can_fail_over() => {
                for (name, signal) in [("w4-kill", Signal::KILL), ("w4-stop", Signal::STOP)] {
                    let tag = format!("{run}-{name}");
                    let measured = work::failover(&backend, &mut self.cluster, signal, &tag).await;
                    self.put(name, FAILOVER_TASKS, measured)?;
                }
            }
            Workload::W5 if backend.can_check() => {
                for tasks in CHECK_TASKS {
                    let tag = format!("{run}-{tasks}");
                    let measured =
                        work::check(&backend, &self.cluster, tasks, took.min(CHECK_MAX), &tag).await;
                    self.put("w5", tasks, measured)?;
                }
            }
            Workload::W4 | Workload::W5 => {}
        }
        Ok(())
    }

    fn put(&self, workload: &str, tasks: usize, measured: Result<Value>) -> Result<()> {
        let mut line = measured.unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
        let named = self.arguments.backend.to_possible_value().map(|value| value.get_name().to_owned());
        line["backend"] = json!(self.arguments.label.clone().or(named));
        line["workload"] = json!(workload);
        line["tasks"] = json!(tasks);
        line["round"] = json!(self.arguments.round);
        eprintln!("{}", brief(&line));
        self.arguments.place.emit(&line)
    }
}
