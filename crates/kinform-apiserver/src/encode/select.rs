//! Selection of a resource's objects for a request: by namespace, name, labels, fields and shards.
//!
//! ```text
//! Target + selectors ──▶ Selection ──range──▶ keys to walk ──matches──▶ objects
//! ```
//!
//! Namespace and name become a range of keys wherever they are given, also by a field selector, so
//! that a watch of one object walks one object. Labels and other fields are read from the stored
//! bytes.
//!
//! Upstream: `apiserver:pkg/storage/selection_predicate.go`.

use kinform_api::selector::{FieldOperator, FieldSelector, LabelSelector};
use kinform_api::{Scope, Status};

use crate::http::negotiate::{Form, Look};
use crate::http::route::Target;
use crate::http::shard_selector::ShardSelector;
use crate::resource::ResourceInfo;
use crate::resource::fields::{self, Absent};
use crate::storage::{Place, Snapshot, Stored};

/// Objects that a request selects.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    range: Range,
    labels: LabelSelector,
    fields: Vec<Term>,
    shards: Option<ShardSelector>,
}

#[derive(Clone, Debug)]
enum Range {
    All,
    /// `namespace/`
    Namespace(String),
    Key(String),
}

#[derive(Clone, Debug)]
struct Term {
    field: Field,
    operator: FieldOperator,
    value: String,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// The value at a position; in its absence, another one.
    At(usize, Instead),
}

#[derive(Clone, Copy, Debug)]
enum Instead {
    Text(&'static str),
    At(usize),
}

impl Selection {
    /// Resolves the selectors of a request.
    ///
    /// # Errors
    /// A field that the resource does not know, or a name that contradicts the path's.
    pub(crate) fn new(
        target: &Target,
        labels: LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Self, Status> {
        let resource = &target.resource;
        let mut terms = Vec::with_capacity(fields.terms().len());
        for term in fields.terms() {
            let field = field(resource, &term.field)?;
            terms.push(Term {
                field,
                operator: term.operator,
                value: term.value.clone(),
            });
        }
        let asked_name = fields.exact("metadata.name");
        if let (Some(path), Some(asked)) = (target.name.as_deref(), asked_name)
            && path != asked
        {
            return Err(Status::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            ));
        }
        let name = target.name.as_deref().or(asked_name);
        let range = match (target.namespace.as_deref(), name, resource.scope) {
            (Some(namespace), Some(name), _) => Range::Key(format!("{namespace}/{name}")),
            (None, Some(name), Scope::Cluster) => Range::Key(name.to_owned()),
            (Some(namespace), None, _) => Range::Namespace(format!("{namespace}/")),
            (None, _, _) => Range::All,
        };
        Ok(Self {
            range,
            labels,
            fields: terms,
            shards: None,
        })
    }

    /// Selects only the objects of these shards.
    #[must_use]
    pub(crate) fn within(mut self, shards: Option<ShardSelector>) -> Self {
        self.shards = shards;
        self
    }

    /// Returns the selector of shards that a list names. Upstream's lists of custom resources, its
    /// tables and its lists of metadata have no field for it.
    pub(crate) fn echo(&self, resource: &ResourceInfo, form: Form) -> Option<String> {
        let has_field = form.look == Look::Whole && !resource.is_custom();
        let shards = self.shards.as_ref().filter(|_| has_field)?;
        Some(shards.text())
    }

    /// Returns whether every object in the range is selected.
    pub(crate) fn is_unfiltered(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shards.is_none()
    }

    /// Bounds of the range in a snapshot.
    pub(crate) fn bounds(&self, snapshot: &Snapshot) -> (Place, Place) {
        let (from, to) = match &self.range {
            Range::All => (snapshot.seek(""), None),
            // '0' follows '/'.
            Range::Namespace(prefix) => {
                let end = format!("{}0", &prefix[..prefix.len() - 1]);
                (snapshot.seek(prefix), Some(end))
            }
            Range::Key(key) => (snapshot.seek(key), Some(format!("{key}\0"))),
        };
        (
            from,
            to.map_or_else(|| snapshot.end(), |to| snapshot.seek(&to)),
        )
    }

    /// The prefix of storage keys that tokens leave out: they name keys below the requested range.
    pub(crate) fn prefix(&self) -> &str {
        match &self.range {
            Range::Namespace(prefix) => prefix,
            Range::All | Range::Key(_) => "",
        }
    }

    /// Returns whether an object is selected.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let in_range = match &self.range {
            Range::All => true,
            Range::Namespace(prefix) => object.key().starts_with(prefix.as_str()),
            Range::Key(key) => object.key() == key,
        };
        in_range
            && self.fields.iter().all(|term| {
                let value = match term.field {
                    Field::Name => object.name(),
                    Field::Namespace => object.namespace().unwrap_or_default(),
                    Field::At(position, instead) => match (object.field(position), instead) {
                        ("", Instead::Text(text)) => text,
                        ("", Instead::At(other)) => object.field(other),
                        (value, _) => value,
                    },
                };
                (value == term.value) == (term.operator != FieldOperator::NotEquals)
            })
            && (self.labels.is_empty() || self.labels.matches(|key| object.label(key)))
            && self.shards.as_ref().is_none_or(|of| of.matches(object))
    }
}

fn field(resource: &ResourceInfo, name: &str) -> Result<Field, Status> {
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    match name {
        "metadata.name" => return Ok(Field::Name),
        "metadata.namespace" if resource.is_custom() || fields::knows_namespace(group, plural) => {
            return Ok(Field::Namespace);
        }
        _ => {}
    }
    let position = |name: &str| {
        let mut known = resource.fields.iter();
        known.position(|field| !name.is_empty() && field.name() == name)
    };
    let Some(found) = position(name) else {
        return Err(Status::bad_request(unknown_field(resource, name)));
    };
    let absent = match resource.is_custom() {
        true => Absent::Text(""),
        false => fields::absent(group, plural, name),
    };
    let instead = match absent {
        Absent::Text(text) => Instead::Text(text),
        Absent::Field(other) => position(other).map_or(Instead::Text(""), Instead::At),
    };
    Ok(Field::At(found, instead))
}

/// Error for an unknown field; types without fields of their own, and a few others, word it
/// differently.
fn unknown_field(resource: &ResourceInfo, name: &str) -> String {
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    match (group, plural) {
        ("batch", "jobs") => format!("field label {name:?} not supported for Job"),
        ("resource.k8s.io", "resourceslices") => {
            let kind = format!("{}, Kind={}", resource.api_version(), resource.kind);
            format!("field label not supported for {kind}: {name}")
        }
        _ if resource.is_custom() => format!("field label not supported: {name}"),
        _ if resource.fields.is_empty() => {
            let known = r#"only "metadata.name", "metadata.namespace""#;
            format!("{name:?} is not a known field selector: {known}")
        }
        _ => format!("field label not supported: {name}"),
    }
}
