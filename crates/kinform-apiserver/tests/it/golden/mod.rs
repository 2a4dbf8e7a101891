//! The server compared with a real one: the recorded requests are sent here, with the same objects
//! stored, and the replies are compared value by value.
//!
//! ```text
//! testdata/golden ──exchanges, in an equal state──▶ differences ──▶ rows ──▶ docs/server-differences.md
//! ```
//!
//! Rows that differ on purpose are listed with their reason. A listed row that matches fails the
//! test, and so does one that is no longer recorded: no entry of the list outlives its reason.

mod apply;
mod comparison;
mod definitions;
mod discovery;
mod fresh;
mod invalid;
mod kinds;
mod life;
mod openapi;
mod protobuf;
mod reads;
mod recorded;
pub(crate) mod report;
mod rows;
mod shards;
mod streams;
mod table;
mod transcripts;
mod writes;

use recorded::Exchange;

/// Intended differences, and the reason of each.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "error/400-json.json",
        "a body is never repeated in a message: it may hold a secret",
    ),
    (
        "write/smp-order-mismatch.json",
        "a body is never repeated in a message: it may hold a secret",
    ),
    (
        "watch/pods.node.jsonl",
        "there is no kubelet to wait for: a pod with a grace period is gone at once",
    ),
    (
        "kinds/daemonset.table.json",
        "upstream keeps one annotation of daemon sets as a field, which no table shows",
    ),
    (
        "definitions/refused.status-root.json",
        "a schema that is refused is shown as it was sent, not as Go's structs",
    ),
    (
        "definitions/refused.two-storage.json",
        "versions that are refused are shown as they were sent, not as Go's structs",
    ),
    (
        "definitions/refused.no-storage.json",
        "versions that are refused are shown as they were sent, not as Go's structs",
    ),
    (
        "definitions/refused.twice-the-version.json",
        "versions that are refused are shown as they were sent, not as Go's structs",
    ),
    (
        "definitions/typs.no-kind.json",
        "a body is never repeated in a message: it may hold a secret",
    ),
    (
        "kinds/controllerrevision.meta-patch.json",
        "upstream compares the data's bytes before and after decoding; they are the same here",
    ),
    (
        "discovery/version.json",
        "the release says which build of ours it is, and that it is not written in Go",
    ),
    (
        "discovery/root.json",
        "checks of parts that are not here have no paths, nor have keys of service accounts",
    ),
    (
        "apply/refused-16.json",
        "what a parser says of malformed YAML is its own",
    ),
    (
        "apply/refused-19.json",
        "a value is never repeated in a message: it may be secret",
    ),
    (
        "apply/refused-20.json",
        "a value is never repeated in a message: it may be secret",
    ),
    (
        "apply/refused-21.json",
        "a value is never repeated in a message: it may be secret",
    ),
    (
        "kinds/flowschema.meta-patch.json",
        "a real server's own controller has said something about the schema meanwhile",
    ),
    (
        "kinds/flowschema.status.json",
        "a real server's own controller has said something about the schema meanwhile",
    ),
    (
        "life/log-bound.json",
        "a node is not looked up: there is no kubelet to ask, and the log is empty",
    ),
    (
        "life/ephemeral-again.json",
        "upstream's message shows a difference of Go structs",
    ),
    (
        "life/evict-pending-get.json",
        "there is no kubelet to wait for: a pod with a grace period is gone at once",
    ),
    (
        "life/evict-unready-ok.json",
        "there is no kubelet to wait for: it was gone after the first eviction",
    ),
    (
        "life/imp-other.json",
        "the newer rights to impersonate are named first, whatever was allowed before",
    ),
    (
        "life/imp-self-group.json",
        "the newer rights to impersonate are named first, whatever was allowed before",
    ),
    (
        "kinds/controllerrevision.table.json",
        "the change before it was refused there: the bytes of data, spaces and all, are not kept here",
    ),
    (
        "kinds/flowschema.get.pb",
        "a real server's own controller has said something about the schema meanwhile",
    ),
    (
        "kinds/flowschema.table.json",
        "a real server's own controller has said something about the schema meanwhile",
    ),
    (
        "crd/list-while-establishing-0.json",
        "a definition is served at once here; a real server takes a moment",
    ),
    (
        "crd/list-while-establishing-1.json",
        "a definition is served at once here; a real server takes a moment",
    ),
    (
        "crd/list-while-deleting-0.json",
        "the objects of a definition are gone with it here; a real server takes a moment",
    ),
    (
        "crd/watch-objects.jsonl",
        "a cache that was just made tells its version within a second; here, it is once a minute",
    ),
    (
        "kubectl/top-level-version.json#0",
        "the release says which build of ours it is, and that it is not written in Go",
    ),
    (
        "openapi/v3-index.json",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/create.json#0",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/apply-changed.json#0",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/apply-unchanged.json#0",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/apply-server-side.json#0",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/apply-deployment.json#0",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/apply-deployment-changed.json#0",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "kubectl/explain.json#2",
        "OpenAPI omits discovery itself and the service accounts' keys, which are not published",
    ),
    (
        "bookmark/apps.v1.daemonsets.json",
        "upstream keeps one annotation of daemon sets as a field, which its bookmarks have, too",
    ),
    (
        "bookmark/apps.v1.daemonsets.pb",
        "upstream keeps one annotation of daemon sets as a field, which its bookmarks have, too",
    ),
    (
        "shards/selector-035.json",
        "the parser of CEL names other tokens that it would take",
    ),
    (
        "shards/selector-045.json",
        "the parser of CEL knows no names in backticks",
    ),
    (
        "shards/selector-107.json",
        "the parser of CEL names other tokens that it would take",
    ),
    (
        "shards/selector-110.json",
        "the parser of CEL names other tokens that it would take",
    ),
    (
        "shards/selector-127.json",
        "the parser of CEL expands macros, and refuses this one earlier",
    ),
];

fn status(recorded: u16, ours: u16) -> Option<String> {
    (recorded != ours).then(|| format!("status: {recorded} / {ours}"))
}

/// Returns whether the exchange asks for a table, as kubectl does to print.
fn is_table(exchange: &Exchange) -> bool {
    exchange.accept == "application/json;as=Table;v=v1;g=meta.k8s.io"
}
