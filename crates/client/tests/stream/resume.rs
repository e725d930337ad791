//! Going on after a restart where an earlier process stopped (SPEC 3).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use palisade_client::{
    AcquireError, Client, ClientConfig, ConfigError, Kept, KeptState, LostReason, OpenError, Session,
    SessionState, TakenOver,
};
use palisade_core::ids::LockName;
use palisade_core::reply::Ended;
use palisade_host::ManualClock;
use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use palisade_proto::v1::slot_view::State;
use palisade_proto::v1::taken_acquisition::State as Taken;
use tokio::task::JoinHandle;

use crate::fake::{
    Node, Stream, acquire, cancel, cancelled, client_with, granted, orders, part, release, soon,
};

/// A folder with a state file, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("palisade-resume-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state")
    }

    fn begin(&self, node: &Node) -> Process {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let config = ClientConfig::new([node.address.clone()]).state_file(self.file());
        let entered = runtime.enter();
        let client = client_with(config, &Arc::new(ManualClock::default()));
        drop(entered);
        Process { runtime: Some(runtime), client: Some(client) }
    }
}

/// A client with a runtime of its own, so that it can end as `kill -9` ends a process: it tells nobody.
struct Process {
    runtime: Option<tokio::runtime::Runtime>,
    client: Option<Client>,
}

