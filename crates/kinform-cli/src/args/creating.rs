//! The flags of the command that makes a project: `new`.
//!
//! ```text
//! argv → NewArgs
//! ```
//!
//! Names are validated in `new/names.rs`.
//!
//! Upstream counterpart: `kubebuilder init` and `kubebuilder create api` in one.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `kinform new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Name of the project, as website-operator
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// API group of the custom resource, as example.com
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: String,
    /// Kind of the custom resource, as Website
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: String,
    /// Version of the custom resource
    #[arg(long, value_name = "VERSION", default_value = "v1alpha1")]
    pub(crate) version: String,
    /// Plural of the kind, as websites (default: a guess)
    #[arg(long, value_name = "PLURAL")]
    pub(crate) plural: Option<String>,
    /// Scope of the custom resource
    #[arg(long, value_name = "SCOPE", default_value = "namespaced")]
    pub(crate) scope: Scope,
    /// Checkout of kinform to build with, and with its versions of dependencies, instead of the published crates
    #[arg(long, value_name = "DIR")]
    pub(crate) kinform_path: Option<PathBuf>,
    /// Folder of the project, missing or empty (default: NAME)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// The scope of a custom resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Objects are in namespaces
    Namespaced,
    /// Objects are in no namespace
    Cluster,
}
