//! Built-in types and their fields.
//!
//! ```text
//! Type -> fields, field(JSON name), field_by_number(n) -> Field: name, number, form, container
//! Field -> field_type() -> Message(Type)
//! ```
//!
//! A field states the form of its value in JSON and in protobuf. It does not state defaults or
//! validation: those are code upstream, not data. Types refer to each other by number, so all types
//! of the table are kept here; the parser sets them once.
//!
//! Upstream: the scheme of `kubernetes/client-go:kubernetes/scheme`; the `json`, `protobuf`,
//! `patchStrategy` and `patchMergeKey` tags of `kubernetes/api`; `x-kubernetes-list-type`,
//! `-list-map-keys` and `-map-type` of `kubernetes/kube-openapi:pkg/schemaconv`.
//!
//! Complexity: `field` scans the type's names (40 at most) and those of its inline fields;
//! `field_by_number` is one read.

use std::fmt;
use std::sync::OnceLock;

/// All types, by number.
// INVARIANT: set by the parser before a field leaves it.
static TYPES: OnceLock<Box<[Type]>> = OnceLock::new();

/// Keeps the types; the first caller's stay.
pub(crate) fn keep(types: Vec<Type>) -> &'static [Type] {
    TYPES.get_or_init(|| types.into_boxed_slice())
}

/// The type of a number of the table.
#[inline]
fn numbered(number: u16) -> &'static Type {
    let types: &'static [Type] = TYPES.get().map_or(&[], |types| types);
    &types[usize::from(number)]
}

/// A built-in type: a kind, or a part of one.
#[derive(Clone)]
pub struct Type {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    pub(crate) fields: Box<[Field]>,
    /// Field number to position plus one; 0 where the type has no such field.
    pub(crate) by_number: Box<[u8]>,
    pub(crate) is_kind: bool,
    pub(crate) is_atomic: bool,
    pub(crate) number: u16,
    /// Positions of the fields that JSON writes as null when protobuf omits them.
    pub(crate) nulls: Box<[u8]>,
}

impl Type {
    /// Its name in Go, as `PodSpec`. Names are unique within a package only.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its Go package, as `k8s.io/api/core/v1`.
    pub fn package(&self) -> &'static str {
        self.package
    }

    /// Returns whether it is a kind: then its JSON may carry `apiVersion` and `kind`, which are
    /// not fields of the table.
    pub fn is_kind(&self) -> bool {
        self.is_kind
    }

    /// Returns whether server-side apply takes a value as a unit: the owner of a field owns it all.
    pub fn is_atomic(&self) -> bool {
        self.is_atomic
    }

    /// Its place in the table of this build: for keeping a reference in two bytes.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The positions in [`fields`](Self::fields) of the fields that JSON writes as null when
    /// protobuf omits them: lists, maps, pointers and bytes that are not omitted when empty, and
    /// times that are no pointers.
    pub fn nulls(&self) -> &[u8] {
        &self.nulls
    }

    /// Its fields in the order of the Go struct, which is the order of the server's JSON.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Its fields in the order of their protobuf numbers, which is the order of the server's protobuf.
    pub fn fields_by_number(&self) -> impl DoubleEndedIterator<Item = &Field> {
        let positions = self.by_number.iter();
        positions.filter_map(|at| self.fields.get(usize::from(*at).checked_sub(1)?))
    }

    /// The field of a JSON name; those of inline fields are found, too.
    pub fn field(&self, name: &str) -> Option<&Field> {
        if name.is_empty() {
            return None;
        }
        self.fields
            .iter()
            .find(|field| field.name == name)
            .or_else(|| {
                let inline = self.fields.iter().filter(|field| field.is_inline());
                inline
                    .filter_map(Field::message)
                    .find_map(|message| message.field(name))
            })
    }

    /// The field of a protobuf number.
    #[inline]
    pub fn field_by_number(&self, number: u32) -> Option<&Field> {
        self.fields.get(self.position(number)?)
    }

    /// The position in [`fields`](Self::fields) of the field of a protobuf number.
    #[inline]
    pub fn position(&self, number: u32) -> Option<usize> {
        let position = *self.by_number.get(usize::try_from(number).ok()?)?;
        usize::from(position).checked_sub(1)
    }
}

/// Prints the name only: types refer to each other in circles.
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.package, self.name)
    }
}

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

/// The parts of a field's value that have owners of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// None: the owner of a part owns all of it.
    Atomic,
    /// Each entry of a map and each field of a struct.
    Granular,
    /// Each item of a list, identified by its value.
    Set,
    /// Each item of a list, identified by these fields.
    Keyed(&'static [&'static str]),
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
            Kind::Message(number) => FieldType::Message(numbered(number)),
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
    use crate::lookup::{builtin, named_type, numbered_type};

    #[test]
    fn a_field_is_small_since_there_are_thousands() {
        assert!(size_of::<Field>() <= 6 * size_of::<usize>());
        let types = (0..).map_while(numbered_type);
        let fields = types.flat_map(Type::fields);
        let (mut all, mut ruled) = (0, 0);
        for field in fields {
            all += 1;
            ruled += usize::from(field.rules.is_some());
        }
        assert!(all > 4000 && ruled * 5 < all, "{ruled} of {all}");
    }

    fn field(of: &str, name: &str) -> Field {
        let of = named_type("k8s.io/api/core/v1", of).unwrap();
        of.field(name).unwrap().clone()
    }

    #[test]
    fn lists_are_owned_as_a_real_server_publishes_it() {
        assert_eq!(
            field("PodSpec", "containers").topology(),
            Topology::Keyed(&["name"])
        );
        let ports = field("Container", "ports").topology();
        assert_eq!(ports, Topology::Keyed(&["containerPort", "protocol"]));
        assert_eq!(field("Container", "args").topology(), Topology::Atomic);
        assert_eq!(field("PodSpec", "tolerations").topology(), Topology::Atomic);
        assert_eq!(
            field("PodSpec", "nodeSelector").topology(),
            Topology::Atomic
        );
        assert_eq!(field("ConfigMap", "data").topology(), Topology::Granular);
        assert_eq!(field("ServicePort", "protocol").key_default(), Some("TCP"));
        let meta = named_type("k8s.io/apimachinery/pkg/apis/meta/v1", "ObjectMeta").unwrap();
        assert_eq!(meta.field("finalizers").unwrap().topology(), Topology::Set);
        assert_eq!(
            meta.field("ownerReferences").unwrap().topology(),
            Topology::Keyed(&["uid"])
        );
        assert_eq!(
            field("PersistentVolumeSpec", "claimRef").topology(),
            Topology::Granular
        );
        assert_eq!(
            field("EnvVarSource", "secretKeyRef").topology(),
            Topology::Atomic
        );
        let selector = builtin("apps", "v1", "Deployment").unwrap();
        let selector = selector
            .field("spec")
            .unwrap()
            .message()
            .unwrap()
            .field("selector")
            .unwrap();
        assert!(selector.message().unwrap().is_atomic());
    }
}
