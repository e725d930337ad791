//! The rows that the README shows, as a table and as a picture: how many times better Palisade is than each peer.

use super::measured::Measured;
use super::measures::{
    Better, CHECKS, CYCLE_CPU, CYCLE_P99, CYCLES, HANDOFFS, KEEPALIVE_CPU, KILLED, MEMORY, Measure, OPENED,
    STOPPED,
};
use super::numbers::Rounds;

/// A peer: its label in the results, its name for readers, and its colour's class in the picture.
pub(super) struct Peer {
    pub(super) label: &'static str,
    pub(super) name: &'static str,
    pub(super) class: &'static str,
}

pub(super) const PEERS: [Peer; 4] = [
    Peer { label: "etcd-lock", name: "etcd", class: "etcd" },
    Peer { label: "zk", name: "ZooKeeper", class: "zookeeper" },
    Peer { label: "redis-always", name: "one Redis", class: "redis" },
    Peer { label: "floor", name: "the floor", class: "floor" },
];

pub(super) struct Headline {
    pub(super) own: &'static str,
    pub(super) measure: Measure,
    tasks: u64,
    pub(super) says: &'static str,
}

const fn of(own: &'static str, measure: Measure, tasks: u64, says: &'static str) -> Headline {
    Headline { own, measure, tasks, says }
}

const ALL: &[Headline] = &[
    of("palisade", CYCLES, 1, "acquire and release, 1 task"),
    of("palisade", CYCLES, 64, "acquire and release, 64 tasks"),
    of("palisade", CYCLES, 256, "acquire and release, 256 tasks"),
    of("palisade", CYCLES, 1_024, "acquire and release, 1,024 tasks"),
    of("palisade-unary", CYCLES, 64, "unary gRPC calls instead, 64 tasks"),
    of("palisade", CYCLE_P99, 64, "p99 of a cycle, 64 tasks"),
    of("palisade", CYCLE_CPU, 64, "server CPU a cycle, 64 tasks"),
    of("palisade", HANDOFFS, 32, "hand-offs of one lock, 32 wait"),
    of("palisade", CHECKS, 256, "checks of a token, 256 tasks"),
    of("palisade", KEEPALIVE_CPU, 10_000, "server CPU of 1,000 keepalives"),
    of("palisade", OPENED, 10_000, "sessions opened, up to 10,000"),
    of("palisade", KILLED, 24, "leader killed, first grant after"),
    of("palisade", STOPPED, 24, "leader stopped, first grant after"),
    of("palisade-stay", STOPPED, 24, "the same, clients that stay"),
    of("palisade", MEMORY, 0, "memory of all nodes, afterwards"),
];

impl Headline {
    /// What Palisade measured.
    pub(super) fn own(&self, measured: &Measured) -> Rounds {
        measured.of(&self.measure, self.tasks, self.own)
    }

    /// How many times better than the peer: above 1 it is, whether more is better or less.
    pub(super) fn better(&self, measured: &Measured, peer: &Peer) -> Rounds {
        let ratio = measured.ratio(&self.measure, self.tasks, self.own, peer.label);
        if self.measure.better == Better::More { ratio } else { ratio.inverse() }
    }

    /// The peers that are better, by the median.
    pub(super) fn behind(&self, measured: &Measured) -> Vec<&'static str> {
        let ahead = PEERS.iter().filter(|peer| self.better(measured, peer).median() < 1.0);
        ahead.map(|peer| peer.name).collect()
    }
}

/// Those that were tried.
pub(super) fn tried(measured: &Measured) -> Vec<&'static Headline> {
    ALL.iter().filter(|headline| !headline.own(measured).is_empty()).collect()
}
