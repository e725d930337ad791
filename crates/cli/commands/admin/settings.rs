//! What is replicated and can be set: limits, the history's sizes, the cluster version, rules of lock-delays.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use palisade_core::ids::LockPrefix;
use palisade_proto::v1;
use serde_json::{Map, Value, json};

use super::super::{Failure, client};
use crate::args::{Globals, duration};
use crate::exit::Exit;
use crate::output::{Output, span, table, wide};

/// `palisade admin settings`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  palisade admin settings
  palisade admin settings waiters_per_lock_max=20000 lock_delay_default_ms=5000

These are the limits that the cluster enforces, the same on all nodes; those of a node's own door are flags of `palisade
serve`. Shrinking one takes nothing from anybody: it refuses what is new. cluster_version is set by itself, once every node
runs a build that knows it, and never goes back.

Exit codes: 0 shown or set, 2 no such setting, or out of bounds, 3 no answer in time.")]
pub(crate) struct SettingsArgs {
    /// NAME=VALUE, for each that is to be set
    #[arg(value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// `palisade admin delay-rule`
#[derive(Debug, Args)]
#[command(
    after_help = "Of several rules the one with the longest prefix counts for a name. A delay that a holder names outside the bounds is
refused, not adjusted; one that names none gets the cluster's default, moved into the bounds. What is held already keeps the
delay that it has.

Exit codes: 0 set, 2 it makes no sense, 3 no answer in time."
)]
pub(crate) struct DelayRuleArgs {
    /// How the names begin; empty: all locks
    prefix: String,
    /// The least (0s to 60s)
    #[arg(long, value_parser = duration, default_value = "0s")]
    least: Duration,
    /// The largest (0s to 60s)
    #[arg(long, value_parser = duration, default_value = "60s")]
    most: Duration,
    /// Guards that cover everything below the prefix, for holders that name none
    #[arg(long, value_name = "GUARD", value_delimiter = ',')]
    fenced_by: Vec<String>,
    /// Take the rule away
    #[arg(long, conflicts_with_all = ["least", "most", "fenced_by"])]
    remove: bool,
}

/// A setting: how it is read, and how it is set.
struct Setting {
    name: &'static str,
    get: fn(&v1::SetSettings) -> Option<u64>,
    set: fn(&mut v1::SetSettings, u64) -> anyhow::Result<()>,
}

macro_rules! setting {
    ($name:ident) => {
        Setting {
            name: stringify!($name),
            get: |settings| settings.$name.map(u64::from),
            set: |settings, value| {
                settings.$name = Some(value.try_into().context(concat!(stringify!($name), " is too large"))?);
                Ok(())
            },
        }
    };
}

const SETTINGS: [Setting; 15] = [
    setting!(sessions_max),
    setting!(locks_max),
    setting!(acquisitions_per_session_max),
    setting!(waiters_per_lock_max),
    setting!(outcomes_per_session_max),
    setting!(ended_sessions_max),
    setting!(slot_memories_max),
    setting!(keys_max),
    setting!(lock_delay_default_ms),
    setting!(baton_bytes_max),
    setting!(delay_rules_max),
    setting!(cycle_search_max),
    setting!(history_expired_max),
    setting!(history_others_max),
    setting!(cluster_version),
];

fn asked(arguments: &[String]) -> anyhow::Result<v1::SetSettings> {
    let mut asked = v1::SetSettings::default();
    for argument in arguments {
        let (name, value) =
            argument.split_once('=').with_context(|| format!("{argument:?} is not NAME=VALUE"))?;
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        let setting = setting.with_context(|| {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            format!("there is no setting {name:?}; there are {}", names.join(", "))
        })?;
        let value = value.parse().with_context(|| format!("{name}: {value:?} is not a whole number"))?;
        (setting.set)(&mut asked, value)?;
    }
    Ok(asked)
}

pub(super) async fn settings(globals: &Globals, arguments: &SettingsArgs) -> Result<Exit, Failure> {
    let asked = asked(&arguments.set).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let client = client(globals)?;
    if !arguments.set.is_empty() {
        client.set_settings(asked).await?;
    }
    let settings = client.settings().await?;
    Output::new(globals).answer("palisade.admin.settings/1", |_| lines(&settings), || document(&settings))?;
    Ok(Exit::OK)
}

fn lines(settings: &v1::Settings) -> String {
    let present = settings.present.unwrap_or_default();
    let value =
        |setting: &Setting| (setting.get)(&present).map_or_else(|| "–".to_owned(), |value| value.to_string());
    let mut text = table(
        &["SETTING", "VALUE"],
        SETTINGS.iter().map(|setting| [setting.name.to_owned(), value(setting)]),
    );
    text.push_str(&format!("\nnewest cluster version that this node knows: {}", settings.newest_version));
    for of in &settings.delay_rules {
        let rule = of.rule.clone().unwrap_or_default();
        let time = |ms: u64| span(Duration::from_millis(ms));
        text.push_str(&format!(
            "\nlock-delays below {:?}: {} to {}",
            of.prefix,
            time(rule.least_ms),
            time(rule.most_ms)
        ));
        if !rule.fenced_by.is_empty() {
            text.push_str(&format!(", fenced by {}", rule.fenced_by.join(", ")));
        }
    }
    text
}

fn document(settings: &v1::Settings) -> Value {
    let present = settings.present.unwrap_or_default();
    let values: Map<String, Value> = SETTINGS
        .iter()
        .map(|setting| (setting.name.to_owned(), (setting.get)(&present).map_or(Value::Null, wide)))
        .collect();
    let rules = settings.delay_rules.iter().map(|of| {
        let rule = of.rule.clone().unwrap_or_default();
        json!({
            "prefix": of.prefix,
            "least_ms": wide(rule.least_ms),
            "most_ms": wide(rule.most_ms),
            "fenced_by": rule.fenced_by,
        })
    });
    json!({
        "settings": values,
        "delay_rules": rules.collect::<Vec<_>>(),
        "newest_version": settings.newest_version,
    })
}

pub(super) async fn delay_rule(globals: &Globals, arguments: &DelayRuleArgs) -> Result<Exit, Failure> {
    let prefix = LockPrefix::new(&arguments.prefix).map_err(|error| Failure::new(Exit::USAGE, error))?;
    if arguments.least > arguments.most {
        return Err(Failure::new(Exit::USAGE, anyhow!("the least delay is above the largest")));
    }
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let rule = (!arguments.remove).then(|| v1::DelayRule {
        least_ms: millis(arguments.least),
        most_ms: millis(arguments.most),
        fenced_by: arguments.fenced_by.clone(),
    });
    client(globals)?.set_delay_rule(&prefix, rule).await?;
    Output::new(globals).answer(
        "palisade.admin.delay-rule/1",
        |_| match arguments.remove {
            true => format!("lock-delays below {:?} have no rule of their own", arguments.prefix),
            false => format!(
                "lock-delays below {:?} are {} to {}",
                arguments.prefix,
                span(arguments.least),
                span(arguments.most)
            ),
        },
        || json!({ "prefix": arguments.prefix, "removed": arguments.remove }),
    )?;
    Ok(Exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_set_and_the_rest_is_left() {
        let set = asked(&["sessions_max=5".to_owned(), "cluster_version=2".to_owned()]).unwrap();
        assert_eq!((set.sessions_max, set.cluster_version, set.locks_max), (Some(5), Some(2), None));
        for wrong in ["sessions_max", "sessions=5", "sessions_max=-1", "keys_max=99999999999"] {
            assert!(asked(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_setting_of_the_protocol_is_here() {
        let fields = format!("{:?}", v1::SetSettings::default());
        assert_eq!(fields.matches(": None").count(), SETTINGS.len(), "{fields}");
        assert!(SETTINGS.iter().all(|setting| fields.contains(&format!("{}: ", setting.name))));
    }
}
