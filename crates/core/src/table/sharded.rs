//! A map split into shards by a fixed hash, each behind an `Arc`.
//!
//! A clone copies pointers; the first change of a shard afterwards copies that shard alone. So a snapshot stalls
//! nothing. Shards are written in order, so that equal tables have equal bytes on every replica.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::session::shard_of;

const SHARDS: usize = 4_096;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sharded<K, V> {
    shards: Vec<Arc<BTreeMap<K, V>>>,
    len: usize,
}

impl<K: Ord + Hash + Clone, V: Clone> Sharded<K, V> {
    pub(crate) fn new() -> Self {
        let empty = Arc::new(BTreeMap::new());
        Self { shards: vec![empty; SHARDS], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.shards[shard_of(key, SHARDS)].get(key)
    }

    /// The key as it is kept here.
    pub(crate) fn key(&self, key: &K) -> Option<&K> {
        self.shards[shard_of(key, SHARDS)].get_key_value(key).map(|(known, _)| known)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let shard = &mut self.shards[shard_of(key, SHARDS)];
        if !might_change(shard, key) {
            return None;
        }
        Arc::make_mut(shard).get_mut(key)
    }

    /// The value of a key; where there is none, this one.
    pub(crate) fn get_or_insert_with(&mut self, key: &K, value: impl FnOnce() -> V) -> &mut V {
        match Arc::make_mut(&mut self.shards[shard_of(key, SHARDS)]).entry(key.clone()) {
            Entry::Occupied(old) => old.into_mut(),
            Entry::Vacant(new) => {
                self.len += 1;
                new.insert(value())
            }
        }
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = Arc::make_mut(&mut self.shards[shard_of(&key, SHARDS)]).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let shard = &mut self.shards[shard_of(key, SHARDS)];
        if !might_change(shard, key) {
            return None;
        }
        let old = Arc::make_mut(shard).remove(key);
        self.len -= usize::from(old.is_some());
        old
    }

    /// In shard order, and in key order within a shard: the same on every replica.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().filter(|shard| !shard.is_empty()).flat_map(|shard| shard.iter())
    }
}

/// Whether a shard is to be taken for a change: one that is shared stays so when the key is not in it.
fn might_change<K: Ord, V>(shard: &Arc<BTreeMap<K, V>>, key: &K) -> bool {
    Arc::strong_count(shard) == 1 || shard.contains_key(key)
}

impl<K: Ord + Hash + Clone, V: Clone> Sharded<K, V> {
    /// Entries of one shard, as they were written: all at once, so that its nodes are full.
    fn put<E: serde::de::Error>(&mut self, shard: usize, entries: &mut Vec<(K, V)>) -> Result<(), E> {
        let (before, count) = (self.len, entries.len());
        if self.shards[shard].is_empty() {
            let map: BTreeMap<K, V> = entries.drain(..).collect();
            self.len += map.len();
            self.shards[shard] = Arc::new(map);
        } else {
            for (key, value) in entries.drain(..) {
                self.insert(key, value);
            }
        }
        match self.len == before + count {
            true => Ok(()),
            false => Err(E::custom("a key stands twice in a table")),
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Sharded<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shards.iter().flat_map(|shard| shard.iter())).finish()
    }
}

impl<K: Serialize, V: Serialize> Serialize for Sharded<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.len))?;
        for shard in self.shards.iter().filter(|shard| !shard.is_empty()) {
            for entry in shard.iter() {
                seq.serialize_element(&entry)?;
            }
        }
        seq.end()
    }
}

impl<'de, K, V> Deserialize<'de> for Sharded<K, V>
where
    K: Ord + Hash + Clone + Deserialize<'de>,
    V: Clone + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<K, V>(PhantomData<(K, V)>);

        impl<'de, K, V> Visitor<'de> for Entries<K, V>
        where
            K: Ord + Hash + Clone + Deserialize<'de>,
            V: Clone + Deserialize<'de>,
        {
            type Value = Sharded<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the entries of a table")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut map = Sharded::new();
                let (mut at, mut run) = (0, Vec::new());
                while let Some((key, value)) = seq.next_element::<(K, V)>()? {
                    let shard = shard_of(&key, SHARDS);
                    if shard != at {
                        map.put(at, &mut run)?;
                        at = shard;
                    }
                    run.push((key, value));
                }
                map.put(at, &mut run)?;
                Ok(map)
            }
        }

        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_until_one_side_changes() {
        let mut map = Sharded::new();
        for key in 0_u64..10_000 {
            map.insert(key, key);
        }
        let view = map.clone();
        map.insert(1, 100);
        map.remove(&2);
        assert_eq!((view.get(&1), view.get(&2), view.len()), (Some(&1), Some(&2), 10_000));
        assert_eq!((map.get(&1), map.get(&2), map.len()), (Some(&100), None, 9_999));
        let shared = map.shards.iter().zip(&view.shards).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, SHARDS - 2);
    }
}
