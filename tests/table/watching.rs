//! Watching over HTTP: as a stream of events, and as a call that waits for the next ones.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::live::{Live, SECRET, Script, get, soon};

/// A reader of server-sent events, as a browser is one.
struct Reader {
    lines: Lines<BufReader<TcpStream>>,
}

/// One event.
#[derive(Debug)]
struct Told {
    event: String,
    id: String,
    data: Value,
}

impl Reader {
    async fn open(address: &str, query: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!("GET /v1/watch?{query} HTTP/1.1\r\nHost: {address}\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { lines: BufReader::new(stream).lines() }
    }

    /// The next event; head and chunk sizes are passed over.
    async fn next(&mut self) -> Told {
        let mut told = Told { event: String::new(), id: String::new(), data: Value::Null };
        loop {
            let line = soon("an event", self.lines.next_line()).await.unwrap().expect("the stream goes on");
            if let Some(event) = line.strip_prefix("event: ") {
                told.event = event.to_owned();
            } else if let Some(id) = line.strip_prefix("id: ") {
                told.id = id.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                told.data = serde_json::from_str(data).unwrap();
            } else if line.is_empty() && !told.event.is_empty() {
                return told;
            }
        }
    }

    async fn entry(&mut self) -> Told {
        loop {
            let told = self.next().await;
            match told.event.as_str() {
                "entry" => return told,
                "progress" => {}
                _ => panic!("{told:?}"),
            }
        }
    }
}

fn events(entry: &Value) -> Vec<&str> {
    entry["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_goes_on_at_another_node_and_misses_nothing() {
    let mut live = Live::start(3).await;
    let [stays, other] = live.followers().await;
    let leader = live.leader().await;
    let script = Script::open(live.address(stays), SECRET).await;
    let mut reader = Reader::open(live.address(leader), "prefix=orders%2F", None).await;
    let begun = reader.next().await;
    assert_eq!(begun.event, "progress");
    assert!(begun.id.ends_with(begun.data["index"].as_str().unwrap()), "{begun:?}");

    let granted = script.acquire(1, json!({ "metadata": "10.0.0.7:80" })).await.json();
    let told = reader.entry().await;
    assert_eq!(told.data["index"], granted["grant_index"]);
    let event = &told.data["events"][0];
    assert_eq!((&event["event"], &event["token"]), (&json!("granted"), &granted["token"]));
    assert_eq!((&event["lock"], &event["metadata"]), (&json!("orders/shard-7"), &json!("10.0.0.7:80")));

    // The node dies. What happens meanwhile is told by the next one, from the position behind the last event.
    let (leader, term) = live.leader_and_term().await;
    live.cluster.kill(leader);
    live.leader_after(term).await;
    let release = json!({ "number": 1, "lock": "orders/shard-7", "token": granted["token"] });
    let released = crate::live::eventually("the release", async || {
        let answer = script.ask("/v1/locks/release", release.clone()).await;
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(released.await["ended"], "released");
    let mut reader = Reader::open(live.address(other), "prefix=orders%2F", Some(&told.id)).await;
    let next = reader.entry().await;
    assert_eq!(events(&next.data), ["released"]);
    assert_eq!(next.data["events"][0]["token"], granted["token"]);

    // So does a call that waits, and one without news has a position to go on from.
    let poll = async |from: &str, ms: u64| {
        let path = format!("/v1/events?prefix=orders%2F&from={from}&poll_ms={ms}");
        get(live.address(stays), &path).await.unwrap().json()
    };
    let polled = poll(&told.id, 10_000).await;
    assert_eq!((events(&polled["entries"][0]), &polled["position"]), (vec!["released"], &json!(next.id)));
    let idle = poll(&next.id, 50).await;
    assert_eq!((&idle["entries"], &idle["missing"]), (&json!([]), &Value::Null));
    let ahead: u64 = idle["index"].as_str().unwrap().parse().unwrap();
    let from = ahead.to_string();
    let (waiting, _) = tokio::join!(poll(&from, 10_000), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        script.acquire(2, json!({})).await
    });
    assert_eq!(events(&waiting["entries"][0]), ["granted"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_said_and_how_things_stand() {
    let live = Live::start_with(1, &["--events-kept", "8", "--watches-max", "2"]).await;
    let address = live.address(0);
    let script = Script::open(address, SECRET).await;
    let begun = get(address, "/v1/events?prefix=&poll_ms=0").await.unwrap().json();
    let early = begun["position"].as_str().unwrap().to_owned();
    for number in 1..=12 {
        assert_eq!(script.acquire(number, json!({ "lock": format!("orders/{number}") })).await.status, 200);
    }
    let missed = get(address, &format!("/v1/events?prefix=&from={early}")).await.unwrap().json();
    assert_eq!((&missed["missing"], &missed["entries"]), (&json!("too_old"), &json!([])));
    let mut reader = Reader::open(address, &format!("prefix=orders%2F&from={early}"), None).await;
    let stands = reader.next().await;
    assert_eq!((stands.event.as_str(), &stands.data["missing"]), ("snapshot", &json!("too_old")));
    assert_eq!(stands.data["locks"].as_array().unwrap().len(), 12);
    let mut asked = Reader::open(address, "name=orders%2F3&from=snapshot", None).await;
    let stands = asked.next().await;
    assert_eq!((&stands.data["missing"], &stands.data["last"]), (&Value::Null, &json!(true)));
    assert_eq!(stands.data["locks"][0]["held"], true);

    let title = async |path: &str| {
        let answer = get(address, path).await.unwrap();
        (answer.status, answer.json()["title"].as_str().unwrap().to_owned())
    };
    let full = title("/v1/watch?prefix=").await;
    assert_eq!(full, (429, "LIMIT_REACHED".to_owned()), "one more than the node serves");
    drop((reader, asked));
    let bad = (400, "BAD_ARGUMENT".to_owned());
    for path in [
        "/v1/watch",
        "/v1/watch?name=a&prefix=b",
        "/v1/watch?prefix=&from=x",
        "/v1/watch?prefix=&poll_ms=5",
        "/v1/events?prefix=&from=snapshot",
    ] {
        assert_eq!(title(path).await, bad, "{path}");
    }
    crate::live::eventually("there is room again", async || {
        let answer = get(address, "/v1/events?prefix=&poll_ms=0").await?;
        (answer.status == 200).then_some(())
    })
    .await;
}