impl Process {
    fn resume(&self) -> JoinHandle<Resumed> {
        let client = self.client.clone().expect("it lives");
        self.runtime.as_ref().expect("it lives").spawn(async move { client.resume_session().await })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.client = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Resumed = Result<(Session, TakenOver), OpenError>;

fn open(request: &v1::Request) -> &v1::OpenSession {
    match &request.op {
        Some(Op::Open(open)) => open,
        other => panic!("an opening was expected, not {other:?}"),
    }
}

fn kept(was: u64, number: u64, state: Taken) -> v1::TakenAcquisition {
    v1::TakenAcquisition { was, number, state: Some(state) }
}

async fn took_over(stream: &Stream, to: &v1::Request, session: u64, kept: Vec<v1::TakenAcquisition>) {
    let took_over = Some(v1::TookOver { replaced: 7, kept, ended: Vec::new() });
    let opened = v1::SessionOpened { session, ttl_ms: 10_000, took_over, ..v1::SessionOpened::default() };
    stream.respond(to, Answer::Opened(opened)).await;
}

/// A first process, whose session is 7, has died.
async fn after_the_first(place: &Place, node: &mut Node) {
    let process = place.begin(node);
    let mut stream = node.stream().await;
    let resuming = process.resume();
    let request = stream.request().await;
    assert!(open(&request).replaces.is_none(), "there is nothing to go on from");
    stream.opened(&request, 7).await;
    let (session, taken) = soon(resuming).await.expect("it ran").expect("a session");
    assert_eq!((taken.replaced(), taken.kept()), (None, [].as_slice()));
    drop(process);
    drop((session, taken));
    freed(place).await;
}

/// Until the file is free.
async fn freed(place: &Place) {
    soon(async {
        while palisade_host::OwnFile::take(&place.file()).is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A second process took session 7 over as session 9, with these.
async fn second(
    place: &Place,
    node: &mut Node,
    kept: Vec<v1::TakenAcquisition>,
) -> (Process, Stream, Session, TakenOver) {
    after_the_first(place, node).await;
    let process = place.begin(node);
    let mut stream = node.stream().await;
    let resuming = process.resume();
    let request = stream.request().await;
    let replaces = open(&request).replaces.clone().expect("it replaces the first");
    assert_eq!((replaces.session, replaces.secret.len()), (7, 32));
    assert_eq!(replaces.proven_dead, palisade_host::boot_id().is_some());
    took_over(&stream, &request, 9, kept).await;
    let (session, taken) = soon(resuming).await.expect("it ran").expect("a session");
    assert_eq!(taken.replaced().map(|id| id.0), Some(7));
    (process, stream, session, taken)
}

/// Who holds and awaits `orders`.
fn view(holder: Option<u64>, waiter: Option<u64>) -> Answer {
    let id = |number| Some(v1::AcquisitionId { session: 9, number });
    let state = match holder {
        Some(number) => {
            let holder = v1::Holder { acquisition: id(number), ..v1::Holder::default() };
            State::Held(v1::Tenure { token: 60, holders: vec![holder], ..v1::Tenure::default() })
        }
        None => State::Free(true),
    };
    let queue = waiter.map(|number| v1::WaiterView { acquisition: id(number), ..v1::WaiterView::default() });
    Answer::Lock(v1::LockView {
        slots: vec![v1::SlotView { slot: 0, state: Some(state) }],
        queue: queue.into_iter().collect(),
        ..v1::LockView::default()
    })
}

#[tokio::test]
async fn what_was_held_is_adopted_under_its_new_token() {
    let (place, mut node) = (Place::new(), Node::start().await);
    let (_process, mut stream, session, mut taken) =
        second(&place, &mut node, vec![kept(3, 1, Taken::Holds(true))]).await;
    assert!(matches!(taken.kept(), [Kept { state: KeptState::Holds, .. }]));
    let listed = v1::BoundAcquisition { number: 1, grant: Some(granted(9, 1, 60)) };
    stream.bind(vec![listed]).await;
    let adopting = tokio::spawn(async move { (taken.adopt(&orders()).await, taken) });
    let read = stream.request().await;
    stream.respond(&read, view(Some(1), None)).await;
    let (adopted, taken) = soon(adopting).await.expect("it ran");
    let guards = adopted.expect("it is kept").expect("it is there");
    assert!(taken.kept().is_empty());
    let guard = guards.into_guards().remove(0);
    assert_eq!(guard.token().get(), 60);
    assert!(guard.check().is_ok());
    // The next request of the session has a number of its own.
    let asked = tokio::spawn(session.lock(LockName::new("stock").expect("a name")).acquire());
    assert_eq!(acquire(&stream.request().await).number, 2);
    asked.abort();
    assert_eq!(cancel(&stream.request().await), 2);
    drop(guard);
    assert_eq!(release(&stream.request().await).token, 60);
}

#[tokio::test]
async fn what_waited_is_adopted_and_granted_later_also_over_a_broken_connection() {
    let (place, mut node) = (Place::new(), Node::start().await);
    let (_process, mut stream, _session, mut taken) =
        second(&place, &mut node, vec![kept(3, 1, Taken::Waits(true))]).await;
    let waiting = || vec![v1::BoundAcquisition { number: 1, grant: None }];
    stream.bind(waiting()).await;
    let adopting = tokio::spawn(async move { (taken.adopt(&orders()).await, taken) });
    let read = stream.request().await;
    stream.respond(&read, view(None, Some(1))).await;
    let mut stream = stream.broken(&mut node, waiting()).await;
    stream = stream
        .broken(&mut node, vec![v1::BoundAcquisition { number: 1, grant: Some(granted(9, 1, 64)) }])
        .await;
    let (adopted, _taken) = soon(adopting).await.expect("it ran");
    let guards = adopted.expect("it is kept").expect("it is there");
    assert!(guards.guards().all(|guard| guard.token().get() == 64));
    drop(guards);
    assert_eq!(release(&stream.request().await).token, 64);
}

#[tokio::test]
async fn how_an_adopted_wait_ended_is_learned_by_its_cancel() {
    let (place, mut node) = (Place::new(), Node::start().await);
    let (_process, mut stream, _session, mut taken) =
        second(&place, &mut node, vec![kept(3, 1, Taken::Waits(true))]).await;
    stream.bind(vec![v1::BoundAcquisition { number: 1, grant: None }]).await;
    let adopting = tokio::spawn(async move { taken.adopt(&orders()).await });
    let read = stream.request().await;
    stream.respond(&read, view(None, Some(1))).await;
    let mut stream = stream.broken(&mut node, Vec::new()).await;
    let request = stream.request().await;
    assert_eq!(cancel(&request), 1);
    let ended = v1::Cancelled { was: v1::cancelled::Was::Ended.into(), ended: v1::Ended::TimedOut.into() };
    stream.respond(&request, Answer::Cancelled(ended)).await;
    let outcome = soon(adopting).await.expect("it ran");
    assert!(matches!(outcome, Err(AcquireError::TimedOut { .. })), "{outcome:?}");
}

#[tokio::test]
async fn what_is_not_adopted_is_cancelled() {
    let (place, mut node) = (Place::new(), Node::start().await);
    let kept = vec![kept(3, 1, Taken::Holds(true)), kept(4, 2, Taken::ClosedMs(25_000))];
    let (_process, mut stream, _session, mut taken) = second(&place, &mut node, kept).await;
    let both = v1::Grant { parts: vec![part("stock", 0, 60)], ..granted(9, 1, 60) };
    let listed = vec![
        v1::BoundAcquisition { number: 1, grant: Some(both) },
        v1::BoundAcquisition { number: 2, grant: None },
    ];
    stream.bind(listed).await;
    // Nothing of it is `orders`.
    let adopting = tokio::spawn(async move { (taken.adopt(&orders()).await, taken) });
    let read = stream.request().await;
    stream.respond(&read, view(None, None)).await;
    let (adopted, taken) = soon(adopting).await.expect("it ran");
    assert!(matches!(adopted, Ok(None)), "{adopted:?}");
    assert_eq!(taken.kept().len(), 2);
    taken.release_rest();
    for number in [1, 2] {
        let request = stream.request().await;
        assert_eq!(cancel(&request), number);
        stream.respond(&request, cancelled(v1::cancelled::Was::Holding)).await;
    }
}

#[tokio::test]
async fn a_process_that_died_while_it_took_over_is_followed() {
    let (place, mut node) = (Place::new(), Node::start().await);
    after_the_first(&place, &mut node).await;
    // The second one's request arrives, and it dies before the answer.
    let process = place.begin(&node);
    let mut stream = node.stream().await;
    let resuming = process.resume();
    let lost = open(&stream.request().await).clone();
    drop(process);
    drop(resuming);
    freed(&place).await;
    // The third asks for what the second opened, and replaces that.
    let process = place.begin(&node);
    let mut stream = node.stream().await;
    let resuming = process.resume();
    let request = stream.request().await;
    assert_eq!(open(&request), &lost);
    took_over(&stream, &request, 8, Vec::new()).await;
    let next = stream.request().await;
    let replaces = open(&next).replaces.clone().expect("it replaces the second's");
    assert_eq!(replaces.session, 8);
    assert_ne!(open(&next).secret_hash, lost.secret_hash);
    took_over(&stream, &next, 9, Vec::new()).await;
    let (_session, taken) = soon(resuming).await.expect("it ran").expect("a session");
    assert_eq!(taken.replaced().map(|id| id.0), Some(7), "as the answer said");
    stream.bind(Vec::new()).await;
}

#[tokio::test]
async fn where_the_earlier_session_is_over_a_new_one_begins() {
    let (place, mut node) = (Place::new(), Node::start().await);
    after_the_first(&place, &mut node).await;
    let process = place.begin(&node);
    let mut stream = node.stream().await;
    let resuming = process.resume();
    let first = stream.request().await;
    assert!(open(&first).replaces.is_some());
    stream.refuse(&first, "SESSION_EXPIRED").await;
    let second = stream.request().await;
    assert!(open(&second).replaces.is_none());
    stream.opened(&second, 9).await;
    let (session, taken) = soon(resuming).await.expect("it ran").expect("a session");
    assert_eq!((session.id().0, taken.replaced()), (9, None));
}

#[tokio::test]
async fn a_process_that_was_taken_over_stops_and_takes_nothing_over() {
    let (place, mut node) = (Place::new(), Node::start().await);
    let (process, mut stream, session, taken) = second(&place, &mut node, Vec::new()).await;
    stream.bind(Vec::new()).await;
    let again = soon(process.resume()).await.expect("it ran");
    assert!(matches!(again, Err(OpenError::StateFile { .. })), "it has one: {again:?}");
    let ended = v1::SessionEnded { ended: v1::Ended::TakenOver.into() };
    stream.event(9, v1::event::What::SessionEnded(ended)).await;
    let lost = SessionState::Lost(LostReason::Ended(Ended::TakenOver));
    soon(session.states().wait_for(|state| *state == lost)).await.expect("it is told");
    let again = soon(process.resume()).await.expect("it ran");
    assert!(matches!(again, Err(OpenError::StateFile { .. })), "{again:?}");
    drop(taken);
}

#[tokio::test]
async fn one_process_at_a_time_has_the_file() {
    let (place, node) = (Place::new(), Node::start().await);
    let first = place.begin(&node);
    let config = ClientConfig::new([node.address.clone()]).state_file(place.file());
    let second = Client::new(config, palisade_host::Host::system());
    assert!(matches!(second, Err(ConfigError::StateFile { .. })), "{second:?}");
    drop(first);
}
