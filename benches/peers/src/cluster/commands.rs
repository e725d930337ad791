//! The command line of each node, and where its clients connect.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{Life, NODES, Service};

/// Which programs are measured.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) etcd: String,
    /// The `palisade` binary.
    pub(crate) palisade: PathBuf,
}

/// Ports on loopback.
const ETCD: usize = 23_790;
const ZOOKEEPER: usize = 21_810;
const ZOOKEEPER_PEERS: usize = 22_880;
const ZOOKEEPER_ELECTION: usize = 23_880;
const REDIS: usize = 26_379;
const POSTGRES: usize = 25_432;
const FLOOR: usize = 27_010;
const PALISADE: usize = 27_170;
/// Nodes of etcd and Palisade have two ports side by side.
const STEP: usize = 10;

/// Where Debian's packages put them.
const POSTGRES_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const ZOOKEEPER_CLASSES: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/*";

/// The port where clients reach a node.
fn port(service: Service, node: usize) -> usize {
    match service {
        Service::Etcd => ETCD + STEP * node,
        Service::ZooKeeper => ZOOKEEPER + node,
        Service::RedisAlways | Service::RedisEverySecond => REDIS,
        Service::Postgres => POSTGRES,
        Service::Floor => FLOOR + node,
        Service::Palisade => PALISADE + STEP * node,
    }
}

/// Where clients reach a node: `host:port`, and for Postgres what its client wants.
pub(super) fn endpoint(service: Service, node: usize) -> String {
    let port = port(service, node);
    match service {
        Service::Postgres => format!("host=127.0.0.1 port={port} user=postgres dbname=postgres"),
        _ => format!("127.0.0.1:{port}"),
    }
}

/// An error when somebody else serves there already: it would be measured instead.
pub(super) fn is_free(service: Service, node: usize) -> Result<()> {
    let port = port(service, node);
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"));
    listener
        .map(drop)
        .with_context(|| format!("port {port} of {service:?} is taken; does another run go on?"))
}

/// Words of a command line.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// What `setpriv` runs.
pub(super) fn command(
    service: Service,
    node: usize,
    folder: &Path,
    programs: &Programs,
    life: Life,
) -> Result<Vec<String>> {
    match service {
        Service::Etcd => Ok(etcd(node, folder, &programs.etcd, life)),
        Service::ZooKeeper => zookeeper(node, folder),
        Service::RedisAlways => Ok(redis(folder, "always")),
        Service::RedisEverySecond => Ok(redis(folder, "everysec")),
        Service::Postgres => postgres(folder, life),
        Service::Floor => {
            let own = std::env::current_exe()?.display().to_string();
            let ports: Vec<String> = (0..NODES).map(|node| (FLOOR + node).to_string()).collect();
            let node = node.to_string();
            Ok(words([&own, "floor-node", &node, &folder.display().to_string(), &ports.join(",")]))
        }
        Service::Palisade => palisade(node, folder, &programs.palisade),
    }
}

fn etcd(node: usize, folder: &Path, program: &str, life: Life) -> Vec<String> {
    let peer = |node: usize| format!("http://127.0.0.1:{}", ETCD + 1 + STEP * node);
    let client = format!("http://{}", endpoint(Service::Etcd, node));
    let members: Vec<String> = (0..NODES).map(|node| format!("n{node}={}", peer(node))).collect();
    words([
        program,
        "--name",
        &format!("n{node}"),
        "--data-dir",
        &folder.join("data").display().to_string(),
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
        "--listen-peer-urls",
        &peer(node),
        "--initial-advertise-peer-urls",
        &peer(node),
        "--initial-cluster",
        &members.join(","),
        "--initial-cluster-state",
        if life == Life::First { "new" } else { "existing" },
        "--initial-cluster-token",
        "bench",
        "--log-level",
        "error",
    ])
}

fn zookeeper(node: usize, folder: &Path) -> Result<Vec<String>> {
    let data = folder.join("data");
    fs::create_dir_all(&data)?;
    fs::write(data.join("myid"), format!("{}\n", node + 1))?;
    let mut settings = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
         maxClientCnxns=0\n4lw.commands.whitelist=*\nadmin.enableServer=false\nstandaloneEnabled=false\n",
        data.display(),
        ZOOKEEPER + node
    );
    for node in 0..NODES {
        let (peer, election) = (ZOOKEEPER_PEERS + node, ZOOKEEPER_ELECTION + node);
        settings += &format!("server.{}=127.0.0.1:{peer}:{election}\n", node + 1);
    }
    let file = folder.join("zoo.cfg");
    fs::write(&file, settings)?;
    fs::write(
        folder.join("log4j.properties"),
        "log4j.rootLogger=WARN, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\n\
         log4j.appender.A.layout=org.apache.log4j.PatternLayout\n\
         log4j.appender.A.layout.ConversionPattern=%d %p %c %m%n\n",
    )?;
    Ok(words([
        "java",
        "-cp",
        &format!("{}:{ZOOKEEPER_CLASSES}", folder.display()),
        &format!("-Dzookeeper.log.dir={}", folder.display()),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        &file.display().to_string(),
    ]))
}

fn redis(folder: &Path, fsync: &str) -> Vec<String> {
    let (port, folder) = (REDIS.to_string(), folder.display().to_string());
    let mut words = words(["redis-server", "--port", &port, "--bind", "127.0.0.1", "--dir", &folder]);
    words.extend(["--appendonly", "yes", "--appendfsync", fsync, "--save", ""].map(str::to_owned));
    words.extend(["--daemonize", "no"].map(str::to_owned));
    words
}

fn postgres(folder: &Path, life: Life) -> Result<Vec<String>> {
    let (user, group) = postgres_ids()?;
    let as_postgres = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()];
    let data = folder.join("data").display().to_string();
    if life == Life::First {
        std::os::unix::fs::chown(folder, Some(user), Some(group))?;
        let status = Command::new("setpriv")
            .args(&as_postgres)
            .arg(format!("{POSTGRES_PROGRAMS}/initdb"))
            .args(["-D", &data, "-A", "trust", "-U", "postgres"])
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "initdb failed");
    }
    let mut words: Vec<String> = as_postgres.into();
    words.push(format!("{POSTGRES_PROGRAMS}/postgres"));
    words.extend(["-D", &data, "-p", &POSTGRES.to_string(), "-h", "127.0.0.1", "-k", ""].map(str::to_owned));
    words.extend(["-c", "max_connections=300", "-c", "track_wal_io_timing=on"].map(str::to_owned));
    Ok(words)
}

fn postgres_ids() -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = users.find(|words| words.first() == Some(&"postgres"));
    match user.as_deref() {
        Some([_, _, user, group, ..]) => Ok((user.parse()?, group.parse()?)),
        Some(_) | None => bail!("there is no user postgres"),
    }
}

fn palisade(node: usize, folder: &Path, program: &Path) -> Result<Vec<String>> {
    let peer = |node: usize| format!("127.0.0.1:{}", PALISADE + 1 + STEP * node);
    let members: Vec<String> = (0..NODES).map(|node| format!("n{node}={}", peer(node))).collect();
    let program = program.canonicalize()?.display().to_string();
    Ok(words([
        &program,
        "serve",
        "--name",
        &format!("n{node}"),
        "--cluster",
        "bench",
        "--members",
        &members.join(","),
        "--listen",
        &endpoint(Service::Palisade, node),
        "--peer-listen",
        &peer(node),
        "--data-dir",
        &folder.join("data").display().to_string(),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told() {
        let taken = TcpListener::bind(endpoint(Service::Floor, 2)).expect("a port that nobody has");
        let error = is_free(Service::Floor, 2).expect_err("it is taken");
        assert!(error.to_string().contains("27012"), "{error}");
        drop(taken);
        assert!(is_free(Service::Floor, 2).is_ok());
    }
}
