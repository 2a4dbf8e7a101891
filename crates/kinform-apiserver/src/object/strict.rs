//! Parses JSON and reports duplicate members.
//!
//! ```text
//! bytes -> value (the last of two members counts) + paths of the duplicate members
//! ```
//!
//! BOUND: 100 duplicate members are reported; values are as deep as the parser allows (128).
//!
//! Upstream: `sigs.k8s.io/json`, `UnmarshalStrict`.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// BOUND: the number of unknown or duplicate members that are reported, as in upstream's decoder.
pub(crate) const MOST: usize = 100;
/// BOUND: the size of a reported path in bytes.
pub(crate) const PATH: usize = 1024;

/// Adds the paths of members to the reported ones, within the bounds.
pub(crate) fn tell(told: &mut Vec<String>, paths: impl IntoIterator<Item = String>) {
    let room = MOST.saturating_sub(told.len());
    let paths = paths.into_iter().take(room);
    told.extend(paths.map(|path| beginning(&path, PATH).to_owned()));
}

/// Returns the beginning of a text, cut at a letter's boundary to at most `most` bytes.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Parses JSON. Returns the value and the paths of duplicate members.
///
/// # Errors
/// The parser's errors.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let doubled = RefCell::new(Doubled::default());
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let spot = Spot {
        above: None,
        step: Step::Root,
    };
    let reader = Reader {
        spot: &spot,
        doubled: &doubled,
    };
    let value = reader.deserialize(&mut parser)?;
    parser.end()?;
    Ok((value, doubled.into_inner().told))
}

/// The duplicate members.
#[derive(Default)]
struct Doubled {
    told: Vec<String>,
    /// The number of duplicates found, with equal paths counted each time: formatting a path is
    /// costly.
    seen: usize,
}

impl Doubled {
    fn add(&mut self, spot: &Spot<'_>) {
        self.seen += 1;
        if self.seen > MOST {
            return;
        }
        let path = beginning(&spot.to_string(), PATH).to_owned();
        if !self.told.contains(&path) {
            self.told.push(path);
        }
    }
}

/// The position of the parser.
struct Spot<'a> {
    above: Option<&'a Self>,
    step: Step<'a>,
}

enum Step<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl fmt::Display for Spot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
            if let (Step::Member(_), Step::Member(_) | Step::Item(_)) = (&self.step, &above.step) {
                f.write_str(".")?;
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Member(name) => f.write_str(name),
            Step::Item(at) => write!(f, "[{at}]"),
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    spot: &'a Spot<'a>,
    doubled: &'a RefCell<Doubled>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let spot = Spot {
                above: Some(self.spot),
                step: Step::Item(list.len()),
            };
            let reader = Reader {
                spot: &spot,
                ..self
            };
            match items.next_element_seed(reader)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let spot = Spot {
                above: Some(self.spot),
                step: Step::Member(&name),
            };
            let reader = Reader {
                spot: &spot,
                ..self
            };
            let value = entries.next_value_seed(reader)?;
            if object.contains_key(&name) {
                self.doubled.borrow_mut().add(&spot);
            }
            match object.get_mut(&name) {
                Some(before) => lay_over(before, value),
                None => _ = object.insert(name, value),
            }
        }
        Ok(Value::Object(object))
    }
}

/// Puts the second of two values in place of the first. The members of two objects are merged, as
/// Go decodes into an existing value.
fn lay_over(before: &mut Value, value: Value) {
    match (before, value) {
        (Value::Object(before), Value::Object(members)) => {
            for (name, value) in members {
                match before.get_mut(&name) {
                    Some(before) => lay_over(before, value),
                    None => _ = before.insert(name, value),
                }
            }
        }
        (before, value) => *before = value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_given_twice_are_told_and_the_last_counts() {
        let text = br#"{"a": 1, "b": [{"c": 1, "c": {"d": 2, "d": 3, "d": 4}}], "a": -2.5e0}"#;
        let (value, doubled) = parse(text).unwrap();
        let expected: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(value, expected);
        assert_eq!(doubled, ["b[0].c.d", "b[0].c", "a"]);
        let (value, _) = parse(br#"{"a": {"b": 1, "c": [1]}, "a": {"c": [2], "d": 3}}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a": {"b": 1, "c": [2], "d": 3}}));
    }

    #[test]
    fn what_is_no_json_is_refused_as_the_parser_does() {
        for text in ["", "{", "[1,]", "{} x", "{\"a\":1e999}", &"[".repeat(200)] {
            let plain = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), plain);
        }
        let many: String = (0..300)
            .map(|at| format!("\"k{at}\":1,\"k{at}\":2,"))
            .collect();
        let (_, doubled) = parse(format!("{{{many}\"z\":1}}").as_bytes()).unwrap();
        assert_eq!(doubled.len(), MOST);
        // The same long path each time: it is formatted only a few times, and cut.
        let twice = "\"k\":1,".repeat(300);
        let (_, doubled) =
            parse(format!("{{\"{}\":{{{twice}\"z\":1}}}}", "\u{fc}".repeat(1000)).as_bytes())
                .unwrap();
        let told: Vec<usize> = doubled.iter().map(String::len).collect();
        assert_eq!(told, [PATH]);
    }
}
