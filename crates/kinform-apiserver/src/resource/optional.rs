//! Built-in resources that a real server serves only with `--runtime-config`.
//!
//! ```text
//! Builder::with_lease_candidates -> Registry: coordination.k8s.io/v1beta1 after v1
//! ```
//!
//! The recorded discovery of a server with default flags does not list them, so they are facts here.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/coordination/rest/storage_coordination.go`.

use std::sync::{Arc, LazyLock, PoisonError};

use kinform_schema::{GroupVersion, Resource};

use super::{Registry, Table, builtin};
use crate::storage::Store;

static LEASE_CANDIDATES: LazyLock<Resource> = LazyLock::new(|| Resource {
    group_version: GroupVersion {
        group: "coordination.k8s.io",
        version: "v1beta1",
    },
    plural: "leasecandidates",
    singular: "leasecandidate",
    kind: "LeaseCandidate",
    is_namespaced: true,
    verbs: vec![
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ],
    short_names: Vec::new(),
    categories: Vec::new(),
    // The first bytes of the SHA-256 of coordination.k8s.io/v1beta1/LeaseCandidate.
    storage_version_hash: "lvME0iHWE20=",
    subresources: Vec::new(),
});

impl Registry {
    /// Serves `leasecandidates`, whose objects `store` holds. A second time changes nothing.
    pub(crate) fn serve_lease_candidates(&self, store: &Store) {
        let facts: &'static Resource = &LEASE_CANDIDATES;
        let _changing = self.change();
        let mut entries = self.entries().to_vec();
        let is_one = |entry: &Arc<super::ResourceInfo>| entry.plural == facts.plural;
        if entries
            .iter()
            .any(|entry| !entry.is_custom() && is_one(entry))
        {
            return;
        }
        let Some(info) = builtin(store, facts) else {
            return;
        };
        let leases = entries.iter().rposition(|entry| entry.group == info.group);
        let at = leases.map_or(entries.len(), |at| at + 1);
        entries.insert(at, Arc::new(info));
        let table = Arc::new(Table::new(entries));
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }
}
