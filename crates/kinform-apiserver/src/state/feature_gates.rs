//! The features of the API server that are off unless they are asked for.
//!
//! ```text
//! `NAME=true,NAME=false` ──▶ FeatureGates ──has──▶ reads
//! ```
//!
//! Only features that this server has are known; a real server knows many more.
//!
//! Upstream: `apiserver:pkg/features/kube_features.go`, `component-base:featuregate`,
//! `--feature-gates`.

use std::str::FromStr;

/// A feature of the API server, by its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureGate {
    /// `shardSelector` of lists, watches and deletes of collections (KEP-5866); alpha in 1.36 and
    /// 1.37. While it is off, the parameter is ignored.
    ShardedListAndWatch,
}

/// All features, with their names on a real server.
const ALL: [(FeatureGate, &str); 1] = [(FeatureGate::ShardedListAndWatch, "ShardedListAndWatch")];

/// The features that are on; by default none of them is.
///
/// Parsed from pairs between commas, as `ShardedListAndWatch=true`. The last pair of a name counts.
///
/// Upstream: `--feature-gates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// A bit for each feature that is on.
    on: u8,
}

const fn bit(gate: FeatureGate) -> u8 {
    1 << gate as u8
}

impl FeatureGates {
    /// Turns a feature on.
    #[must_use]
    pub const fn with(self, gate: FeatureGate) -> Self {
        Self {
            on: self.on | bit(gate),
        }
    }

    /// Turns a feature off.
    #[must_use]
    pub const fn without(self, gate: FeatureGate) -> Self {
        Self {
            on: self.on & !bit(gate),
        }
    }

    pub(crate) const fn has(self, gate: FeatureGate) -> bool {
        self.on & bit(gate) != 0
    }
}

impl From<FeatureGate> for FeatureGates {
    fn from(gate: FeatureGate) -> Self {
        Self::default().with(gate)
    }
}

/// The error of a text that is no list of feature gates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; known feature gates, each with =true or =false: {}", names().join(", "))]
pub struct InvalidFeatureGates {
    what: String,
}

/// The names of all features.
fn names() -> [&'static str; ALL.len()] {
    ALL.map(|(_, name)| name)
}

impl FromStr for FeatureGates {
    type Err = InvalidFeatureGates;

    fn from_str(words: &str) -> Result<Self, InvalidFeatureGates> {
        let mut gates = Self::default();
        // As upstream, blanks around names and values do not count, nor do empty pairs.
        for pair in words.split(',').filter(|pair| !pair.is_empty()) {
            let invalid = |what: String| InvalidFeatureGates { what };
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid(format!("{:?} has no value", pair.trim())))?;
            let (name, value) = (name.trim(), value.trim());
            let known = ALL.iter().find(|(_, known)| *known == name);
            let (gate, _) =
                known.ok_or_else(|| invalid(format!("there is no feature gate {name:?}")))?;
            gates = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => gates.with(*gate),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => gates.without(*gate),
                _ => {
                    return Err(invalid(format!(
                        "{name} is neither true nor false: {value:?}"
                    )));
                }
            };
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_turned_on_and_off_by_name() {
        let on = FeatureGates::from(FeatureGate::ShardedListAndWatch);
        let off = FeatureGates::default();
        for (words, expected) in [
            ("", off),
            ("ShardedListAndWatch=true", on),
            ("ShardedListAndWatch=false", off),
            (" ShardedListAndWatch = T ,", on),
            ("ShardedListAndWatch=1,ShardedListAndWatch=0", off),
        ] {
            assert_eq!(words.parse(), Ok(expected), "{words}");
        }
        assert!(on.has(FeatureGate::ShardedListAndWatch));
        assert_eq!(on.without(FeatureGate::ShardedListAndWatch), off);
    }

    #[test]
    fn an_unknown_gate_or_value_is_refused_with_the_known_ones() {
        let known = "; known feature gates, each with =true or =false: ShardedListAndWatch";
        for (words, what) in [
            ("WatchList=true", "there is no feature gate \"WatchList\""),
            (
                "ShardedListAndWatch=on",
                "ShardedListAndWatch is neither true nor false: \"on\"",
            ),
            (
                "ShardedListAndWatch",
                "\"ShardedListAndWatch\" has no value",
            ),
        ] {
            let error = words.parse::<FeatureGates>().unwrap_err().to_string();
            assert_eq!(error, format!("{what}{known}"));
        }
    }
}
