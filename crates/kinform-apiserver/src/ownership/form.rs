//! The form of a value for the purpose of ownership: one view of built-in types and of schemas.
//!
//! ```text
//! kinform_schema::Type | schema of a definition -> Form ──atom──▶ scalar? list? map?
//! ```
//!
//! A form may allow several kinds of value; the value decides which one applies. Where a schema has
//! no type, the types are deduced: maps are granular, lists atomic.
//!
//! Upstream: `kube-openapi:pkg/schemaconv`, `structured-merge-diff:schema/elements.go`,
//! `typed/helpers.go`.

use kinform_schema::{Container, Field, FieldType, Topology, Type};
use serde_json::{Map, Value};

use super::element::Element;
use super::set::{Node, Set};
use crate::resource::{ResourceInfo, Shape};

/// The form of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'a> {
    /// A built-in struct. It is atomic if its fields cannot be owned separately.
    Struct { of: &'a Type, atomic: bool },
    /// The value of a built-in type's field.
    Whole(&'a Field),
    /// An item of its list, or a value of its map.
    Part(&'a Field),
    /// The schema of a definition.
    Schema { of: &'a Value, keeps: bool },
    /// The schema of an object with metadata.
    Object { of: &'a Value, keeps: bool },
    /// Text.
    Text,
    /// Any value; maps are granular.
    Deduced,
    /// Any value, as a unit.
    Untyped,
}

/// The kinds of value that a form allows, and the forms of their elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atom<'a> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List<'a>>,
    pub(super) map: Option<Mapping<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    Text,
    Bool,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a> {
    pub(super) relation: Relation<'a>,
    pub(super) item: Form<'a>,
}

/// The identification of the items of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Relation<'a> {
    /// Items have no identity: the list is owned as a unit.
    Atomic,
    /// Items are identified by their values.
    Set,
    /// Items are identified by these fields.
    Keyed(&'a [&'a str]),
    /// Items are identified by the fields that a schema names.
    Named(&'a Value),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping<'a> {
    pub(super) atomic: bool,
    members: Members<'a>,
    /// The form of members that are not declared, or `None` if they are not allowed.
    pub(super) others: Option<Form<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum Members<'a> {
    None,
    Type(&'a Type),
    Schema {
        of: &'a Value,
        keeps: bool,
        is_object: bool,
    },
}

/// The kind of value that applies, of those that a form allows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Scalar(Scalar),
    List(List<'a>),
    Map(Mapping<'a>),
    Nothing,
}

impl Kind<'_> {
    /// Returns whether two are of the same variant.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'a> Form<'a> {
    /// Returns the form of a resource's objects.
    pub(super) fn of(resource: &'a ResourceInfo) -> Self {
        match &resource.shape {
            Shape::Builtin(of) => Self::of_type(of),
            Shape::Custom(custom) if custom.schema.is_object() => Self::Object {
                of: &custom.schema,
                keeps: false,
            },
            Shape::Custom(_) => Self::Deduced,
        }
    }

    pub(super) fn of_type(of: &'a Type) -> Self {
        Self::Struct {
            of,
            atomic: of.is_atomic(),
        }
    }

    pub(super) fn atom(self) -> Atom<'a> {
        match self {
            Self::Struct { of, atomic } => map(atomic, Members::Type(of), None),
            Self::Text => scalar(Scalar::Text),
            Self::Deduced => any(false),
            Self::Untyped => any(true),
            Self::Part(field) => part(field),
            Self::Whole(field) => whole(field),
            Self::Object { of, keeps } => of_schema(of, keeps, true),
            Self::Schema { of, keeps } => of_schema(of, keeps, false),
        }
    }

    /// Returns the kind that applies to a value.
    pub(super) fn kind(self, value: &Value) -> Kind<'a> {
        let atom = self.atom();
        match (value, atom.scalar, atom.list, atom.map) {
            (Value::Number(_) | Value::String(_) | Value::Bool(_), Some(scalar), ..) => {
                Kind::Scalar(scalar)
            }
            (Value::Array(_), _, Some(list), _) => Kind::List(list),
            (_, _, _, Some(map)) => Kind::Map(map),
            (_, Some(scalar), ..) => Kind::Scalar(scalar),
            (_, _, Some(list), _) => Kind::List(list),
            (_, None, None, None) => Kind::Nothing,
        }
    }
}

impl<'a> Mapping<'a> {
    /// Returns the form of a declared member.
    pub(super) fn named(&self, name: &str) -> Option<Form<'a>> {
        match self.members {
            Members::None => None,
            Members::Type(of) => match of.field(name) {
                Some(field) => Some(Form::Whole(field)),
                None if of.is_kind() && is_type_meta(name) => Some(Form::Text),
                None => None,
            },
            Members::Schema { is_object, .. } if is_object && is_type_meta(name) => {
                Some(Form::Text)
            }
            Members::Schema { is_object, .. } if is_object && name == "metadata" => object_meta(),
            Members::Schema { of, keeps, .. } => {
                let of = of.get("properties")?.get(name)?;
                Some(Form::Schema { of, keeps })
            }
        }
    }

    /// Returns the form of a member, declared or not.
    pub(super) fn member(&self, name: &str) -> Option<Form<'a>> {
        self.named(name).or(self.others)
    }

    /// Returns whether no member is declared, so that the types of members are deduced.
    pub(super) fn is_deduced(&self) -> bool {
        matches!(self.others, Some(Form::Deduced | Form::Untyped))
            && match self.members {
                Members::None => true,
                Members::Type(_) => false,
                Members::Schema { of, is_object, .. } => !is_object && !has_properties(of),
            }
    }

    /// Returns the default of an absent member, for members that are keys of a list.
    fn default(&self, name: &str) -> Option<Value> {
        match self.members {
            Members::None => None,
            Members::Schema { of, .. } => of
                .get("properties")?
                .get(name)?
                .get("default")
                .filter(|default| !default.is_null())
                .cloned(),
            Members::Type(of) => {
                let field = of.field(name)?;
                if let Some(default) = field.key_default() {
                    return Some(Value::from(default));
                }
                if field.is_pointer() || field.omits_empty() {
                    return None;
                }
                match field.field_type() {
                    FieldType::String => Some(Value::from("")),
                    FieldType::Bool => Some(Value::from(false)),
                    FieldType::Int32 | FieldType::Int64 => Some(Value::from(0)),
                    _ => None,
                }
            }
        }
    }
}

impl List<'_> {
    /// Returns the step to an item of a list that is not atomic.
    pub(super) fn element(&self, item: &Value) -> Result<Element, String> {
        let keys: Vec<&str> = match self.relation {
            Relation::Atomic => return Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => return set_element(item),
            Relation::Keyed(keys) => keys.to_vec(),
            Relation::Named(keys) => {
                let keys = keys.as_array();
                keys.into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect()
            }
        };
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => {
                let what = "associative list with keys may not have a null element";
                return Err(what.to_owned());
            }
            _ => {
                let what = "associative list with keys may not have non-map elements";
                return Err(what.to_owned());
            }
        };
        let found = keys.iter().filter_map(|key| {
            let value = fields.get(*key).cloned();
            Some((*key, value.or_else(|| self.item.atom().map?.default(key))?))
        });
        match Element::key(found) {
            Element::Key(found) if found.is_empty() => Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and \
                 doesn't have default values for any key fields)",
                keys.iter()
                    .map(|key| format!("{key:?}"))
                    .collect::<Vec<_>>()
                    .join(" ")
            )),
            element => Ok(element),
        }
    }
}

