//! A session of a script, which speaks HTTP and JSON.

use serde_json::{Value, json};

use super::eventually;
use super::http::{Http, post};
use super::raw::RawSession;

/// Of a session; 32 bytes.
pub(crate) const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A session of a script.
pub(crate) struct Script {
    pub(crate) address: String,
    pub(crate) session: String,
    pub(crate) secret: String,
}

impl Script {
    pub(crate) async fn open(address: &str, secret: &str) -> Self {
        let asked = json!({ "client": "a script", "ttl_ms": "60000", "secret": secret });
        let opened = post(address, "/v1/sessions/open", &asked).await.unwrap();
        assert_eq!(opened.status, 200, "{opened:?}");
        let session = opened.json()["session"].as_str().unwrap().to_owned();
        Self { address: address.to_owned(), session, secret: secret.to_owned() }
    }

    /// The same session, for gRPC.
    pub(crate) fn raw(&self) -> RawSession {
        let digits = |at: usize| u8::from_str_radix(&self.secret[at..at + 2], 16).unwrap();
        let secret = (0..self.secret.len()).step_by(2).map(digits).collect();
        RawSession { id: self.session.parse().unwrap(), secret }
    }

    pub(crate) async fn ask(&self, path: &str, more: Value) -> Http {
        let mut body = json!({ "session": self.session, "secret": self.secret });
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        post(&self.address, path, &body).await.expect("an answer")
    }

    /// The same, repeated until it is answered otherwise than by what a change of leader brings.
    pub(crate) async fn insist(&self, path: &str, more: Value) -> Http {
        eventually("an answer", async || {
            let answer = self.ask(path, more.clone()).await;
            (![421, 503, 504].contains(&answer.status)).then_some(answer)
        })
        .await
    }

    pub(crate) async fn acquire(&self, number: u64, more: Value) -> Http {
        let mut body = json!({ "number": number, "lock": "orders/shard-7", "lock_delay_ms": 0 });
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        self.insist("/v1/locks/acquire", body).await
    }
}
