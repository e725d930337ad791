use std::time::{Duration, Instant};
use palisade_core::ids::{ClusterName, NodeName};
use palisade_host::Host;
use palisade_proto::v1::{self, sessions_client::SessionsClient, request::Op, response, item};
use palisade_server::{InitialMember, Node, ServerConfig, Storage};
use futures_util::StreamExt;
fn free() -> String { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string() }
fn main() {
    let dir = std::path::PathBuf::from("/tmp/rawbench"); let _ = std::fs::remove_dir_all(&dir);
    let name = |n: usize| NodeName::new(&format!("n{n}")).unwrap();
    let addrs: Vec<_> = (0..3).map(|_| free()).collect();
    let clients: Vec<_> = (0..3).map(|_| free()).collect();
    let members: Vec<_> = addrs.iter().enumerate().map(|(a, x)| InitialMember { name: name(a), peer_address: x.clone() }).collect();
    for (at, a) in addrs.iter().enumerate() {
        let mut c = ServerConfig::new(name(at), ClusterName::new("t").unwrap(), members.clone());
        c.peer_listen = a.clone(); c.listen = clients[at].clone();
        c.storage = if std::env::var("MEM").is_ok() { Storage::Memory } else { Storage::Disk(dir.join(format!("n{at}"))) };
        std::thread::spawn(move || {
            let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            rt.block_on(async move { let mut n = Node::start(c, Host::system()).await.unwrap(); println!("{:?}", n.failed().await); });
        });
    }
    let tasks: usize = std::env::args().nth(1).map(|x| x.parse().unwrap()).unwrap_or(64);
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut at = 0;
        loop {
            let mut c = SessionsClient::connect(format!("http://{}", clients[at])).await.unwrap();
            let (tx, rx) = tokio::sync::mpsc::channel::<v1::ClientFrame>(1024);
            let mut s = c.stream(tokio_stream::wrappers::ReceiverStream::new(rx)).await.unwrap().into_inner();
            let first = s.next().await.unwrap().unwrap();
            if !first.leader.clone().unwrap().here { at = (at + 1) % 3; continue; }
            let generation = first.leader.unwrap().generation;
            tx.send(v1::ClientFrame { generation, requests: vec![v1::Request { tag: 1, session: 0, op: Some(Op::Open(v1::OpenSession { secret_hash: vec![7; 32], ttl_ms: 60000, ..Default::default() })) }], ..Default::default() }).await.unwrap();
            let mut session = 0;
            let f = s.next().await.unwrap().unwrap();
            for i in f.items { if let Some(item::Item::Response(r)) = i.item { session = r.session; } }
            println!("session {session}");
            let mut number = 0u64;
            let acq = |task: usize, number: &mut u64| { *number += 1; v1::Request { tag: 10 + task as u64, session, op: Some(Op::Acquire(v1::Acquire { number: *number, mark: number.saturating_sub(2000), parts: vec![v1::AcquirePart { lock: format!("lock-{task}"), ..Default::default() }], wait: Some(v1::Wait { kind: Some(v1::wait::Kind::Session(true)) }), ..Default::default() })) } };
            let reqs = (0..tasks).map(|t| acq(t, &mut number)).collect();
            tx.send(v1::ClientFrame { generation, requests: reqs, ..Default::default() }).await.unwrap();
            let start = Instant::now(); let mut cycles = 0u64; let mut frames = 0u64; let mut last = 0u64;
            while start.elapsed() < Duration::from_secs(4) {
                let f = s.next().await.unwrap().unwrap(); frames += 1;
                let mut out = Vec::new();
                for i in f.items {
                    let Some(item::Item::Response(r)) = i.item else { continue };
                    let task = (r.tag - 10) as usize;
                    match r.result.unwrap() {
                        response::Result::Granted(g) => { let p = &g.parts[0]; assert!(p.token > last || true); last = p.token; out.push(v1::Request { tag: r.tag, session, op: Some(Op::Release(v1::Release { acquisition: g.acquisition, lock: p.lock.clone(), slot: 0, token: p.token })) }); }
                        response::Result::Released(_) => { cycles += 1; out.push(acq(task, &mut number)); }
                        o => panic!("{o:?}"),
                    }
                }
                if !out.is_empty() { tx.send(v1::ClientFrame { generation, requests: out, ..Default::default() }).await.unwrap(); }
            }
            println!("{tasks} tasks: {:.0} cycles/s, {:.1} frames per 1000 cycles", cycles as f64 / start.elapsed().as_secs_f64(), frames as f64 * 1000.0 / cycles as f64);
            break;
        }
    });
}