fn set_element(item: &Value) -> Result<Element, String> {
    let what = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        item => return Ok(Element::value(item)),
    };
    Err(what.to_owned())
}

/// Adds to a set every declared field that has paths below it.
pub(super) fn with_named_fields(set: &Set, form: Option<Form<'_>>) -> Set {
    let atom = form.map(Form::atom);
    let mapping = atom.and_then(|atom| atom.map);
    let list = atom.and_then(|atom| atom.list);
    set.map(|node| {
        let (is_named, inner) = match &node.element {
            Element::Field(name) => match mapping {
                Some(mapping) => (mapping.named(name).is_some(), mapping.member(name)),
                None => (false, None),
            },
            Element::Key(_) => (false, list.map(|list| list.item)),
            Element::Value(_) | Element::Index(_) => (false, None),
        };
        Node {
            element: node.element.clone(),
            is_member: node.is_member || (is_named && !node.children.is_empty()),
            children: with_named_fields(&node.children, inner),
        }
    })
}

fn is_type_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

fn object_meta() -> Option<Form<'static>> {
    const PACKAGE: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
    kinform_schema::named_type(PACKAGE, "ObjectMeta").map(Form::of_type)
}

fn scalar<'a>(scalar: Scalar) -> Atom<'a> {
    Atom {
        scalar: Some(scalar),
        list: None,
        map: None,
    }
}

