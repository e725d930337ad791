//! A map that mostly has one entry, and then takes no more room than that.
//!
//! A node of a `BTreeMap` has room for eleven: for the one slot of a lock and the one holder of a slot that would be most
//! of what a held lock takes.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::{Index, RangeBounds};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// In the order of its keys, as a `BTreeMap`, and with the same bytes.
#[derive(Clone)]
pub struct Few<K, V>(Kind<K, V>);

#[derive(Clone)]
#[allow(clippy::box_collection, reason = "a map in place would be most of a map of one")]
enum Kind<K, V> {
    None,
    One(Box<(K, V)>),
    /// Never of one or none: equal maps are of one kind.
    More(Box<BTreeMap<K, V>>),
}

/// Entries of a [`Few`], in order.
pub enum Iter<'a, K, V> {
    /// Of at most one.
    One(Option<&'a (K, V)>),
    /// Of more.
    More(btree_map::Iter<'a, K, V>),
}

impl<K: Ord, V> Few<K, V> {
    /// Of one entry.
    pub fn one(key: K, value: V) -> Self {
        Self(Kind::One(Box::new((key, value))))
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::None => 0,
            Kind::One(_) => 1,
            Kind::More(map) => map.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.0 {
            Kind::None => None,
            Kind::One(one) => (one.0 == *key).then_some(&one.1),
            Kind::More(map) => map.get(key),
        }
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.0 {
            Kind::None => None,
            Kind::One(one) => (one.0 == *key).then_some(&mut one.1),
            Kind::More(map) => map.get_mut(key),
        }
    }

    /// Whether the key is there.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Puts a value at a key; what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match std::mem::replace(&mut self.0, Kind::None) {
            Kind::None => {
                self.0 = Kind::One(Box::new((key, value)));
                None
            }
            Kind::One(mut one) if one.0 == key => {
                let old = std::mem::replace(&mut one.1, value);
                self.0 = Kind::One(one);
                Some(old)
            }
            Kind::One(one) => {
                self.0 = Kind::More(Box::new(BTreeMap::from([*one, (key, value)])));
                None
            }
            Kind::More(mut map) => {
                let old = map.insert(key, value);
                self.0 = Kind::More(map);
                old
            }
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match std::mem::replace(&mut self.0, Kind::None) {
            Kind::None => None,
            Kind::One(one) if one.0 == *key => Some(one.1),
            Kind::One(one) => {
                self.0 = Kind::One(one);
                None
            }
            Kind::More(mut map) => {
                let old = map.remove(key);
                self.0 = if map.len() > 1 { Kind::More(map) } else { Self::of(*map) };
                old
            }
        }
    }

    fn of(mut map: BTreeMap<K, V>) -> Kind<K, V> {
        match map.len() {
            0 | 1 => map.pop_first().map_or(Kind::None, |one| Kind::One(Box::new(one))),
            _ => Kind::More(Box::new(map)),
        }
    }

    /// In order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        match &self.0 {
            Kind::None => Iter::One(None),
            Kind::One(one) => Iter::One(Some(one)),
            Kind::More(map) => Iter::More(map.iter()),
        }
    }

    /// Those with keys in the range, in order.
    pub fn range<'a, R: RangeBounds<K> + 'a>(&'a self, range: R) -> impl Iterator<Item = (&'a K, &'a V)> {
        match &self.0 {
            Kind::More(map) => Either::Left(map.range(range)),
            Kind::None | Kind::One(_) => {
                Either::Right(self.iter().filter(move |(key, _)| range.contains(*key)))
            }
        }
    }

    /// In order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// In the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entry with the least key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry with the largest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        match &self.0 {
            Kind::More(map) => map.last_key_value(),
            Kind::None | Kind::One(_) => self.first_key_value(),
        }
    }
}

enum Either<L, R> {
    Left(L),
    Right(R),
}

impl<T, L: Iterator<Item = T>, R: Iterator<Item = T>> Iterator for Either<L, R> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Left(iter) => iter.next(),
            Self::Right(iter) => iter.next(),
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(one) => one.take().map(|(key, value)| (key, value)),
            Self::More(iter) => iter.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::One(one) => (usize::from(one.is_some()), Some(usize::from(one.is_some()))),
            Self::More(iter) => iter.size_hint(),
        }
    }
}

impl<'a, K: Ord, V> IntoIterator for &'a Few<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Few<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut few = Self::default();
        for (key, value) in entries {
            few.insert(key, value);
        }
        few
    }
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Kind::None)
    }
}

impl<K: Ord, V> Index<&K> for Few<K, V> {
    type Output = V;

    #[allow(clippy::expect_used, reason = "as any map's index")]
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is there")
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Few<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for Few<K, V> {}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for Few<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Serialize, V: Serialize> Serialize for Few<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K: Ord + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Few<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<K, V>::deserialize(deserializer)?;
        Ok(Self(Self::of(map)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_a_map_does_at_each_size() {
        let (mut few, mut map) = (Few::default(), BTreeMap::new());
        let steps =
            [(3, true), (3, true), (1, true), (2, true), (3, false), (1, false), (9, false), (2, false)];
        for (value, (key, puts)) in steps.into_iter().enumerate() {
            match puts {
                true => assert_eq!(few.insert(key, value), map.insert(key, value)),
                false => assert_eq!(few.remove(&key), map.remove(&key)),
            }
            assert!(few.iter().eq(map.iter()), "{few:?}");
            assert!(few.range(2..).eq(map.range(2..)), "{few:?}");
            assert_eq!((few.len(), few.is_empty()), (map.len(), map.is_empty()));
            assert_eq!(
                (few.first_key_value(), few.last_key_value()),
                (map.first_key_value(), map.last_key_value())
            );
            assert_eq!(few.get(&2), map.get(&2));
            assert_eq!(few.get_mut(&3), map.get_mut(&3));
            assert_eq!(few, map.iter().map(|(key, value)| (*key, *value)).collect());
        }
    }
}
