use super::LockTable;
use crate::command::{AcquirePart, LockDelay, SetDelayRule};
use crate::ids::{LockName, LockPrefix};
use crate::limits::{GUARDS_MAX, LOCK_DELAY_MAX};
use crate::lock::DelayRule;
use crate::reply::{BadArgument, LimitName, Refusal, Reply};

impl LockTable {
    /// An operator sets the least and the largest delay below a prefix, and the guards that cover everything below it
    /// (SPEC 5). What waits or holds already keeps what it was granted on.
    pub(super) fn set_delay_rule(&mut self, set: &SetDelayRule) -> Reply {
        let Some(rule) = &set.rule else {
            self.delay_rules.remove(&set.prefix);
            return Reply::Done;
        };
        if rule.least > rule.most || rule.most > LOCK_DELAY_MAX {
            return Reply::Refused(Refusal::BadArgument(BadArgument::DelayRule));
        }
        if rule.fenced_by.len() > GUARDS_MAX {
            return Reply::Refused(Refusal::BadArgument(BadArgument::Guards));
        }
        let max = self.more_limits.delay_rules_max;
        if self.delay_rules.len() >= max as usize && !self.delay_rules.contains_key(&set.prefix) {
            return Reply::Refused(Refusal::LimitReached { limit: LimitName::DelayRules, max: max.into() });
        }
        self.delay_rules.insert(set.prefix.clone(), rule.clone());
        Reply::Done
    }

    /// The rule that counts for a lock: that of the longest prefix.
    pub(super) fn delay_rule_of(&self, lock: &LockName) -> Option<(&LockPrefix, &DelayRule)> {
        if self.delay_rules.is_empty() {
            return None;
        }
        let mut within = lock.as_str();
        loop {
            let last = LockPrefix::new(within).ok()?;
            let (prefix, rule) = self.delay_rules.range(..=last).next_back()?;
            if within.starts_with(prefix.as_str()) {
                return Some((prefix, rule));
            }
            // A longer beginning of the name than it shares with this one would stand between the two.
            within = shared_beginning(within, prefix.as_str());
        }
    }

    /// A named delay outside the bounds of its prefix is refused, not adjusted.
    pub(super) fn delays_allowed(&self, parts: &[AcquirePart]) -> Result<(), Refusal> {
        for part in parts {
            let (LockDelay::Named(delay), Some((prefix, rule))) =
                (part.delay, self.delay_rule_of(&part.lock))
            else {
                continue;
            };
            if !(rule.least..=rule.most).contains(&delay) {
                let (least, most) = (rule.least, rule.most);
                return Err(Refusal::DelayOutOfBounds { prefix: prefix.clone(), least, most });
            }
        }
        Ok(())
    }

    /// What was asked, settled at arrival, so that a later rule changes nothing that was granted: a delay that was not
    /// named is the default moved into the bounds, and who names no guards takes those of the rule.
    pub(super) fn settled(&self, parts: &[AcquirePart]) -> Vec<AcquirePart> {
        let mut parts = parts.to_vec();
        for part in &mut parts {
            if let Some(known) = self.known_name(&part.lock) {
                part.lock = known.clone();
            }
            let Some((_, rule)) = self.delay_rule_of(&part.lock) else { continue };
            if let LockDelay::Default(delay) = &mut part.delay {
                *delay = (*delay).clamp(rule.least, rule.most);
            }
            if part.fenced_by.is_empty() {
                part.fenced_by.clone_from(&rule.fenced_by);
            }
        }
        parts
    }

    /// The name of a lock as it is kept already. All that is remembered of a lock shares it: what is kept comes back cold,
    /// and a name of its own for each would be most of that.
    fn known_name(&self, lock: &LockName) -> Option<&LockName> {
        self.slot_memories.name(lock).or_else(|| self.locks.key(lock))
    }
}

