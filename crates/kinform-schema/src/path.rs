//! Looks up whether a path exists in a built-in kind.
//!
//! ```text
//! kind + segments -> Known | Unknown { depth } | NotBuiltin
//! ```
//!
//! So an index on a misspelt path of a built-in kind is refused when it is made, not found empty
//! later. Inline structs are flattened, a map takes any key, and below a field that holds any JSON
//! every path is known. The look-up does not check whether a path leads to a scalar.

use crate::lookup::builtin;
use crate::types::{Container, Field, FieldType, Type};

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSegment<'a> {
    /// A field of a struct, or a key of a map.
    Field(&'a str),
    /// One or every item of a list.
    Item,
}

/// The result of looking up a path in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAnswer {
    /// The kind has this path.
    Known,
    /// The kind is built in and has no such path.
    Unknown {
        /// The position of the first unknown segment.
        depth: usize,
    },
    /// No built-in kind: the table cannot tell.
    NotBuiltin,
}

/// Looks up a path of a kind; group `""` is the core group.
pub fn knows_path(group: &str, version: &str, kind: &str, path: &[PathSegment<'_>]) -> PathAnswer {
    match builtin(group, version, kind) {
        None => PathAnswer::NotBuiltin,
        Some(message) => walk(message, path),
    }
}

/// The position of a walk.
enum Place {
    Struct(&'static Type),
    Many(&'static Field),
    Anything,
    Scalar,
}

fn walk(root: &'static Type, path: &[PathSegment<'_>]) -> PathAnswer {
    let mut place = Place::Struct(root);
    for (depth, segment) in path.iter().enumerate() {
        place = match (place, *segment) {
            (Place::Anything, _) => Place::Anything,
            (Place::Struct(message), PathSegment::Field(name)) => match message.field(name) {
                Some(field) if field.container() == Container::Single => value(field),
                Some(field) => Place::Many(field),
                None if message.is_kind() && matches!(name, "apiVersion" | "kind") => Place::Scalar,
                None => return PathAnswer::Unknown { depth },
            },
            (Place::Many(field), segment) if takes(field, segment) => value(field),
            _ => return PathAnswer::Unknown { depth },
        };
    }
    PathAnswer::Known
}

fn takes(field: &Field, segment: PathSegment<'_>) -> bool {
    match segment {
        PathSegment::Field(_) => field.container() == Container::Map,
        PathSegment::Item => field.container() == Container::List,
    }
}

/// The place of a field's value or element.
fn value(field: &Field) -> Place {
    match field.field_type() {
        FieldType::Message(message) => Place::Struct(message),
        FieldType::Strings
        | FieldType::FieldsV1
        | FieldType::RawExtension
        | FieldType::Json
        | FieldType::JsonSchemaPropsOrBool
        | FieldType::JsonSchemaPropsOrArray
        | FieldType::JsonSchemaPropsOrStringArray => Place::Anything,
        _ => Place::Scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::PathSegment::{Field as F, Item as I};
    use super::*;

    fn check(kind: (&str, &str, &str), path: &[PathSegment<'_>], expected: PathAnswer) {
        assert_eq!(
            knows_path(kind.0, kind.1, kind.2, path),
            expected,
            "{kind:?} {path:?}"
        );
    }

    #[test]
    fn paths_of_built_ins_are_known_or_refused_at_the_first_wrong_step() {
        const POD: (&str, &str, &str) = ("", "v1", "Pod");
        let known = PathAnswer::Known;
        check(POD, &[F("spec"), F("nodeName")], known);
        check(POD, &[F("kind")], known);
        check(POD, &[F("metadata"), F("labels"), F("a.b/c")], known);
        check(POD, &[F("spec"), F("containers"), I, F("image")], known);
        check(
            POD,
            &[F("spec"), F("volumes"), I, F("configMap"), F("name")],
            known,
        );
        check(
            POD,
            &[
                F("metadata"),
                F("managedFields"),
                I,
                F("fieldsV1"),
                F("f:x"),
            ],
            known,
        );
        check(
            POD,
            &[F("spec"), F("nodename")],
            PathAnswer::Unknown { depth: 1 },
        );
        check(
            POD,
            &[F("spec"), F("containers"), F("image")],
            PathAnswer::Unknown { depth: 2 },
        );
        check(
            POD,
            &[F("spec"), F("nodeName"), F("x")],
            PathAnswer::Unknown { depth: 2 },
        );
        check(
            POD,
            &[F("metadata"), F("labels"), I],
            PathAnswer::Unknown { depth: 2 },
        );
        check(POD, &[F("")], PathAnswer::Unknown { depth: 0 });
        let claims = [
            F("spec"),
            F("volumeClaimTemplates"),
            I,
            F("spec"),
            F("storageClassName"),
        ];
        check(("apps", "v1", "StatefulSet"), &claims, known);
        check(
            ("example.com", "v1", "Foo"),
            &[F("spec")],
            PathAnswer::NotBuiltin,
        );
    }
}
