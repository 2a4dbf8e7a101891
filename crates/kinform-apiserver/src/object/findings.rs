//! Unknown and duplicate members of a body, told in the body's order.
//!
//! ```text
//! bytes + paths of unknown members + paths of duplicate members -> messages
//! ```
//!
//! A decoder that reads one member after the other finds both in passing. This server looks for
//! them one after the other, so a body that has some is walked again. An unknown member is not
//! entered: its own members are nobody's duplicates.
//!
//! Complexity: linear in the body, as far as it leads to a path.
//!
//! Upstream: `sigs.k8s.io/json`, `UnmarshalStrict`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::strict::{PATH, beginning};

/// Returns the messages about unknown and duplicate members, in the order of the body.
pub(crate) fn in_order(bytes: &[u8], unknown: Vec<String>, doubled: Vec<String>) -> Vec<String> {
    let mut wanted: Vec<String> = unknown.iter().chain(&doubled).cloned().collect();
    wanted.sort_unstable();
    let search = Search {
        wanted,
        unknown: unknown.into_iter().collect(),
        doubled: doubled.into_iter().collect(),
        found: RefCell::default(),
    };
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let root = Walk {
        path: "",
        search: &search,
    };
    // The body was parsed before.
    let walked = root.deserialize(&mut parser);
    debug_assert!(walked.is_ok(), "{walked:?}");
    search.found.into_inner().messages
}

struct Search {
    /// All paths, sorted.
    wanted: Vec<String>,
    unknown: HashSet<String>,
    doubled: HashSet<String>,
    found: RefCell<Found>,
}

#[derive(Default)]
struct Found {
    messages: Vec<String>,
    told: HashSet<String>,
}

impl Search {
    /// Returns whether a path leads to another one.
    fn leads_on(&self, path: &str) -> bool {
        let after = self.wanted.partition_point(|wanted| &**wanted <= path);
        let next = self.wanted.get(after);
        next.is_some_and(|wanted| wanted.starts_with(path))
    }

    fn tell(&self, word: &str, path: &str) {
        let mut found = self.found.borrow_mut();
        if found.told.insert(path.to_owned()) {
            found.messages.push(format!("{word} field {path:?}"));
        }
    }
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    path: &'a str,
    search: &'a Search,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() || self.search.leads_on(self.path) {
            deserializer.deserialize_any(self)
        } else {
            deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ())
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for at in 0.. {
            let path = format!("{}[{at}]", self.path);
            let walk = Walk {
                path: &path,
                ..self
            };
            if items.next_element_seed(walk)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(name) = entries.next_key::<String>()? {
            let whole = match self.path {
                "" => name.clone(),
                above => format!("{above}.{name}"),
            };
            let path = beginning(&whole, PATH);
            if self.search.unknown.contains(path) {
                self.search.tell("unknown", path);
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            if !seen.insert(name) && self.search.doubled.contains(path) {
                self.search.tell("duplicate", path);
            }
            entries.next_value_seed(Walk { path, ..self })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, (unknown, doubled): (&[&str], &[&str]), expected: &[&str]) {
        let owned = |paths: &[&str]| paths.iter().map(ToString::to_string).collect();
        let found = in_order(body.as_bytes(), owned(unknown), owned(doubled));
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn members_are_told_in_the_order_of_the_body() {
        check(
            r#"{"metadata": {"name": "x"}, "data": {"a": "1", "a": "2"}, "zzz": 1, "bogus": {"b": 1}}"#,
            (&["bogus", "zzz"], &["data.a"]),
            &[
                "duplicate field \"data.a\"",
                "unknown field \"zzz\"",
                "unknown field \"bogus\"",
            ],
        );
        check(
            r#"{"bogus": 1, "bogus": {"c": 1, "c": 2}, "metadata": {"name": "x", "name": "y", "q": 1}}"#,
            (
                &["bogus", "metadata.q"],
                &["bogus", "bogus.c", "metadata.name"],
            ),
            &[
                "unknown field \"bogus\"",
                "duplicate field \"metadata.name\"",
                "unknown field \"metadata.q\"",
            ],
        );
        check(
            r#"{"l": [1, null, true, 1.5, -1, "s", {"x": 1}, {"x": 2, "y": [[{"z": 1, "z": 2}]]}]}"#,
            (&["l[7].x"], &["l[7].y[0][0].z"]),
            &[
                "unknown field \"l[7].x\"",
                "duplicate field \"l[7].y[0][0].z\"",
            ],
        );
        check("{}", (&[], &[]), &[]);
    }
}
