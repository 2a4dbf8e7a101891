//! The type `Document`, and what both controllers ask of it.
//!
//! ```text
//! spec { title, hide, content } ─▶ status { hidden }
//! ```
//!
//! Upstream counterpart: `controller-rs:src/controller.rs` (`DocumentSpec`).

use std::time::Duration;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the controller: in events, and as a field manager.
pub const CONTROLLER: &str = "document-controller";
/// The finalizer of a document.
pub const FINALIZER: &str = "documents.ports.kinform.dev/cleanup";
/// The title that no document may have.
const ILLEGAL: &str = "illegal";

/// The desired state of a document.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "ports.kinform.dev",
    version = "v1",
    kind = "Document",
    namespaced
)]
#[kube(status = "DocumentStatus", shortname = "doc")]
pub struct DocumentSpec {
    /// Its title.
    pub title: String,
    /// It is to be hidden.
    pub hide: bool,
    /// Its text.
    pub content: String,
}

/// The observed state of a document.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct DocumentStatus {
    /// It is hidden.
    pub hidden: bool,
}

impl Document {
    /// Returns whether it is to be hidden, and is not yet.
    #[must_use]
    pub fn wants_hiding(&self) -> bool {
        self.spec.hide && !self.status.as_ref().is_some_and(|status| status.hidden)
    }

    /// Returns whether its title is one that no document may have.
    #[must_use]
    pub fn is_illegal(&self) -> bool {
        self.spec.title == ILLEGAL
    }
}

/// The pause after which a document is looked at again if nothing happens, also after a failure.
#[must_use]
pub fn check_back() -> Duration {
    unchanged::check_back(Duration::from_secs(300))
}
