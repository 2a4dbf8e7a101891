//! Weighs the fields of objects, and so finds those worth leaving out.
//!
//! ```text
//! objects → FieldWeights::add → bytes by path → largest → FieldWeight {path, bytes} ...
//! ```
//!
//! A field counts with its share of the encoded bytes, its name or tag included: a projection that
//! drops it saves that much. A heavy field is replaced by the fields in it, if a few of those make
//! up most of it: `spec.containers[*].env`, not `spec`. No two of the reported paths overlap.
//!
//! BOUND: names of a path, and paths over all; what lies deeper or comes later counts for what it is in.
//! Upstream: none. Complexity: a few scans of the bytes of each object.

use std::collections::BTreeMap;

use kinform_api::{FieldPath, PathSegment};
use kinform_schema::{Container, FieldType, Type};

use super::Object;
use crate::wire::json::cursor;
use crate::wire::protobuf::fields::Fields;
use crate::wire::protobuf::texts::utf8;
use crate::wire::protobuf::value::pair;

/// BOUND: names of a path; elements of lists are none.
const NAMES: u32 = 4;
/// BOUND: paths that are counted.
const PATHS: usize = 4096;
/// A field is looked into if it is at least 1/`HEAVY` of the whole.
const HEAVY: u64 = 20;
/// Up to `FEW` fields replace the field that they are in, if they make up half of it.
const FEW: usize = 10;

/// The bytes that the fields of some objects take.
#[derive(Debug, Default)]
pub struct FieldWeights {
    top: Branch,
    paths: usize,
}

/// One field over all objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWeight {
    /// The field's path.
    pub path: FieldPath,
    /// The bytes that it takes in all objects together.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Branch {
    bytes: u64,
    /// True if the fields inside are those of a list's elements.
    is_list: bool,
    inside: BTreeMap<Box<str>, Self>,
}

impl FieldWeights {
    /// Of no object yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more object.
    pub fn add(&mut self, object: &Object) {
        let mut walk = Walk {
            paths: &mut self.paths,
        };
        self.top.bytes += object.bytes().len() as u64;
        match object.message() {
            Some((of, bytes)) => walk.message(&mut self.top, of, bytes, NAMES),
            None => walk.json(&mut self.top, object.bytes(), 0, NAMES),
        }
    }

    /// The bytes of all objects together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.top.bytes
    }

    /// The heaviest fields, the heaviest first; at most `count`.
    #[must_use]
    pub fn largest(&self, count: usize) -> Vec<FieldWeight> {
        let mut found = Vec::new();
        gather(&self.top, &mut Vec::new(), self.total(), &mut found);
        found.sort_by(|a, b| (b.bytes, &a.path).cmp(&(a.bytes, &b.path)));
        found.truncate(count);
        found
    }
}

/// INVARIANT: recursion is as deep as a path has names.
fn gather(branch: &Branch, path: &mut Vec<PathSegment>, total: u64, found: &mut Vec<FieldWeight>) {
    for (name, field) in &branch.inside {
        let length = path.len();
        path.push(PathSegment::Field(name.to_string()));
        if field.is_weighed_by_its_fields(total) {
            if field.is_list {
                path.push(PathSegment::Each);
            }
            gather(field, path, total, found);
        } else if let Ok(path) = FieldPath::new(path.iter().cloned()) {
            let bytes = field.bytes;
            found.push(FieldWeight { path, bytes });
        }
        path.truncate(length);
    }
}

impl Branch {
    fn is_weighed_by_its_fields(&self, total: u64) -> bool {
        let mut inside: Vec<u64> = self.inside.values().map(|field| field.bytes).collect();
        inside.sort_unstable_by(|a, b| b.cmp(a));
        let few: u64 = inside.iter().take(FEW).sum();
        !inside.is_empty() && self.bytes * HEAVY >= total && few * 2 >= self.bytes
    }
}

/// One object, field by field.
struct Walk<'a> {
    paths: &'a mut usize,
}

