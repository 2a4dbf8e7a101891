//! The types of a schema's values in the language of rules.
//!
//! ```text
//! schema node, built-in type -> Type          Type.member(name) -> Type | no such field
//! ```
//!
//! A value without a type (an unknown field that is kept) cannot be named in a rule.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/cel/model`, `kubernetes/apiserver:pkg/cel/types.go`.

use std::fmt;

use kinform_schema::{Container, Field, FieldType};
use serde_json::Value;

use crate::schema::{Whole, flag};

/// Literals and operators of the language, which are words.
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

/// Names that no variable, no function and no field may have, besides literals.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn is_reserved(word: &str) -> bool {
    LITERALS.contains(&word) || RESERVED.contains(&word)
}

/// The types of the authorizer and of its parts.
pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// A type of a rule's value.
#[derive(Clone, Debug)]
pub(crate) enum Type<'a> {
    /// A type that is only known when the rule runs.
    Dynamic,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Null,
    /// The type of types.
    Meta,
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Optional(Box<Self>),
    /// A schema with properties, and its role: a whole object with kind and metadata, or a part.
    Object(&'a Value, Whole),
    /// A value with these members: a request, the variables of a policy.
    Fields(Vec<(String, Self)>),
    /// A built-in type.
    Builtin(&'static kinform_schema::Type),
    /// The metadata of a whole object.
    Metadata,
    /// A type of a library: quantities, addresses.
    Library(&'static str),
    /// A message of a mutation: an object, a part of one, an operation of a patch.
    Message(String),
}

/// The messages of mutations. The parts of an object are named by their paths: `Object.spec`.
pub(crate) const OBJECT: &str = "Object";
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The Go package of the metadata of objects.
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
/// The members that every object has.
const WHOLE: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Returns the field of a built-in type by its escaped name.
fn field_of_builtin(of: &'static kinform_schema::Type, name: &str) -> Option<&'static Field> {
    let mut fields = of.fields().iter();
    fields.find_map(|field| match field.message() {
        Some(inlined) if field.is_inline() => field_of_builtin(inlined, name),
        _ => (escape(field.name()).as_deref() == Some(name)).then_some(field),
    })
}

/// Returns the type of a field of a message, by the name of the message.
pub(crate) fn field_of_message<'a>(message: &str, field: &str) -> Option<Type<'a>> {
    match (message, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(Type::Text),
        (JSON_PATCH, "value") => Some(Type::Dynamic),
        (JSON_PATCH, _) => None,
        _ => Some(Type::Dynamic),
    }
}

impl<'a> Type<'a> {
    /// The type of a node's values, if it has one.
    pub(crate) fn of(schema: &'a Value, whole: Whole) -> Option<Self> {
        if flag(schema, "x-kubernetes-int-or-string") {
            return Some(Self::Dynamic);
        }
        let whole = match flag(schema, "x-kubernetes-embedded-resource") {
            true => Whole::Yes,
            false => whole,
        };
        match schema.get("type").and_then(Value::as_str)? {
            "object" => match schema.get("additionalProperties") {
                Some(of) if of.is_object() && whole == Whole::No => {
                    let of = Self::of(of, Whole::No)?;
                    Some(Self::Map(Box::new(Self::Text), Box::new(of)))
                }
                _ => Some(Self::Object(schema, whole)),
            },
            "array" => {
                let of = Self::of(schema.get("items")?, Whole::No)?;
                Some(Self::List(Box::new(of)))
            }
            "string" => Some(match schema.get("format").and_then(Value::as_str) {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                _ => Self::Text,
            }),
            "boolean" => Some(Self::Bool),
            "number" => Some(Self::Double),
            "integer" => Some(Self::Int),
            _ => None,
        }
    }

    /// The type of a field of a built-in type.
    fn of_field(field: &Field) -> Self {
        let one = match field.field_type() {
            FieldType::String | FieldType::Duration => Self::Text,
            FieldType::Bool => Self::Bool,
            FieldType::Int32 | FieldType::Int64 => Self::Int,
            FieldType::Double => Self::Double,
            FieldType::Bytes => Self::Bytes,
            FieldType::Strings => Self::List(Box::new(Self::Text)),
            FieldType::Time | FieldType::MicroTime => Self::Timestamp,
            FieldType::Message(of) => Self::Builtin(of),
            _ => Self::Dynamic,
        };
        match field.container() {
            Container::Single => one,
            Container::List => Self::List(Box::new(one)),
            Container::Map => Self::Map(Box::new(Self::Text), Box::new(one)),
        }
    }

    /// The type of the objects of a definition: with all of their metadata, and without fields that
    /// have no type.
    pub(crate) fn of_definition(schema: &'a Value) -> Self {
        if flag(schema, "x-kubernetes-preserve-unknown-fields") {
            return Self::Dynamic;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        let typed = properties
            .filter(|(name, _)| !WHOLE.contains(&name.as_str()))
            .filter_map(|(name, of)| Some((escape(name)?, Self::of(of, Whole::No)?)));
        let metadata = kinform_schema::named_type(META, "ObjectMeta");
        let metadata = metadata.map_or(Self::Dynamic, Self::Builtin);
        let [version, kind, meta] = WHOLE.map(str::to_owned);
        let own = [(version, Self::Text), (kind, Self::Text), (meta, metadata)];
        Self::Fields(own.into_iter().chain(typed).collect())
    }

    /// The type of a member, by its escaped name.
    pub(crate) fn member(&self, name: &str) -> Option<Self> {
        match self {
            Self::Dynamic => Some(Self::Dynamic),
            Self::Message(message) => field_of_message(message, name),
            Self::Map(key, of) if key.takes(&Self::Text) => Some((**of).clone()),
            Self::Optional(of) => Some(Self::Optional(Box::new(of.member(name)?))),
            Self::Builtin(of) if of.is_kind() && WHOLE[..2].contains(&name) => Some(Self::Text),
            Self::Builtin(of) => field_of_builtin(of, name).map(Self::of_field),
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Self::Text),
            Self::Fields(fields) => {
                let found = fields.iter().find(|(field, _)| field == name);
                found.map(|(_, of)| of.clone())
            }
            Self::Library(AUTHORIZER) if name == "requestResource" => {
                Some(Self::Library(RESOURCE_CHECK))
            }
            Self::Object(schema, whole) => {
                if *whole == Whole::Yes {
                    match name {
                        "apiVersion" | "kind" => return Some(Self::Text),
                        "metadata" => return Some(Self::Metadata),
                        _ => {}
                    }
                }
                let properties = schema.get("properties")?.as_object()?;
                let found = properties
                    .iter()
                    .find(|(property, _)| escape(property).as_deref() == Some(name));
                Self::of(found?.1, Whole::No)
            }
            _ => None,
        }
    }

    /// Returns whether a value of the other type is accepted where this type is expected.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dynamic, _)
            | (_, Self::Dynamic)
            | (Self::Bool, Self::Bool)
            | (Self::Int, Self::Int)
            | (Self::Uint, Self::Uint)
            | (Self::Double, Self::Double)
            | (Self::Text, Self::Text)
            | (Self::Bytes, Self::Bytes)
            | (Self::Duration, Self::Duration)
            | (Self::Timestamp, Self::Timestamp)
            | (Self::Null, Self::Null)
            | (Self::Meta, Self::Meta)
            | (Self::Metadata, Self::Metadata) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.takes(b),
            (Self::Map(ak, a), Self::Map(bk, b)) => ak.takes(bk) && a.takes(b),
            (Self::Object(a, _), Self::Object(b, _)) => a == b,
            (Self::Builtin(a), Self::Builtin(b)) => std::ptr::eq(*a, *b),
            (Self::Library(a), Self::Library(b)) => a == b,
            (Self::Message(a), Self::Message(b)) => a == b,
            (Self::Fields(a), Self::Fields(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
            }
            (a, Self::Null) | (Self::Null, a) => a.may_be_null(),
            _ => false,
        }
    }

    fn may_be_null(&self) -> bool {
        matches!(
            self,
            Self::Object(..)
                | Self::Builtin(_)
                | Self::Fields(_)
                | Self::Metadata
                | Self::Library(_)
                | Self::Message(_)
                | Self::Duration
                | Self::Timestamp
                | Self::Optional(_)
        )
    }

    /// Returns the more specific of two types.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Dynamic | Self::Null, other) => other,
            (Self::List(a), Self::List(b)) => Self::List(Box::new(a.or(*b))),
            (known, _) => known,
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double | Self::Dynamic)
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dynamic => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Null => "null",
            Self::Meta => "type",
            Self::Object(..) | Self::Metadata | Self::Fields(_) => "selfType",
            Self::Builtin(of) => of.name(),
            Self::Library(name) => name,
            Self::Message(name) => name,
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, of) => return write!(f, "map({key}, {of})"),
            Self::Optional(of) => return write!(f, "optional_type({of})"),
        })
    }
}

