//! Comparison of recorded bodies with ours: JSON and protobuf by their values.
//!
//! ```text
//! recorded body + our body -> [difference]          generated value -> learned
//! ```
//!
//! Values that each server generates (uids, times, addresses) are learned at their first occurrence
//! and recognized where they are repeated.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::protobuf;
use super::recorded::{Exchange, OFFSET, Reply, read_token};

/// Mode of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// Loaded objects: no difference is allowed, and versions are the recorded ones plus the
    /// offset.
    Loaded,
    /// Objects that were written here, each after the same other writes: versions as above, but
    /// generated values (uids and times) may differ.
    WrittenInOrder,
    /// Objects that were written here: versions may differ, too.
    Written,
}

/// Compares recorded bodies with ours.
pub(crate) struct Comparison {
    objects: Objects,
    /// Recorded uids and versions, and ours in their places.
    pub(crate) learned: HashMap<String, String>,
    /// The learned values that other texts repeat: uids, addresses and ports.
    repeated: Vec<(String, String)>,
    found: Vec<String>,
}

impl Comparison {
    pub(crate) fn new(objects: Objects) -> Self {
        Self {
            objects,
            learned: HashMap::new(),
            repeated: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Compares bodies; JSON and protobuf by their values, anything else as text.
    pub(crate) fn bodies(
        &mut self,
        recorded: impl AsRef<[u8]>,
        ours: impl AsRef<[u8]>,
    ) -> Vec<String> {
        let (recorded, ours) = (recorded.as_ref(), ours.as_ref());
        let read = |bytes: &[u8]| match serde_json::from_slice(bytes) {
            Ok(value) => Some(value),
            Err(_) => protobuf::body(bytes),
        };
        match (read(recorded), read(ours)) {
            (Some(recorded), Some(ours)) => self.values(&recorded, &ours, ""),
            _ if recorded == ours => {}
            _ => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (recorded, ours) = (text(recorded), text(ours));
                self.found.push(format!("text: {recorded:?} / {ours:?}"));
            }
        }
        std::mem::take(&mut self.found)
    }

    /// Compares a whole answer: code, media type and body.
    pub(crate) fn reply(&mut self, exchange: &Exchange, reply: &Reply) -> Vec<String> {
        let mut found = self.bodies(&exchange.bytes, &reply.bytes);
        found.extend(self.head(exchange, reply));
        found
    }

    /// Compares status and headers.
    pub(crate) fn head(&self, exchange: &Exchange, reply: &Reply) -> Vec<String> {
        let mut found = Vec::from_iter(super::status(exchange.status, reply.code));
        let media = reply.all("content-type").join(", ");
        if !exchange.media.is_empty() && media != exchange.media {
            found.push(format!("media type: {} / {media}", exchange.media));
        }
        found
    }

    fn values(&mut self, recorded: &Value, ours: &Value, path: &str) {
        match (recorded, ours) {
            (Value::Object(recorded), Value::Object(ours)) => self.objects(recorded, ours, path),
            (Value::Array(recorded), Value::Array(ours)) => {
                // Their order depends on the second of each write.
                let (recorded, ours) = match path.ends_with(".managedFields") {
                    true => (by_manager(recorded), by_manager(ours)),
                    false => (recorded.clone(), ours.clone()),
                };
                if recorded.len() != ours.len() {
                    let (a, b) = (recorded.len(), ours.len());
                    self.found.push(format!("{path}: {a} items / {b}"));
                }
                for (at, (recorded, ours)) in recorded.iter().zip(&ours).enumerate() {
                    self.values(recorded, ours, &format!("{path}[{at}]"));
                }
            }
            (Value::String(recorded), Value::String(ours)) => self.texts(recorded, ours, path),
            (Value::Number(recorded), Value::Number(ours))
                if path.ends_with(".nodePort") && self.objects != Objects::Loaded =>
            {
                self.learn(&recorded.to_string(), &ours.to_string());
            }
            _ if recorded == ours => {}
            _ => self.found.push(format!("{path}: {recorded} / {ours}")),
        }
    }

    fn objects(&mut self, recorded: &Map<String, Value>, ours: &Map<String, Value>, path: &str) {
        // Neighbouring labels may repeat the value.
        if let (Some(Value::String(recorded)), Some(Value::String(ours))) =
            (recorded.get("uid"), ours.get("uid"))
        {
            self.texts(recorded, ours, &format!("{path}.uid"));
        }
        for (name, value) in recorded {
            match ours.get(name) {
                Some(ours) => self.values(value, ours, &format!("{path}.{name}")),
                None => self
                    .found
                    .push(format!("{path}.{name}: only recorded: {value}")),
            }
        }
        for (name, value) in ours {
            if !recorded.contains_key(name) {
                self.found
                    .push(format!("{path}.{name}: only ours: {value}"));
            }
        }
    }

    /// Learns our value for a recorded one. Many objects share a time: a request that repeats it
    /// means the first.
    fn learn(&mut self, recorded: &str, ours: &str) {
        if !self.learned.contains_key(recorded) {
            self.learned.insert(recorded.to_owned(), ours.to_owned());
            if !is_time(recorded) && recorded.len() > 3 {
                self.repeated.push((recorded.to_owned(), ours.to_owned()));
            }
        }
    }

    /// A recorded text with our server's values in it.
    pub(crate) fn in_ours(&self, text: &str) -> String {
        let put = |text: String, (recorded, ours): &(String, String)| text.replace(recorded, ours);
        self.repeated.iter().fold(text.to_owned(), put)
    }

    fn same_words(&self, recorded: &str, ours: &str) -> bool {
        let recorded = self.in_ours(recorded);
        let (mut recorded, mut ours) = (recorded.as_str(), ours);
        // Such a message ends with the version that its server has reached.
        if recorded.contains("resource version: ")
            && let (Some((head, last)), Some((our_head, our_last))) =
                (recorded.rsplit_once(' '), ours.rsplit_once(' '))
            && is_number(last)
            && is_number(our_last)
        {
            (recorded, ours) = (head, our_head);
        }
        let (recorded, ours) = (recorded.split(' '), ours.split(' '));
        let mut pairs = recorded.clone().zip(ours.clone());
        recorded.count() == ours.count() && pairs.all(|(recorded, ours)| same_word(recorded, ours))
    }

    fn texts(&mut self, recorded: &str, ours: &str, path: &str) {
        let name = path.rsplit('.').next().unwrap_or_default();
        let is_chosen = (name == "time" && path.contains(".managedFields["))
            || path.contains(".disruptedPods.")
            || (name == "clusterIP" || path.contains(".clusterIPs["))
                && [recorded, ours]
                    .iter()
                    .all(|address| address.starts_with("10."))
            || matches!(
                name,
                "uid"
                    | "creationTimestamp"
                    | "deletionTimestamp"
                    | "lastTransitionTime"
                    | "lastPhaseTransitionTime"
                    | "expirationTimestamp"
            );
        let same = match name {
            _ if is_chosen && self.objects != Objects::Loaded => {
                self.learn(recorded, ours);
                true
            }
            "resourceVersion" if path.ends_with("metadata.resourceVersion") => {
                self.learned.insert(recorded.to_owned(), ours.to_owned());
                let mapped = recorded
                    .parse::<u64>()
                    .map(|version| (version + OFFSET).to_string());
                self.objects == Objects::Written
                    || recorded == ours && ours.is_empty()
                    || mapped.as_deref() == Ok(ours)
            }
            "token" if recorded == "REDACTED" => !ours.is_empty(),
            "continue" => same_token(recorded, ours),
            "message" => self.same_words(recorded, ours),
            // Cells contain ages: the age of an object at the time its table is made.
            _ if path.contains(".cells[") && is_age(recorded) => is_age(ours),
            _ if path.contains(".cells[") && count_and_age(recorded).is_some() => {
                let counts = [recorded, ours].map(|cell| count_and_age(cell).unzip().0);
                counts[0] == counts[1]
            }
            _ if path.contains(".cells[") && self.objects != Objects::Loaded => {
                self.in_ours(recorded) == ours || is_time(recorded) && is_time(ours)
            }
            // A generated name, which also occurs in a later cell.
            "name" if recorded.starts_with("w-") && ours.starts_with("w-") => {
                self.learn(recorded, ours);
                true
            }
            "serverRelativeURL" => {
                let (address, _) = recorded.split_once("hash=").unwrap_or((recorded, ""));
                self.learn(recorded, ours);
                ours.starts_with(address)
            }
            _ => recorded == ours || self.in_ours(recorded) == ours,
        };
        if !same {
            self.found.push(format!("{path}: {recorded:?} / {ours:?}"));
        }
    }
}

/// `5s`, `2d3h`, and so on.
fn is_age(text: &str) -> bool {
    let parts: Vec<&str> = text
        .split_inclusive(|letter: char| !letter.is_ascii_digit())
        .collect();
    let is_part = |part: &&str| {
        part.len() > 1
            && part.ends_with(['s', 'm', 'h', 'd', 'y'])
            && part.starts_with(|c: char| c.is_ascii_digit())
    };
    !parts.is_empty() && parts.len() < 3 && parts.iter().all(is_part)
}

/// `5 (324d ago)`: a count, and the age of the last occurrence.
fn count_and_age(text: &str) -> Option<(&str, &str)> {
    let (count, age) = text.strip_suffix(" ago)")?.split_once(" (")?;
    is_age(age).then_some((count, age))
}

fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

fn by_manager(entries: &[Value]) -> Vec<Value> {
    let mut entries = entries.to_vec();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries.sort_by_key(|entry| {
        ["operation", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
    });
    entries
}

fn same_token(recorded: &str, ours: &str) -> bool {
    let (Some(mut recorded), Some(ours)) = (read_token(recorded), read_token(ours)) else {
        return recorded == ours;
    };
    recorded["rv"] = Value::from(recorded["rv"].as_u64().unwrap_or_default() + OFFSET);
    recorded == ours
}

fn is_number(word: &str) -> bool {
    let word = word.trim_matches(['(', ')']);
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether two words of messages are equal except for versions and uids, which differ
/// between servers.
fn same_word(recorded: &str, ours: &str) -> bool {
    let is_id = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        word.len() == 36 && word.matches('-').count() == 4
    };
    if recorded == ours || is_id(recorded) && is_id(ours) {
        return true;
    }
    let (recorded, ours) = (runs(recorded), runs(ours));
    let same = |(recorded, ours): (&&str, &&str)| {
        let number = |text: &str| text.parse::<u64>();
        recorded == ours
            || matches!((number(recorded), number(ours)), (Ok(a), Ok(b)) if a + OFFSET == b)
    };
    recorded.len() == ours.len() && recorded.iter().zip(&ours).all(same)
}

/// Splits a text into runs of digits and of other characters.
fn runs(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let begins = (0..text.len())
        .filter(|at| *at == 0 || bytes[*at - 1].is_ascii_digit() != bytes[*at].is_ascii_digit());
    let begins: Vec<usize> = begins.collect();
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    begins
        .iter()
        .zip(ends)
        .map(|(begin, end)| &text[*begin..end])
        .collect()
}