impl Walk<'_> {
    /// Adds bytes to the field of this name and returns it; `None` if there are too many paths.
    fn weigh<'b>(
        &mut self,
        branch: &'b mut Branch,
        name: &str,
        bytes: usize,
    ) -> Option<&'b mut Branch> {
        if !branch.inside.contains_key(name) {
            if *self.paths >= PATHS {
                return None;
            }
            *self.paths += 1;
            branch.inside.insert(name.into(), Branch::default());
        }
        let field = branch.inside.get_mut(name)?;
        field.bytes += bytes as u64;
        Some(field)
    }

    /// INVARIANT: recursion is as deep as a path has names.
    fn json(&mut self, branch: &mut Branch, bytes: &[u8], at: usize, names: u32) {
        for member in cursor::members(bytes, at) {
            // Quotes, colon and a comma go with it.
            let weight = member.key.len() + member.value.len() + 4;
            let name = cursor::unescape(&bytes[member.key]);
            let Some(field) = self.weigh(branch, &name, weight) else {
                continue;
            };
            if names == 1 {
                continue;
            }
            let start = member.value.start;
            match bytes.get(start) {
                Some(b'{') => self.json(field, bytes, start, names - 1),
                Some(b'[') => {
                    for element in cursor::elements(bytes, start) {
                        if bytes.get(element.start) == Some(&b'{') {
                            field.is_list = true;
                            self.json(field, bytes, element.start, names - 1);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// INVARIANT: recursion is as deep as a path has names, and inline messages are in each other.
    fn message(&mut self, branch: &mut Branch, of: &'static Type, bytes: &[u8], names: u32) {
        for field in Fields::of(bytes) {
            let Some(spec) = of.field_by_number(field.number) else {
                continue;
            };
            let value = field.value.bytes().unwrap_or_default();
            if spec.is_inline() {
                if let Some(of) = spec.message() {
                    self.message(branch, of, value, names);
                }
                continue;
            }
            let weight = field.end - field.start;
            let Some(inside) = self.weigh(branch, spec.name(), weight) else {
                continue;
            };
            if names == 1 {
                continue;
            }
            match (spec.container(), spec.field_type()) {
                (Container::Map, _) => {
                    self.weigh(inside, utf8(pair(value).0), weight);
                }
                (container, FieldType::Message(of)) => {
                    inside.is_list |= container == Container::List;
                    self.message(inside, of, value, names - 1);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::projection::Projection;
    use crate::wire::protobuf::fields::put_bytes;

    fn weigh(objects: &[Object]) -> FieldWeights {
        let mut weights = FieldWeights::new();
        objects.iter().for_each(|object| weights.add(object));
        weights
    }

    fn pod(env: usize) -> Object {
        let env = "x".repeat(env);
        let json = format!(
            r#"{{"metadata":{{"name":"a","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","env":[{{"name":"E","value":"{env}"}}]}},{{"name":"d","image":"i"}}],"nodeName":"n"}}}}"#
        );
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    }

    #[test]
    fn a_heavy_field_is_reported_by_its_heavy_parts() {
        let weights = weigh(&[pod(500), pod(700)]);
        let largest = weights.largest(2);
        assert_eq!(
            largest[0].path.to_string(),
            "spec.containers[*].env[*].value"
        );
        assert!(largest[0].bytes > 1200 && largest[0].bytes < weights.total());
        assert_eq!(largest.len(), 2);
        assert_eq!(FieldWeights::new().largest(3), []);
    }

    #[test]
    fn what_a_field_weighs_is_what_leaving_it_out_saves() {
        let objects = [pod(40), pod(300)];
        let weights = weigh(&objects);
        for FieldWeight { path, bytes } in weights.largest(10) {
            let projection = Projection::new().drop_path(path.clone());
            let left = objects.iter().map(|object| {
                let less = object.narrowed(&projection).unwrap();
                assert_eq!(less.key(), object.key());
                less.bytes().len() as u64
            });
            let saved = weights.total() - left.sum::<u64>();
            // A comma for each place, where nothing else stands there.
            assert!(saved.abs_diff(bytes) <= 8, "{path}: {saved} and {bytes}");
        }
    }

    #[test]
    fn a_message_weighs_by_the_names_of_its_json() {
        let field = |number, bytes: &[u8]| {
            let mut out = Vec::new();
            put_bytes(&mut out, number, bytes);
            out
        };
        let container = field(2, &[field(1, b"c"), field(2, &[b'i'; 100])].concat());
        let entry = field(11, &[field(1, b"app"), field(2, &[b'w'; 90])].concat());
        let metadata = field(1, &[field(1, b"a"), entry].concat());
        let bytes = [metadata, field(2, &container)].concat();
        let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
        let object = Object::from_protobuf(of, &bytes, &Projection::new()).unwrap();
        let largest = weigh(&[object]).largest(2);
        let found: Vec<_> = largest
            .iter()
            .map(|w| (w.path.to_string(), w.bytes))
            .collect();
        let expected = [
            ("spec.containers[*].image", 102),
            ("metadata.labels.app", 99),
        ];
        assert_eq!(
            found,
            expected.map(|(path, bytes)| (path.to_owned(), bytes))
        );
    }

    #[test]
    fn names_without_end_cost_no_memory_without_end() {
        let mut weights = FieldWeights::new();
        for round in 0..3 * PATHS {
            let json =
                format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k{round}":"{round:060}"}}}}"#);
            let object = Object::from_json(json.as_bytes(), &Projection::new()).unwrap();
            weights.add(&object);
        }
        assert_eq!(weights.paths, PATHS);
        assert_eq!(weights.largest(1)[0].path.to_string(), "data");
    }
}
