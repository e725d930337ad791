//! The window over which a workload is measured.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::process::Machine;
use super::{Sample, cpu_of_this_process, flushes, sample, sample_of_the_machine};
use crate::backend::Backend;
use crate::cluster::Cluster;

pub(crate) struct Window {
    pids: Vec<u32>,
    data: PathBuf,
    servers: Sample,
    client_s: f64,
    machine: Machine,
    counters: Vec<(String, f64)>,
    began: Instant,
    counts_flushes: bool,
}

impl Window {
    pub(crate) async fn open(backend: &dyn Backend, cluster: &Cluster) -> Self {
        let pids = cluster.pids();
        let data = cluster.folder().to_owned();
        let counters = backend.counters().await;
        let counts_flushes = flushes::start();
        Self {
            servers: sample(&pids),
            client_s: cpu_of_this_process(),
            machine: sample_of_the_machine(&data),
            began: Instant::now(),
            pids,
            data,
            counters,
            counts_flushes,
        }
    }

    /// `units`: the cycles, or whatever else was done meanwhile.
    pub(crate) async fn close(self, backend: &dyn Backend, units: u64) -> Value {
        let secs = self.began.elapsed().as_secs_f64();
        let servers = sample(&self.pids);
        let client_s = cpu_of_this_process() - self.client_s;
        let machine = sample_of_the_machine(&self.data);
        let mut counted = if self.counts_flushes { flushes::stop(&self.pids) } else { Vec::new() };
        for (name, value) in backend.counters().await {
            if let Some((_, before)) = self.counters.iter().find(|(known, _)| *known == name) {
                counted.push((name, value - before));
            }
        }
        let units = units.max(1) as f64;
        let counted: Map<String, Value> =
            counted.into_iter().map(|(name, value)| (name, json!(value / units))).collect();
        let server_s = servers.cpu_s() - self.servers.cpu_s();
        let written = servers.write_bytes.saturating_sub(self.servers.write_bytes);
        json!({
            "secs": secs,
            "units": units,
            "rate": units / secs,
            "srv_cpu_per_1k": server_s / units * 1_000.0,
            "srv_cores": server_s / secs,
            "srv_sys_frac": (servers.system_s - self.servers.system_s) / server_s.max(1e-9),
            "cli_cpu_per_1k": client_s / units * 1_000.0,
            "cli_cores": client_s / secs,
            "machine_cores": (machine.busy_s - self.machine.busy_s) / secs,
            "steal_cores": (machine.stolen_s - self.machine.stolen_s) / secs,
            "srv_write_b_per": written as f64 / units,
            "dev_write_b_per": machine.write_bytes.saturating_sub(self.machine.write_bytes) as f64 / units,
            "srv_pss_mb": servers.pss_kb as f64 / 1_024.0,
            "srv_threads": servers.threads,
            "flushes_counted": self.counts_flushes,
            "per_unit": counted,
        })
    }
}
