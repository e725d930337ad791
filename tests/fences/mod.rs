//! The fence feed on real nodes: a resource rejects a stale holder from its expiry on, whatever becomes of the node that
//! it listens to.

mod ahead;
mod cut_off;
mod expiry;
mod keys;
mod reconnect;
mod rejections;

use std::time::Duration;

use palisade_client::{FeedFloor, FenceFeed};
use palisade_core::ids::{ClusterId, LockPrefix, Slot};
use palisade_core::token::Token;
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Floor, Guard, Scope};
use palisade_fence::trusted::TrustedToken;

use crate::live::{Live, Raw, acquire, name, open_session, while_session};

/// The shortest lease.
const TTL: Duration = Duration::from_secs(2);

fn prefix(text: &str) -> LockPrefix {
    LockPrefix::new(text).unwrap()
}

/// The floor that a feed has for slot 0, lost or not.
fn floor(feed: &FenceFeed, lock: &str) -> Option<u64> {
    match feed.floor(&name(lock), Slot(0)) {
        FeedFloor::Known(floor) | FeedFloor::Lost(floor) => Some(floor.get()),
        FeedFloor::Unknown => None,
    }
}

/// A resource that lists the tokens that wrote to it, and listens to a feed.
struct Orders {
    lock: String,
    guard: Guard<MemoryResource<Vec<u64>>>,
}

impl Orders {
    fn new(lock: &str, feed: FenceFeed) -> Self {
        let floor = move |lock: &_, slot| match feed.floor(lock, slot) {
            FeedFloor::Known(floor) | FeedFloor::Lost(floor) => Floor::At(floor),
            FeedFloor::Unknown => Floor::Refuse,
        };
        let scope = Scope::new(ClusterId([1; 16]), name(lock));
        let guard = Guard::new(MemoryResource::new(Vec::new()), scope).with_floors(floor);
        Self { lock: lock.to_owned(), guard }
    }

    /// Writes as the holder of this token.
    fn write(&self, token: u64) -> Result<(), FenceError> {
        let holder = TrustedToken::exclusive(name(&self.lock), Token::new(token).unwrap());
        self.guard.write(&holder, |written| {
            written.push(token);
            Ok(())
        })
    }

    fn refuses(&self, token: u64) -> bool {
        self.write(token).is_err_and(|error| error.is_stale())
    }
}

/// Holds a lock in a session that nobody keeps alive, without a lock-delay; its token.
async fn hold_and_forget(live: &Live, raw: &mut Raw, node: usize, lock: &str) -> u64 {
    let session = open_session(live.channel(node), TTL, "forgotten").await;
    raw.bind(&session).await;
    raw.granted(session.id, acquire(1, lock, while_session())).await.parts[0].token
}
