//! Vocabulary of Kubernetes' list and watch: no runtime, no I/O, no knowledge of any type.
//!
//! ```text
//! ObjectKey, KeyRef                              the identity of an object
//! GroupVersionResource, GroupVersionKind, ..     the type, and its URL paths
//! ListOptions, WatchOptions ──▶ query string     the request
//! selector::{LabelSelector, FieldSelector}       a selection of objects of a type
//! shards::{Ranges, ShardRange, key_hash}         a part of them, by hash
//! FieldPath, JsonPath                            a field of an object, values in it
//! ResourceVersion                                a moment of a server's history
//! WatchEventKind, Status                         the reply
//! names, FieldError                              a server's validation, and its messages
//! ```
//!
//! Every crate of kinform, client and server alike, uses these names. Texts are parsed as upstream
//! parses them, to the letter of the error message, since servers answer with these messages and
//! clients react to them; the tests compare with recordings of a real server. All input from a
//! server may be hostile: no function here panics on it or recurses without a bound.
//!
//! ```
//! use kinform_api::selector::LabelSelector;
//! use kinform_api::{GroupVersionResource, ListOptions, ObjectKey};
//!
//! let pods = GroupVersionResource::new("", "v1", "pods");
//! let options = ListOptions { limit: Some(500), ..ListOptions::default() };
//! assert_eq!(pods.path(Some("shop")), "/api/v1/namespaces/shop/pods");
//! assert_eq!(options.to_query(), "limit=500");
//!
//! let web: LabelSelector = "app=web,!canary".parse()?;
//! assert!(web.matches(|key| (key == "app").then_some("web")));
//!
//! let key: ObjectKey = "shop/cart".parse()?;
//! assert_eq!((key.namespace(), key.name()), (Some("shop"), "cart"));
//! # Ok::<(), kinform_api::Error>(())
//! ```
//!
//! Upstream: `k8s.io/apimachinery`.

mod error;
mod event;
mod field_error;
mod field_path;
mod field_selector;
mod json_path;
mod key;
mod label_parse;
mod label_selector;
#[doc(hidden)]
pub mod mutant;
pub mod names;
mod options;
mod quote;
mod resource;
pub mod shards;
#[doc(hidden)]
pub mod simulated;
mod status;
mod version;

pub use error::Error;
pub use event::{INITIAL_EVENTS_END, WatchEventKind};
pub use field_error::{FieldError, FieldErrorKind, ShownValue};
pub use field_path::{FieldPath, PathSegment};
pub use json_path::{JsonPath, JsonPathError};
pub use key::{KeyRef, ObjectKey};
pub use options::{ListOptions, VersionMatch, WatchOptions};
pub use resource::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, Scope, TypeMeta,
};
pub use status::{Status, StatusCause, StatusDetails, StatusMetadata, reason};
pub use version::ResourceVersion;

/// Selections of objects by labels and by fields.
pub mod selector {
    pub use crate::field_selector::{FieldOperator, FieldSelector, FieldTerm};
    pub use crate::label_selector::{LabelOperator, LabelSelector, Requirement};
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
