//! How often one client may ask: a bucket a client address, refilled at the rate and as deep as a second of it (SPEC 12).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use palisade_host::Moment;
use parking_lot::Mutex;

/// Addresses that are remembered. Full buckets are forgotten first; when none is full, all are.
const CLIENTS_MAX: usize = 16_384;

struct Bucket {
    left: f64,
    at: Moment,
}

/// The buckets of one node.
pub(crate) struct Rates {
    /// Requests a second; none is no bound.
    rate: Option<f64>,
    buckets: Mutex<BTreeMap<IpAddr, Bucket>>,
}

impl Rates {
    /// `rate` in requests a second; 0 is no bound.
    pub(crate) fn new(rate: u32) -> Self {
        let rate = (rate > 0).then(|| f64::from(rate));
        Self { rate, buckets: Mutex::default() }
    }

    /// Takes `count` requests of a client. Refused, the answer is when a repeat may succeed; nothing is taken then.
    /// More at one time than the bucket holds are let through when it is full.
    pub(crate) fn take(&self, client: IpAddr, count: usize, now: Moment) -> Result<(), Duration> {
        let Some(rate) = self.rate else { return Ok(()) };
        let mut buckets = self.buckets.lock();
        if buckets.len() >= CLIENTS_MAX && !buckets.contains_key(&client) {
            let full = |bucket: &Bucket| bucket.left + now.since(bucket.at).as_secs_f64() * rate >= rate;
            buckets.retain(|_, bucket| !full(bucket));
            if buckets.len() >= CLIENTS_MAX {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(client).or_insert(Bucket { left: rate, at: now });
        bucket.left = (bucket.left + now.since(bucket.at).as_secs_f64() * rate).min(rate);
        bucket.at = now;
        let wanted = u32::try_from(count).map_or(f64::MAX, f64::from);
        let needed = wanted.min(rate);
        if bucket.left < needed {
            return Err(Duration::from_secs_f64((needed - bucket.left) / rate));
        }
        bucket.left -= needed;
        Ok(())
    }

    /// The bound, requests a second; 0 is none.
    pub(crate) fn bound(&self) -> u64 {
        self.rate.map_or(0, |rate| rate as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_client_asks_so_often_and_no_oftener_and_others_are_not_in_its_way() {
        let rates = Rates::new(10);
        let start = Moment::from_nanos(1);
        assert_eq!((0..10).filter(|_| rates.take(CLIENT, 1, start).is_ok()).count(), 10);
        assert_eq!(rates.take(CLIENT, 1, start), Err(Duration::from_millis(100)));
        assert_eq!(rates.take(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 10, start), Ok(()));
        let later = start + Duration::from_millis(200);
        assert_eq!((0..5).filter(|_| rates.take(CLIENT, 1, later).is_ok()).count(), 2);
    }

    #[test]
    fn a_frame_larger_than_the_bucket_passes_when_it_is_full() {
        let rates = Rates::new(10);
        let start = Moment::from_nanos(1);
        assert_eq!(rates.take(CLIENT, 4_096, start), Ok(()));
        assert!(rates.take(CLIENT, 4_096, start + Duration::from_millis(900)).is_err());
        assert_eq!(rates.take(CLIENT, 4_096, start + Duration::from_secs(2)), Ok(()));
    }

    #[test]
    fn without_a_rate_there_is_no_bound_and_the_memory_has_one() {
        let start = Moment::from_nanos(1);
        assert_eq!(Rates::new(0).take(CLIENT, usize::MAX, start), Ok(()));
        let rates = Rates::new(1);
        for number in 0..=u32::try_from(CLIENTS_MAX).expect("it fits") {
            let _ = rates.take(IpAddr::V4(Ipv4Addr::from(number)), 1, start);
        }
        assert!(rates.buckets.lock().len() <= CLIENTS_MAX);
    }
}
