//! The remedy for each kind of problem.
//!
//! ```text
//! kind ─▶ one line
//! ```
//!
//! docs/inspector.md has the same kinds.
//!
//! Upstream counterpart: none.

/// The kinds of problems, each with its remedy.
pub(super) const ADVICE: &[(&str, &str)] = &[
    (
        "forbidden",
        "Grant list and watch of this resource to the program; it goes on within a minute.",
    ),
    (
        "no-such-kind",
        "Install the definition of this resource, or stop asking for it; it goes on within a minute.",
    ),
    (
        "stale",
        "The cache is as old as this. See the cause; the informer tries again by itself.",
    ),
    (
        "cannot-list",
        "See the cause; the informer tries again by itself. The program waits for this cache.",
    ),
    (
        "stopped",
        "The informer was stopped: its cache does not change any more.",
    ),
    (
        "request-failed",
        "The informer tried again by itself. If it repeats, look at the server and the network.",
    ),
    (
        "fell-back",
        "Nothing to do: lists come in pages. The server, or a proxy, does not support streaming lists.",
    ),
    (
        "silent",
        "A proxy or firewall may drop idle connections: raise its idle timeout above a minute.",
    ),
    (
        "server-went-back",
        "The server was restored or replaced: everything was listed again.",
    ),
    (
        "quarantined",
        "Repair the object on the server: the cache has its last readable state, if there was one.",
    ),
    (
        "deletions-withheld",
        "Find the item without a readable name, and repair it on the server: lists tell of no deletion.",
    ),
    (
        "mended",
        "Repair the text on the server: other clients may fail on it.",
    ),
    (
        "unindexed",
        "Make the index function accept the object: lookups by this index do not find it.",
    ),
    (
        "undecodable",
        "Compare the Rust type with the object: typed reads leave the object out.",
    ),
    (
        "handler-panicked",
        "See the log for the panic. The change counts as handled.",
    ),
    (
        "handler-behind",
        "Make the handler faster: let it add keys to a queue, and do the work there.",
    ),
    (
        "slow-handler",
        "Make the handler faster: let it add keys to a queue, and do the work there.",
    ),
    (
        "diverged",
        "The cache was listed again. A proxy or a server that loses events is the likely cause.",
    ),
    (
        "store-failed",
        "See the log for the store's error. Everything is listed again.",
    ),
    (
        "reports-lost",
        "Nothing to do: other rows tell what is wrong now.",
    ),
    (
        "queue-behind",
        "Add workers, or make reconciles faster. See which keys wait, and why.",
    ),
    (
        "slow-reconcile",
        "See which key is in work. Give the controller a deadline for reconciles.",
    ),
    (
        "failing",
        "See the log for the error of this key. It is tried again, later each time.",
    ),
    (
        "loop",
        "Write only what differs, and compare what the server defaults or normalises.",
    ),
    (
        "fight",
        "Let one of the managers own the field: drop it from the other's applies.",
    ),
    (
        "hot-loop",
        "Wait for a change instead of asking for the next run at once.",
    ),
    (
        "noop-writes",
        "Compare before the write, or use apply, which is not sent if it would change nothing.",
    ),
    (
        "stale-view",
        "The cache lags behind the server. See the cache's state and the queue's rate.",
    ),
    (
        "permanent-error",
        "See the log for the error. It is tried again when the object changes.",
    ),
    (
        "reconcile-panic",
        "See the log for the panic. The key is tried again, later each time.",
    ),
    (
        "reconcile-timeout",
        "Make the reconcile faster, or raise the controller's deadline.",
    ),
    (
        "cache-not-used",
        "Nothing is lost: everything is listed. A damaged file is replaced by the next one.",
    ),
    (
        "cache-not-written",
        "See whether the directory of --cache-dir can be written, and has room.",
    ),
    (
        "memory-over-budget",
        "Raise the memory budget, or keep less: add projections, selectors or metadata-only informers.",
    ),
    (
        "memory-given-up",
        "Nothing to do: reads give the same, and cost more. Raise the memory budget if they are too slow.",
    ),
    ("standby", "Nothing to do: another replica leads."),
];

/// The remedy for a problem of this kind.
pub(super) fn advice(kind: &str) -> &'static str {
    let found = ADVICE.iter().find(|(known, _)| *known == kind);
    found.map_or("See the log for more.", |(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_problem_is_in_the_documentation() {
        let docs = include_str!("../../../../docs/inspector.md");
        for (kind, _) in ADVICE {
            assert!(docs.contains(&format!("`{kind}`")), "{kind}");
        }
    }
}
