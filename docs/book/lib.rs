//! The book's chapters as documentation tests: each block of Rust is compiled, and run if it can be.
//!
//! ```text
//! src/NAME.md ──include_str──▶ a module's documentation ──rustdoc──▶ tests
//! ```
//!
//! There is no library here. Edition 2024 makes one binary of all blocks.

/// A module for each chapter with blocks of Rust.
macro_rules! chapters {
    ($($name:ident = $path:literal),* $(,)?) => {
        $(#[cfg(doctest)]
        #[doc = include_str!($path)]
        mod $name {})*
    };
}

chapters! {
    crds = "src/crds.md",
    failure_modes = "src/failure-modes.md",
    first_controller = "src/first-controller.md",
    first_informer = "src/first-informer.md",
    from_client_go = "src/from-client-go.md",
    from_kube_runtime = "src/from-kube-runtime.md",
    how_informers_work = "src/how-informers-work.md",
    indexes_and_reads = "src/indexes-and-reads.md",
    leader_election = "src/leader-election.md",
    many_clusters = "src/many-clusters.md",
    memory = "src/memory.md",
    own_writes = "src/own-writes.md",
    queues = "src/queues.md",
    sharding_and_restarts = "src/sharding-and-restarts.md",
    sixty_seconds = "src/sixty-seconds.md",
    testing = "src/testing.md",
    webhooks = "src/webhooks.md",
    what_handlers_hear = "src/what-handlers-hear.md",
    with_your_cluster = "src/with-your-cluster.md",
    writing_objects = "src/writing-objects.md",
}