/// Returns a field's name as rules write it, or `None` if rules cannot name it.
///
/// Upstream: `kubernetes/apiserver:pkg/cel/escaping.go`.
pub(crate) fn escape(name: &str) -> Option<String> {
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '_' if letters.peek() == Some(&'_') => {
                letters.next();
                escaped.push_str("__underscores__");
            }
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            letter if letter.is_ascii_alphanumeric() || letter == '_' => escaped.push(letter),
            _ => return None,
        }
    }
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts.then_some(escaped)
}

/// Returns the name of a field that rules write in this way.
pub(crate) fn unescaped(name: &str) -> String {
    let word = name
        .strip_prefix("__")
        .and_then(|name| name.strip_suffix("__"));
    if let Some(word) = word.filter(|word| is_reserved(word)) {
        return word.to_owned();
    }
    let mut name = name.to_owned();
    for (escape, sign) in [
        ("__dot__", "."),
        ("__dash__", "-"),
        ("__slash__", "/"),
        ("__underscores__", "__"),
    ] {
        name = name.replace(escape, sign);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_name_is_read_again() {
        for name in ["a-b", "in", "a.c/d", "self", "a__b", "namespace"] {
            let escaped = escape(name).unwrap();
            assert_eq!(unescaped(&escaped), name, "{escaped}");
        }
    }

    #[test]
    fn names_are_escaped_as_rules_write_them() {
        assert_eq!(escape("a-b").as_deref(), Some("a__dash__b"));
        assert_eq!(escape("in").as_deref(), Some("__in__"));
        assert_eq!(
            escape("a__b.c/d").as_deref(),
            Some("a__underscores__b__dot__c__slash__d")
        );
        assert_eq!(escape("self").as_deref(), Some("self"));
        assert_eq!(escape("1a"), None);
        assert_eq!(escape("ä"), None);
    }
}
