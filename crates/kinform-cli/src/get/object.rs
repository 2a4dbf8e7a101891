//! The objects that `get` prints: out of a cache, or fetched by name.
//!
//! ```text
//! Informer ──▶ Shown::Cached ─┬─▶ name, labels, age, JSON
//! GET      ──▶ Shown::Fetched ┘
//! ```

use std::borrow::Cow;

use kinform::Obj;
use kinform_api::FieldPath;
use kube_core::DynamicObject;
use serde_json::Value;

use crate::exit::Failure;

/// An object to print.
pub(crate) enum Shown {
    Cached(Obj<DynamicObject>),
    Fetched(Value),
}

impl Shown {
    /// An object as a server sent it. Its managed fields are left out, as a cache leaves them out.
    pub(crate) fn fetched(mut object: Value) -> Self {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        Self::Fetched(object)
    }

    fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
        let field = object.get("metadata").and_then(|it| it.get(field));
        field.and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Cached(object) => object.name(),
            Self::Fetched(object) => Self::metadata(object, "name"),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Cached(object) => object.namespace().unwrap_or_default(),
            Self::Fetched(object) => Self::metadata(object, "namespace"),
        }
    }

    pub(crate) fn uid(&self) -> &str {
        match self {
            Self::Cached(object) => object.uid(),
            Self::Fetched(object) => Self::metadata(object, "uid"),
        }
    }

    pub(crate) fn version(&self) -> &str {
        match self {
            Self::Cached(object) => object.resource_version(),
            Self::Fetched(object) => Self::metadata(object, "resourceVersion"),
        }
    }

    /// The time of creation, if it is there.
    pub(crate) fn created(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Cached(object) => {
                let path: FieldPath = "metadata.creationTimestamp".parse().ok()?;
                object.at(&path).ok()?.into_iter().next()
            }
            Self::Fetched(object) => Some(Self::metadata(object, "creationTimestamp").into()),
        }
    }

    /// `key=value`, each.
    pub(crate) fn labels(&self) -> Vec<String> {
        match self {
            Self::Cached(object) => {
                let labels = object.labels();
                labels
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect()
            }
            Self::Fetched(object) => {
                let labels = object
                    .pointer("/metadata/labels")
                    .and_then(Value::as_object);
                let labels = labels.into_iter().flatten();
                labels
                    .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
                    .collect()
            }
        }
    }

    /// The whole object.
    ///
    /// # Errors
    /// A stored number is out of the range of this program's JSON.
    pub(crate) fn json(&self) -> Result<Cow<'_, Value>, Failure> {
        match self {
            Self::Fetched(object) => Ok(Cow::Borrowed(object)),
            Self::Cached(object) => serde_json::from_slice(&object.to_json())
                .map(Cow::Owned)
                .map_err(|error| Failure::new(format!("{}: {error}", object.key()))),
        }
    }
}