fn map<'a>(atomic: bool, members: Members<'a>, others: Option<Form<'a>>) -> Atom<'a> {
    Atom {
        scalar: None,
        list: None,
        map: Some(Mapping {
            atomic,
            members,
            others,
        }),
    }
}

fn any<'a>(atomic: bool) -> Atom<'a> {
    let others = if atomic { Form::Untyped } else { Form::Deduced };
    Atom {
        scalar: Some(Scalar::Any),
        list: Some(List {
            relation: Relation::Atomic,
            item: Form::Untyped,
        }),
        ..map(atomic, Members::None, Some(others))
    }
}

fn whole(field: &Field) -> Atom<'_> {
    match (field.container(), field.message()) {
        (Container::Single, Some(of)) => {
            let atomic = field.topology() == Topology::Atomic;
            Form::Struct { of, atomic }.atom()
        }
        (Container::Single, None) => part(field),
        (Container::List, _) => Atom {
            scalar: None,
            list: Some(List {
                relation: match field.topology() {
                    Topology::Atomic | Topology::Granular => Relation::Atomic,
                    Topology::Set => Relation::Set,
                    Topology::Keyed(keys) => Relation::Keyed(keys),
                },
                item: Form::Part(field),
            }),
            map: None,
        },
        (Container::Map, _) => {
            let atomic = field.topology() == Topology::Atomic;
            map(atomic, Members::None, Some(Form::Part(field)))
        }
    }
}

fn part(field: &Field) -> Atom<'_> {
    match field.field_type() {
        FieldType::Message(of) => Form::of_type(of).atom(),
        FieldType::String | FieldType::Bytes | FieldType::Duration => scalar(Scalar::Text),
        FieldType::Bool => scalar(Scalar::Bool),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => scalar(Scalar::Number),
        FieldType::Time | FieldType::MicroTime | FieldType::Quantity | FieldType::IntOrString => {
            scalar(Scalar::Any)
        }
        FieldType::Strings => Atom {
            scalar: None,
            list: Some(List {
                relation: Relation::Atomic,
                item: Form::Text,
            }),
            map: None,
        },
        FieldType::FieldsV1 => map(false, Members::None, Some(Form::Deduced)),
        FieldType::RawExtension => any(true),
        _ => any(false),
    }
}

fn of_schema(of: &Value, keeps: bool, is_object: bool) -> Atom<'_> {
    let flag = |name: &str| of.get(name) == Some(&Value::Bool(true));
    let keeps = keeps || flag("x-kubernetes-preserve-unknown-fields");
    let is_object = is_object || flag("x-kubernetes-embedded-resource");
    let text = |name: &str| of.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "integer" | "number" => scalar(Scalar::Number),
        "boolean" => scalar(Scalar::Bool),
        "string" if matches!(text("format"), "" | "byte") => scalar(Scalar::Text),
        "string" => scalar(Scalar::Any),
        "array" => Atom {
            scalar: None,
            list: Some(schema_list(of, keeps)),
            map: None,
        },
        "object" => schema_map(of, keeps, is_object),
        _ => Atom {
            scalar: Some(Scalar::Any),
            list: Some(schema_list(of, keeps)),
            ..schema_map(of, keeps, is_object)
        },
    }
}

fn schema_list(of: &Value, keeps: bool) -> List<'_> {
    let kind = of.get("x-kubernetes-list-type").and_then(Value::as_str);
    let items = of.get("items").filter(|items| items.is_object());
    List {
        relation: match (kind, of.get("x-kubernetes-list-map-keys")) {
            (Some("set"), _) => Relation::Set,
            (Some("map"), Some(keys)) => Relation::Named(keys),
            _ => Relation::Atomic,
        },
        item: items.map_or(Form::Untyped, |of| Form::Schema { of, keeps }),
    }
}

fn schema_map(of: &Value, keeps: bool, is_object: bool) -> Atom<'_> {
    let atomic = of
        .get("x-kubernetes-map-type")
        .is_some_and(|kind| kind == "atomic");
    let others = match of.get("additionalProperties") {
        None | Some(Value::Null) => {
            let is_free = keeps || !(is_object || has_properties(of));
            is_free.then_some(Form::Deduced)
        }
        Some(Value::Bool(allowed)) => allowed.then_some(Form::Deduced),
        Some(of) => Some(Form::Schema { of, keeps }),
    };
    map(
        atomic,
        Members::Schema {
            of,
            keeps,
            is_object,
        },
        others,
    )
}

fn has_properties(of: &Value) -> bool {
    of.get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties: &Map<String, Value>| !properties.is_empty())
}
