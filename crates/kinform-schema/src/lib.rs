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
//! * `types.rs`: types and their fields; `resource.rs`: served resources; `parse.rs`: the data's
//!   grammar; `lookup.rs`: look-ups by name; `path.rs`: paths in a kind.
//!
//! Everything that the table returns lives for ever (`&'static`). The first look-up parses the
//! table, some 6,000 lines, in about a millisecond; later ones hash or scan a few names.
//!
//! Upstream: the Go struct tags of `kubernetes/api`, `kubernetes/apiextensions-apiserver` and
//! `kubernetes/kube-aggregator`; a real server's discovery.

mod lookup;
mod parse;
mod path;
mod resource;
mod types;

pub use lookup::{builtin, group_versions, kinds, named_type, numbered_type, resource, resources};
pub use path::{PathAnswer, PathSegment, knows_path};
pub use resource::{GroupVersion, Resource, Subresource};
pub use types::{Container, Field, FieldType, PatchStrategy, Topology, Type};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