/// What two texts begin with, in whole characters.
fn shared_beginning<'a>(a: &'a str, b: &str) -> &'a str {
    let same = a.char_indices().zip(b.chars()).find(|((_, one), other)| one != other);
    let end = same.map_or(a.len().min(b.len()), |((at, _), _)| at);
    &a[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::ids::{GuardName, Millis, SessionId};
    use crate::lock::SlotState;
    use crate::table::story::{Story, ask, guard, lock, refusal};

    fn prefix(text: &str) -> LockPrefix {
        LockPrefix::new(text).unwrap()
    }

    fn rule(least: u64, most: u64) -> DelayRule {
        DelayRule { least: Millis(least), most: Millis(most), fenced_by: Vec::new() }
    }

    fn set(story: &mut Story, below: &str, rule: Option<DelayRule>) -> Reply {
        story.apply(Command::SetDelayRule(SetDelayRule { prefix: prefix(below), rule }))
    }

    /// Acquires with this delay; what the hold's delay and guards are.
    fn granted(
        story: &mut Story,
        session: SessionId,
        number: u64,
        name: &str,
        delay: LockDelay,
    ) -> (Millis, Vec<GuardName>) {
        story.acquire(ask(session, number, name).delay(delay));
        let state = &story.table.lock(&lock(name)).expect("held").slots[&crate::ids::Slot(0)];
        let holder = state.tenure().expect("held").holders.values().next().expect("one");
        (holder.delay, holder.fenced_by.clone())
    }

    #[test]
    fn a_named_delay_outside_is_refused_and_one_not_named_is_moved_into_the_bounds() {
        let mut story = Story::begin();
        let a = story.open("a");
        assert_eq!(set(&mut story, "db/", Some(rule(2_000, 10_000))), Reply::Done);
        let out =
            Refusal::DelayOutOfBounds { prefix: prefix("db/"), least: Millis(2_000), most: Millis(10_000) };
        for (number, delay) in [(1, 0), (2, 1_999), (3, 10_001)] {
            let named = ask(a, number, "db/7").delay(LockDelay::Named(Millis(delay)));
            assert_eq!(refusal(story.acquire(named.clone())), out);
            set(&mut story, "x", Some(rule(0, 1)));
            assert_eq!(refusal(story.acquire(named)), out, "a repeat is told the same");
        }
        for (number, delay) in [(4, 2_000), (5, 10_000)] {
            let name = format!("db/{number}");
            let named = LockDelay::Named(Millis(delay));
            assert_eq!(granted(&mut story, a, number, &name, named).0, Millis(delay));
        }
        for (number, default, moved) in [(6, 0, 2_000), (7, 5_000, 5_000), (8, 15_000, 10_000)] {
            let name = format!("db/{number}");
            let default = LockDelay::Default(Millis(default));
            assert_eq!(granted(&mut story, a, number, &name, default).0, Millis(moved));
        }
        assert_eq!(granted(&mut story, a, 9, "other", LockDelay::Named(Millis(0))).0, Millis(0));
    }

    #[test]
    fn the_longest_prefix_counts_byte_for_byte() {
        let mut story = Story::begin();
        let prefixes = ["", "a", "a/b", "a/b/c", "a/bz", "a0", "é", "éa", "b", "z"];
        for (at, below) in (1..).zip(prefixes) {
            set(&mut story, below, Some(rule(at, at)));
        }
        let naive = |name: &str| {
            let fits = prefixes.iter().filter(|below| name.starts_with(**below));
            fits.max_by_key(|below| below.len()).map(|below| prefix(below))
        };
        for name in
            ["a", "a/", "a/b", "a/b/", "a/b/c", "a/b/d", "a/ba", "a/bzz", "a1", "0", "é", "ée", "éa/", "zz"]
        {
            let found = story.table.delay_rule_of(&lock(name)).map(|(below, _)| below.clone());
            assert_eq!(found, naive(name), "{name}");
        }
        set(&mut story, "", None);
        assert_eq!(story.table.delay_rule_of(&lock("0")), None);
        assert_eq!(story.table.delay_rule_of(&lock("è")), None, "shares a byte with é, no character");
    }

    #[test]
    fn a_holder_that_names_no_guards_takes_those_of_the_rule() {
        let mut story = Story::begin();
        let a = story.open("a");
        let fenced_by = vec![guard("db"), guard("store")];
        set(&mut story, "db/", Some(DelayRule { fenced_by: fenced_by.clone(), ..rule(0, 60_000) }));
        let default = LockDelay::Default(Millis(1));
        assert_eq!(granted(&mut story, a, 1, "db/1", default).1, fenced_by);
        story.acquire(ask(a, 2, "db/2").part(|part| part.fenced_by = vec![guard("own")]));
        let lock = story.table.lock(&lock("db/2")).unwrap();
        let SlotState::Held(tenure) = &lock.slots[&crate::ids::Slot(0)] else { panic!("held") };
        assert_eq!(tenure.holders.values().next().unwrap().fenced_by, [guard("own")]);
        // The rule is no part of what was asked.
        assert!(matches!(story.acquire(ask(a, 1, "db/1").delay(default)), Reply::Granted(_)));
    }

    #[test]
    fn a_later_rule_changes_nothing_that_arrived_before_it() {
        let mut story = Story::begin();
        let (a, b) = (story.open("a"), story.open("b"));
        let default = LockDelay::Default(Millis(15_000));
        let request = ask(a, 1, "l").delay(default);
        story.acquire(request.clone());
        story.acquire(ask(b, 1, "l").delay(default));
        set(&mut story, "l", Some(rule(1, 2)));
        assert!(matches!(story.acquire(request), Reply::Granted(_)));
        story.cancel(a, 1);
        let Some((session, ..)) = story.holder("l") else { panic!("b holds") };
        let tenure = story.table.lock(&lock("l")).unwrap().slots[&crate::ids::Slot(0)].tenure().unwrap();
        assert_eq!((session, tenure.holders.values().next().unwrap().delay), (b, Millis(15_000)));
    }

    #[test]
    fn a_rule_is_bounded_and_so_is_their_number() {
        let mut story = Story::begin();
        story.change_more_limits(|more| more.delay_rules_max = 1);
        let bad = Refusal::BadArgument(BadArgument::DelayRule);
        for nonsense in [rule(2, 1), rule(0, LOCK_DELAY_MAX.0 + 1)] {
            assert_eq!(refusal(set(&mut story, "", Some(nonsense))), bad);
        }
        let many = DelayRule { fenced_by: vec![guard("g"); GUARDS_MAX + 1], ..rule(0, 1) };
        assert_eq!(refusal(set(&mut story, "", Some(many))), Refusal::BadArgument(BadArgument::Guards));
        assert_eq!(set(&mut story, "a", None), Reply::Done);
        set(&mut story, "a", Some(rule(0, 0)));
        let full = Refusal::LimitReached { limit: LimitName::DelayRules, max: 1 };
        assert_eq!(refusal(set(&mut story, "b", Some(rule(0, 0)))), full);
        assert_eq!(set(&mut story, "a", Some(rule(0, 60_000))), Reply::Done);
        set(&mut story, "a", None);
        assert_eq!(set(&mut story, "b", Some(rule(0, 0))), Reply::Done);
    }
}
