//! One field of a built-in type.
//!
//! ```text
//! Type -> Field: name, number, type, container -> Field::message() -> Type
//! ```
//!
//! A field states the form of its value in JSON and in protobuf. It does not state defaults or
//! validation: those are code upstream, not data.
//!
//! Upstream: the `json`, `protobuf`, `patchStrategy` and `patchMergeKey` tags of `kubernetes/api`.

use crate::parse::table;
use crate::topology::Topology;
use crate::types::Type;

/// One field of a built-in type.
#[derive(Clone, Debug)]
pub struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Boxed, since only one field in ten has any: every process that reads protobuf holds all
    /// fields.
    pub(crate) rules: Option<Box<Rules>>,
    pub(crate) number: u16,
    pub(crate) container: Container,
    pub(crate) flags: Flags,
}

/// The rules by which writes treat a field, where they differ from those of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    pub(crate) patch: PatchStrategy,
    pub(crate) merge_key: Option<&'static str>,
    /// `None` where the value's own type decides.
    pub(crate) topology: Option<Topology>,
    pub(crate) key_default: Option<&'static str>,
}

/// The type of a field's value, or of an element of its list or map.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FieldType {
    /// UTF-8 text.
    String,
    /// A boolean.
    Bool,
    /// A 32-bit signed integer.
    Int32,
    /// A 64-bit signed integer, a plain number in JSON.
    Int64,
    /// A 64-bit floating point number.
    Double,
    /// Bytes; base64 text in JSON.
    Bytes,
    /// A list of strings that protobuf wraps into a message `{items = 1}`.
    Strings,
    /// RFC 3339 text without a fraction; `{seconds = 1, nanos = 2}` in protobuf.
    Time,
    /// RFC 3339 text with six digits of a fraction; `{seconds = 1, nanos = 2}` in protobuf.
    MicroTime,
    /// Go's text of a duration; `{duration = 1}` in protobuf.
    Duration,
    /// A quantity, text or number in JSON; `{string = 1}` in protobuf.
    Quantity,
    /// A number or text; `{type = 1, int = 2, string = 3}` in protobuf.
    IntOrString,
    /// The set of fields that a manager owns: any JSON; `{raw = 1}` in protobuf.
    FieldsV1,
    /// Any JSON object; `{raw = 1}` in protobuf.
    RawExtension,
    /// Any JSON value; `{raw = 1}` in protobuf.
    Json,
    /// A schema or a boolean; `{allows = 1, schema = 2}` in protobuf.
    JsonSchemaPropsOrBool,
    /// A schema or a list of them; `{schema = 1, schemas = 2}` in protobuf.
    JsonSchemaPropsOrArray,
    /// A schema or a list of strings; `{schema = 1, property = 2}` in protobuf.
    JsonSchemaPropsOrStringArray,
    /// A message of the table.
    Message(&'static Type),
}

/// The number of values in a field: one, a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// One value.
    Single,
    /// A list of values.
    List,
    /// A map from strings to values.
    Map,
}

/// The treatment of a field by a strategic merge patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// The list is merged item by item, by the merge key (or by value, for scalars).
    pub merge: bool,
    /// The value is replaced as a whole.
    pub replace: bool,
    /// Keys that the patch does not name in `$retainKeys` are removed.
    pub retain_keys: bool,
}

/// A field's type as the table holds it: messages by number, since types refer to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Plain(FieldType),
    Message(u16),
}

/// The marks of a field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) pointer: bool,
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
    pub(crate) inline: bool,
}

impl Field {
    /// Its name in JSON; empty for an inline field, whose own fields are part of the parent.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its number in protobuf.
    pub fn number(&self) -> u32 {
        u32::from(self.number)
    }

    /// The type of its value, or of an element of its list or map.
    #[inline]
    pub fn field_type(&self) -> FieldType {
        match self.kind {
            Kind::Plain(plain) => plain,
            Kind::Message(number) => FieldType::Message(&table().types[usize::from(number)]),
        }
    }

    /// The message it holds, if it holds one.
    #[inline]
    pub fn message(&self) -> Option<&'static Type> {
        match self.field_type() {
            FieldType::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The number of values: one, a list or a map.
    #[inline]
    pub fn container(&self) -> Container {
        self.container
    }

    /// Returns whether absent and zero are different.
    pub fn is_pointer(&self) -> bool {
        self.flags.pointer
    }

    /// Returns whether JSON omits the field if it is zero or empty. This never omits structs.
    pub fn omits_empty(&self) -> bool {
        self.flags.omit_empty
    }

    /// Returns whether JSON omits the field if it is zero, structs included.
    pub fn omits_zero(&self) -> bool {
        self.flags.omit_zero
    }

    /// Returns whether JSON puts its fields into the parent; protobuf nests them.
    pub fn is_inline(&self) -> bool {
        self.flags.inline
    }

    /// The treatment of the field by a strategic merge patch.
    pub fn patch_strategy(&self) -> PatchStrategy {
        self.rules
            .as_ref()
            .map_or_else(PatchStrategy::default, |rules| rules.patch)
    }

    /// The key field by which a strategic merge patch identifies its items.
    pub fn merge_key(&self) -> Option<&'static str> {
        self.rules.as_ref()?.merge_key
    }

    /// The parts of its list, map or struct that have owners of their own in server-side apply.
    pub fn topology(&self) -> Topology {
        let named = self.rules.as_ref().and_then(|rules| rules.topology);
        named.unwrap_or_else(|| {
            let is_atomic = self.message().is_some_and(Type::is_atomic);
            match self.container {
                Container::List => Topology::Atomic,
                Container::Single if is_atomic => Topology::Atomic,
                Container::Single | Container::Map => Topology::Granular,
            }
        })
    }

    /// The default, other than zero, of a field that is part of a list item's key, as the protocol
    /// of a port.
    pub fn key_default(&self) -> Option<&'static str> {
        self.rules.as_ref()?.key_default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_small_since_there_are_thousands() {
        assert!(size_of::<Field>() <= 6 * size_of::<usize>());
        let fields = table().types.iter().flat_map(Type::fields);
        let (mut all, mut ruled) = (0, 0);
        for field in fields {
            all += 1;
            ruled += usize::from(field.rules.is_some());
        }
        assert!(all > 4000 && ruled * 5 < all, "{ruled} of {all}");
    }
}
