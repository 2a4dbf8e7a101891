//! The table of Kubernetes' built-in types: a real API server's knowledge of its own objects.
//!
//! ```text
//! data/builtins.txt -> parse (once, on first use) -> builtin(..) resource(..) field(..) knows_path(..)
//! ```
//!
//! It holds kinds, their fields (JSON name, protobuf number, type, list or map, pointer, omitempty,
//! inline, patch strategy, merge key, topology), and a server's resources (plural, scope, verbs,
//! short names, subresources). It is data with look-up only: it neither decodes nor validates, and
//! has no dependencies. The data is made by `cargo xtask schema` and never edited by hand.
//!
//! * `field.rs` and `types.rs`: fields and types; `resource.rs`: served resources; `path.rs`: paths
//!   in a kind; `parse.rs`: the data's grammar.
//!
//! Everything that the table returns lives for ever (`&'static`). The first look-up parses the
//! table, some 6,000 lines, in about a millisecond; later ones hash or scan a few names.
//!
//! Upstream: the Go struct tags of `kubernetes/api`, `kubernetes/apiextensions-apiserver` and
//! `kubernetes/kube-aggregator`; a real server's discovery.

mod field;
mod parse;
mod path;
mod resource;
mod topology;
mod types;

pub use field::{Container, Field, FieldType, PatchStrategy};
pub use path::{PathAnswer, PathSegment, knows_path};
pub use resource::{GroupVersion, Resource, Subresource, group_versions, resource, resources};
pub use topology::Topology;
pub use types::{Type, builtin, kinds, named_type, numbered_type};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
