//! The known bugs that can be put back.
//!
//! ```text
//! MUTANTS ──name──▶ `mutant!("B6")` in the sources, `fn b6_..` in the tests of these packages
//! ```
//!
//! One row a bug: B and D are those that informers or queues shipped with, C mistakes that only some
//! schedules show, E those of events, H those of sharding, K mistakes that features of this engine's
//! own could have, L of a leader election, Q of a queue, R those of reading own writes and of fresh
//! views, S those of a server. A row without a seam, a seam without a row, and a row without a test
//! of its name fail this file's test. Sorted by name.

/// A known bug that can be put back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutant {
    /// The name that `mutant!` asks for; tests named after it begin with it in lower case.
    pub(crate) name: &'static str,
    /// The report of the bug, or the feature that could have it.
    pub(crate) seen: &'static str,
    /// The mistake that it puts back.
    pub(crate) mistake: &'static str,
    /// The packages with tests that are run, in this order.
    pub(crate) packages: &'static [&'static str],
}

const CORE: &[&str] = &["kinform-core", "kinform", "kinform-testkit"];

const MACHINES: &[&str] = &["kinform-core"];

const SHELL: &[&str] = &["kinform", "kinform-testkit"];

const OPERATOR: &[&str] = &["kinform-operator"];

const SERVER: &[&str] = &["kinform-apiserver"];

/// The package of the scenarios that run under a scheduler.
pub(crate) const SCHEDULES: &str = "schedules";

const SCHEDULED: &[&str] = &[SCHEDULES];

/// All of them.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "B1",
        seen: "kubernetes#27004",
        mistake: "a delete is dropped while the add of its object waits in the queue",
        packages: CORE,
    },
    Mutant {
        name: "B2",
        seen: "kubernetes#83810",
        mistake: "an item of a list is skipped while a delete of it waits in the queue",
        packages: CORE,
    },
    Mutant {
        name: "B3",
        seen: "kubernetes#115658",
        mistake: "a relist deletes only what was in the store, not what was in the queue",
        packages: CORE,
    },
    Mutant {
        name: "B4",
        seen: "kubernetes#133565",
        mistake: "another uid under the same name is an update",
        packages: CORE,
    },
    Mutant {
        name: "B5",
        seen: "kube-runtime's watcher",
        mistake: "what a relist lacks leaves the store, and no handler hears it",
        packages: CORE,
    },
    Mutant {
        name: "B6",
        seen: "kube#1524, kube#1525",
        mistake: "pages of a list after the first are not read",
        packages: CORE,
    },
    Mutant {
        name: "B7",
        seen: "kubernetes-client (fabric8)#3318",
        mistake: "a change that a relist found is stored, and no handler hears it",
        packages: CORE,
    },
    Mutant {
        name: "B8",
        seen: "falcosecurity/k8s-metacollector#188",
        mistake: "the version is read where a transform may have erased it",
        packages: CORE,
    },
    Mutant {
        name: "B9",
        seen: "kubernetes#134928",
        mistake: "an object that failed is dropped in silence, and the version moves on",
        packages: CORE,
    },
    Mutant {
        name: "B10",
        seen: "kube#774, kube#2061",
        mistake: "the version moves past an object that cannot be read, and nobody is told",
        packages: CORE,
    },
    Mutant {
        name: "B13",
        seen: "kubernetes#73845, etcd#15271",
        mistake: "events that are said again are believed again",
        packages: CORE,
    },
    Mutant {
        name: "B14",
        seen: "kubernetes#59848",
        mistake: "a list below what was seen before is taken from a lagging replica",
        packages: CORE,
    },
    Mutant {
        name: "B15",
        seen: "kubernetes#107133",
        mistake: "a version too large for the server is asked for again, for ever",
        packages: CORE,
    },
    Mutant {
        name: "B16",
        seen: "kubernetes#140890",
        mistake: "a streaming list whose end bookmark does not come is asked for again, for ever",
        packages: CORE,
    },
    Mutant {
        name: "B17",
        seen: "kube#1844, kube#1882",
        mistake: "a watch that is reopened asks for all initial events again",
        packages: CORE,
    },
    Mutant {
        name: "B18",
        seen: "kube#1042",
        mistake: "history that expired at the start of a watch is asked for again, for ever",
        packages: CORE,
    },
    Mutant {
        name: "B19",
        seen: "client-go#374, kubernetes#87615",
        mistake: "a peer that vanished is noticed by nobody: no keepalive",
        packages: SHELL,
    },
    Mutant {
        name: "B20",
        seen: "kube#1798",
        mistake: "a watch that is silent for hours is not reopened",
        packages: CORE,
    },
    Mutant {
        name: "B22",
        seen: "fabric8 kubernetes-client#6379, kyverno#13862",
        mistake: "expired history ends the watcher for good",
        packages: CORE,
    },
    Mutant {
        name: "B23",
        seen: "srelens#595",
        mistake: "what fails is asked for again without a wait",
        packages: CORE,
    },
    Mutant {
        name: "B24",
        seen: "kube#1897",
        mistake: "jitter is ignored",
        packages: CORE,
    },
    Mutant {
        name: "B25",
        seen: "kube#925, emberstack/kubernetes-reflector#696",
        mistake: "a queue that was full once takes nothing any more",
        packages: SHELL,
    },
    Mutant {
        name: "B26",
        seen: "kube#375, kube#1322",
        mistake: "a key given back is ready, and nobody who waits is woken",
        packages: SHELL,
    },
    Mutant {
        name: "B27",
        seen: "kubernetes#136509, kubernetes#137282",
        mistake: "handlers run under the lock that adding a handler takes",
        packages: SHELL,
    },
    Mutant {
        name: "B28",
        seen: "kubernetes#141079",
        mistake: "a drain returns while keys are queued, if none is in work",
        packages: CORE,
    },
    Mutant {
        name: "B29",
        seen: "controller-runtime#3363",
        mistake: "the lowest priority that is ready comes first",
        packages: CORE,
    },
    Mutant {
        name: "B30",
        seen: "kubernetes#68179",
        mistake: "a resync is told whole before what has just happened",
        packages: CORE,
    },
    Mutant {
        name: "B31",
        seen: "kubernetes#43605, kubernetes#109115",
        mistake: "an object stays under old values in an index that has none for it now",
        packages: CORE,
    },
    Mutant {
        name: "B32",
        seen: "client-go#1167",
        mistake: "the task of a handler that is removed stays for ever",
        packages: SHELL,
    },
    Mutant {
        name: "B33",
        seen: "client-go: pendingNotifications",
        mistake: "what a slow handler has not heard is kept without a bound",
        packages: CORE,
    },
    Mutant {
        name: "B35",
        seen: "kube-runtime's controller",
        mistake: "a handler's panic ends the task that calls it",
        packages: SHELL,
    },
    Mutant {
        name: "B43",
        seen: "kube#1630",
        mistake: "a late handler goes on from the newest position, not from that of what it was told",
        packages: CORE,
    },
    Mutant {
        name: "C1",
        seen: "publishing: the end of the ring before its root",
        mistake: "a handler hears of a change that is not stored yet",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C2",
        seen: "late handlers: the root before the ring is held",
        mistake: "the batches between a handler's first root and its cursor are dropped",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C3",
        seen: "kubernetes#141079",
        mistake: "a drain waits from a moment after its look: the last wake-up is lost",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C4",
        seen: "kube#375",
        mistake: "a handler marks a wake-up as seen after it has looked: the last batch is lost",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C5",
        seen: "removal of handlers while they are called",
        mistake: "a removal returns while a call is under way",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C6",
        seen: "requests: their end by a message",
        mistake: "a request looks at its term before it listens: the end is lost",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C7",
        seen: "cilium#42920",
        mistake: "a request goes on after its term until a timer fires",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C8",
        seen: "waits for a key that are given up",
        mistake: "a wait that is given up keeps the wake-up that it got",
        packages: SCHEDULED,
    },
    Mutant {
        name: "C9",
        seen: "memory orderings",
        mistake: "a handler's claim on the ring is not ordered before its look at the root",
        packages: SCHEDULED,
    },
    Mutant {
        name: "D1",
        seen: "kube-runtime's shared streams",
        mistake: "a stream that was woken and finds nothing is never woken again",
        packages: SHELL,
    },
    Mutant {
        name: "D4",
        seen: "kube-runtime 5.0 src/watcher.rs",
        mistake: "each attempt starts the backoff anew",
        packages: CORE,
    },
    Mutant {
        name: "D5",
        seen: "kube-runtime 5.0 src/watcher.rs",
        mistake: "a watch that ends is reopened at once, also if it ended at once",
        packages: CORE,
    },
    Mutant {
        name: "D6",
        seen: "kube-runtime 5.0 src/watcher.rs",
        mistake: "all watches last equally long",
        packages: CORE,
    },
    Mutant {
        name: "D7",
        seen: "kube-core 5.0 src/params.rs",
        mistake: "version 0 is not sent beside a limit",
        packages: CORE,
    },
    Mutant {
        name: "D8",
        seen: "kube-runtime 5.0 src/watcher.rs",
        mistake: "a streaming list always starts from any state",
        packages: CORE,
    },
    Mutant {
        name: "D9",
        seen: "kube#1042",
        mistake: "a version too large at the start of a watch is asked for again, for ever",
        packages: CORE,
    },
    Mutant {
        name: "D10",
        seen: "kube#1748",
        mistake: "a continue token that expired begins with page one again, in pages",
        packages: CORE,
    },
    Mutant {
        name: "D11",
        seen: "kube#774, kube#2061",
        mistake: "one item that cannot be read fails its whole list",
        packages: CORE,
    },
    Mutant {
        name: "D14",
        seen: "kube-runtime's scheduler",
        mistake: "keys that wait come out in another order than they were added",
        packages: CORE,
    },
    Mutant {
        name: "D15",
        seen: "kube-runtime's controller",
        mistake: "a reconcile's panic ends its worker",
        packages: SHELL,
    },
    Mutant {
        name: "D16",
        seen: "kube-client 5.0 src/client/mod.rs",
        mistake: "contents of objects are logged",
        packages: SHELL,
    },
    Mutant {
        name: "D17",
        seen: "kube-client 5.0 src/client/retry.rs",
        mistake: "the client retries 429, 503 and 504 by itself, for minutes",
        packages: SHELL,
    },
    Mutant {
        name: "E1",
        seen: "fluxcd/kustomize-controller#1621",
        mistake: "an object's version is in the key of its events, so no series forms",
        packages: SHELL,
    },
    Mutant {
        name: "E2",
        seen: "recorders without a correlator",
        mistake: "events that differ in their message only are never combined",
        packages: SHELL,
    },
    Mutant {
        name: "E3",
        seen: "client-go's events of events.k8s.io",
        mistake: "another note is lost in the series of the first one",
        packages: SHELL,
    },
    Mutant {
        name: "E4",
        seen: "client-go's events of events.k8s.io",
        mistake: "the count of a series is not told at its end",
        packages: SHELL,
    },
    Mutant {
        name: "H1",
        seen: "sharding: a watch that stalls",
        mistake: "a member that was not heard of for a lease duration counts as dead, without a write at its version",
        packages: MACHINES,
    },
    Mutant {
        name: "H2",
        seen: "sharding: a paused process",
        mistake: "queues of a term that is over by the clock stay open until a message says so",
        packages: MACHINES,
    },
    Mutant {
        name: "H3",
        seen: "sharding: hand-over",
        mistake: "a shard is released while its work still runs",
        packages: MACHINES,
    },
    Mutant {
        name: "H4",
        seen: "sharding: a member that came back",
        mistake: "a new term of a member owns the shards of the last one",
        packages: MACHINES,
    },
    Mutant {
        name: "H5",
        seen: "sharding: watch lag",
        mistake: "a term that a shard names, and that the watch of members has not told of, counts as dead",
        packages: MACHINES,
    },
    Mutant {
        name: "H6",
        seen: "sharding: a lost reply",
        mistake: "a shard is opened again when its release had no answer",
        packages: MACHINES,
    },
    Mutant {
        name: "H7",
        seen: "sharding: hand-over",
        mistake: "a shard is claimed before the informers have its range",
        packages: MACHINES,
    },
    Mutant {
        name: "H8",
        seen: "sharding: hand-over",
        mistake: "a member hands over all claimed shards at once",
        packages: MACHINES,
    },
    Mutant {
        name: "H9",
        seen: "sharding: stop",
        mistake: "a member that stops keeps its shards",
        packages: MACHINES,
    },
    Mutant {
        name: "H10",
        seen: "sharding: watch lag",
        mistake: "a lease that is older than what is known is believed",
        packages: MACHINES,
    },
    Mutant {
        name: "H11",
        seen: "sharding: hands on leases",
        mistake: "the term of a lease that was deleted is dead at once",
        packages: MACHINES,
    },
    Mutant {
        name: "H12",
        seen: "sharding: distribution",
        mistake: "members have up to the ceiling of their part, and some have none",
        packages: MACHINES,
    },
    Mutant {
        name: "H13",
        seen: "sharding: informers",
        mistake: "an object that leaves an informer's ranges is a deletion for a handler that is behind",
        packages: MACHINES,
    },
    Mutant {
        name: "H14",
        seen: "sharding: informers",
        mistake: "a store claims a range that is wanted before it was listed",
        packages: MACHINES,
    },
    Mutant {
        name: "H15",
        seen: "sharding: a million seeds of the model",
        mistake: "a lease that a late read did not find is never known again",
        packages: MACHINES,
    },
    Mutant {
        name: "H16",
        seen: "sharding: a million seeds of the model",
        mistake: "a claim of the running term is not taken up after the shard was lost",
        packages: MACHINES,
    },
    Mutant {
        name: "H17",
        seen: "sharding: a million seeds of the model",
        mistake: "a shard is released although its claim was taken back while its work drained",
        packages: MACHINES,
    },
    Mutant {
        name: "K1",
        seen: "own features: audit",
        mistake: "what the server no longer has is no difference",
        packages: CORE,
    },
    Mutant {
        name: "K2",
        seen: "own features: audit",
        mistake: "a difference is reported and not repaired",
        packages: SHELL,
    },
    Mutant {
        name: "K3",
        seen: "own features: overlay",
        mistake: "a write covers the cache after the cache has passed it",
        packages: SHELL,
    },
    Mutant {
        name: "K4",
        seen: "own features: own writes",
        mistake: "a second write for a key is waited for in place of the first",
        packages: SHELL,
    },
    Mutant {
        name: "K5",
        seen: "own features: cold objects",
        mistake: "objects that came before the dictionary stay uncompressed",
        packages: CORE,
    },
    Mutant {
        name: "K6",
        seen: "own features: namespaces",
        mistake: "a namespace that comes later has none of the indexes of its informer",
        packages: SHELL,
    },
    Mutant {
        name: "K7",
        seen: "own features: namespaces",
        mistake: "a namespace is removed, and no handler hears it",
        packages: SHELL,
    },
    Mutant {
        name: "K8",
        seen: "own features: definitions",
        mistake: "a type whose definition is removed is never asked for again",
        packages: CORE,
    },
    Mutant {
        name: "K9",
        seen: "own features: protobuf",
        mistake: "fields in an unusual order are read as if they were in the usual one",
        packages: CORE,
    },
    Mutant {
        name: "K10",
        seen: "own features: protobuf",
        mistake: "a message that comes in two parts is the last part",
        packages: CORE,
    },
    Mutant {
        name: "K11",
        seen: "own features: protobuf",
        mistake: "a text that is empty is left out, also where Go writes it",
        packages: CORE,
    },
    Mutant {
        name: "K12",
        seen: "own features: protobuf",
        mistake: "of several managers only the last entry of managedFields is left out",
        packages: CORE,
    },
    Mutant {
        name: "K13",
        seen: "own features: backlogs",
        mistake: "a handler that never returns has no backlog",
        packages: SHELL,
    },
    Mutant {
        name: "K14",
        seen: "servers that stream their end bookmark alone",
        mistake: "an empty streaming list is believed, and what was stored is deleted",
        packages: CORE,
    },
    Mutant {
        name: "K15",
        seen: "proxies that keep a dead watch alive",
        mistake: "bytes that make no event count as progress of a watch",
        packages: CORE,
    },
    Mutant {
        name: "K16",
        seen: "operator-framework's packagemanifests",
        mistake: "of items of one name in a list the last is stored, and nobody hears of the others",
        packages: CORE,
    },
    Mutant {
        name: "K17",
        seen: "own features: a limit of requests",
        mistake: "requests beyond the limit are sent at once",
        packages: SHELL,
    },
    Mutant {
        name: "K18",
        seen: "own features: protobuf",
        mistake: "an object with a text that is not UTF-8 is quarantined",
        packages: CORE,
    },
    Mutant {
        name: "K20",
        seen: "tigera/operator#4492",
        mistake: "a finalizer's patch does not test the list",
        packages: SHELL,
    },
    Mutant {
        name: "K21",
        seen: "opendatahub-io/kserve#1777",
        mistake: "a finalizer's patch does not test the uid",
        packages: SHELL,
    },
    Mutant {
        name: "K22",
        seen: "konflux-ci/konflux-ci#5874",
        mistake: "a status is written although it is the same",
        packages: SHELL,
    },
    Mutant {
        name: "K23",
        seen: "kubernetes#138743",
        mistake: "a permanent error is retried, and its failures are remembered",
        packages: SHELL,
    },
    Mutant {
        name: "K24",
        seen: "the simulation: a storage that was restored",
        mistake: "an event is compared with a version of a history that is over",
        packages: CORE,
    },
    Mutant {
        name: "K25",
        seen: "own features: a controller's first lists",
        mistake: "workers begin before the handlers have heard the first lists",
        packages: SHELL,
    },
    Mutant {
        name: "K26",
        seen: "the simulation: a storage that was restored while a cache was away",
        mistake: "a cache that finds that the server went back tells no other cache",
        packages: CORE,
    },
    Mutant {
        name: "K27",
        seen: "the simulation: a healing event that was lost",
        mistake: "an audit leaves out what is in quarantine, whatever version the server has",
        packages: CORE,
    },
    Mutant {
        name: "K28",
        seen: "resyncs of several handlers",
        mistake: "a handler is resynced once, and never again",
        packages: MACHINES,
    },
    Mutant {
        name: "K29",
        seen: "own features: silence of a watch",
        mistake: "watches that bring nothing while the server moves on are opened again for ever",
        packages: CORE,
    },
    Mutant {
        name: "L1",
        seen: "client-go: renew deadline",
        mistake: "a term is counted from the answer of its write, not from the send time",
        packages: MACHINES,
    },
    Mutant {
        name: "L2",
        seen: "client-go: lease and renew deadline",
        mistake: "a term lasts as long as its lease: no reserve for requests and clocks",
        packages: MACHINES,
    },
    Mutant {
        name: "L3",
        seen: "client-go: no watch of the lease",
        mistake: "a leader goes on after its lease was deleted",
        packages: MACHINES,
    },
    Mutant {
        name: "L4",
        seen: "client-go: renew round",
        mistake: "a leader that reads another holder goes on leading",
        packages: MACHINES,
    },
    Mutant {
        name: "L5",
        seen: "kubernetes#23731",
        mistake: "a term outlives a suspension until its timer fires",
        packages: MACHINES,
    },
    Mutant {
        name: "L6",
        seen: "leader election: wait",
        mistake: "the wait for a lease is counted from the first observation of its holder",
        packages: MACHINES,
    },
    Mutant {
        name: "L7",
        seen: "leader election: deletion",
        mistake: "a deleted lease is created again while its holder may still act",
        packages: MACHINES,
    },
    Mutant {
        name: "L8",
        seen: "kubernetes#139991",
        mistake: "a lease is released while work of its term runs",
        packages: MACHINES,
    },
    Mutant {
        name: "L9",
        seen: "leader election: lost answers",
        mistake: "a write without an answer counts as not stored",
        packages: MACHINES,
    },
    Mutant {
        name: "L10",
        seen: "leader election: watch lag",
        mistake: "an event of the watch that is older than what is known is believed",
        packages: MACHINES,
    },
    Mutant {
        name: "L11",
        seen: "leader election: guard",
        mistake: "a guarded request that began during a term goes on after it",
        packages: OPERATOR,
    },
    Mutant {
        name: "L12",
        seen: "client-go: LeaseLock",
        mistake: "an update of the lease drops labels and annotations of others",
        packages: OPERATOR,
    },
    Mutant {
        name: "L13",
        seen: "leader election: a late thread",
        mistake: "a term goes on until a message ends it",
        packages: OPERATOR,
    },
    Mutant {
        name: "L14",
        seen: "leader election: fence",
        mistake: "two terms of one process share their number",
        packages: MACHINES,
    },
    Mutant {
        name: "L15",
        seen: "leader election: fence",
        mistake: "a write under a hard fence does not carry its term",
        packages: OPERATOR,
    },
    Mutant {
        name: "L16",
        seen: "leader election: fence",
        mistake: "a delete under a hard fence does not name the version of the stamped object",
        packages: OPERATOR,
    },
    Mutant {
        name: "L17",
        seen: "leader election: fence",
        mistake: "a status under a hard fence does not name the version of the stamped object",
        packages: OPERATOR,
    },
    Mutant {
        name: "L18",
        seen: "leader election: coordinator",
        mistake: "a lease that a coordinator hands over early is taken at once",
        packages: MACHINES,
    },
    Mutant {
        name: "L19",
        seen: "sharding: a million seeds of the model",
        mistake: "a term goes on in another lease of its name, which a late create of ours made",
        packages: MACHINES,
    },
    Mutant {
        name: "Q1",
        seen: "controller-runtime#1720, rancher/fleet#3239",
        mistake: "an event that comes in between takes a wake-up time away",
        packages: MACHINES,
    },
    Mutant {
        name: "Q2",
        seen: "controller-runtime#3496, home-operations/miroir#122",
        mistake: "a hot lane starves the lower ones",
        packages: CORE,
    },
    Mutant {
        name: "Q3",
        seen: "queues that all tenants share",
        mistake: "a group keeps its turn for as long as it has keys",
        packages: MACHINES,
    },
    Mutant {
        name: "Q4",
        seen: "fair queues",
        mistake: "a group is dropped while keys wait in it",
        packages: MACHINES,
    },
    Mutant {
        name: "Q5",
        seen: "controller-runtime#3157",
        mistake: "the priority of a key is lost when it is tried again",
        packages: MACHINES,
    },
    Mutant {
        name: "Q6",
        seen: "loops: status that follows what others do",
        mistake: "runs that own events caused and that write nothing count as a loop",
        packages: MACHINES,
    },
    Mutant {
        name: "Q7",
        seen: "loops: a reconcile that goes on step by step",
        mistake: "own writes are a loop whatever their values",
        packages: MACHINES,
    },
    Mutant {
        name: "Q8",
        seen: "fights: one busy writer",
        mistake: "a field that one writer flips is a fight",
        packages: MACHINES,
    },
    Mutant {
        name: "Q9",
        seen: "causes: own echoes",
        mistake: "an add that the program asked for is taken back with the events of own writes",
        packages: MACHINES,
    },
    Mutant {
        name: "R1",
        seen: "Ctx::require_fresh",
        mistake: "each caller asks the server by itself",
        packages: SHELL,
    },
    Mutant {
        name: "R2",
        seen: "Ctx::require_fresh",
        mistake: "a cache counts as fresh once the server has answered",
        packages: SHELL,
    },
    Mutant {
        name: "R3",
        seen: "Ctx::require_fresh",
        mistake: "a stale view counts as a failure and backs off",
        packages: SHELL,
    },
    Mutant {
        name: "R4",
        seen: "Controller::destructive_needs_fresh",
        mistake: "deletes are sent on a view that may be stale",
        packages: SHELL,
    },
    Mutant {
        name: "R5",
        seen: "a released lease",
        mistake: "the last writes that an older release told are believed",
        packages: OPERATOR,
    },
    Mutant {
        name: "R6",
        seen: "a released lease",
        mistake: "a successor works before its caches have the last term's writes",
        packages: OPERATOR,
    },
    Mutant {
        name: "R7",
        seen: "Ctx::apply",
        mistake: "an apply is not sent though somebody else changed the object",
        packages: SHELL,
    },
    Mutant {
        name: "R8",
        seen: "the simulation: a copy made twice behind a connection that was dead",
        mistake: "only the first run after the wait for own writes is told that it may lack them",
        packages: SHELL,
    },
    Mutant {
        name: "R9",
        seen: "the simulation: a copy that came and went while no watch was open",
        mistake: "an object that no cache has had, and that is gone, is not asked for again",
        packages: SHELL,
    },
    Mutant {
        name: "R10",
        seen: "sharded replicas in trouble: a change that was the last for a while",
        mistake: "a cache that is idle is waited for until a bookmark comes",
        packages: SHELL,
    },
    Mutant {
        name: "S1",
        seen: "server: conflicts",
        mistake: "an update of an older version is written",
        packages: SERVER,
    },
    Mutant {
        name: "S2",
        seen: "server: continue tokens",
        mistake: "a next page is of the newest state, not of that of the first page",
        packages: SERVER,
    },
    Mutant {
        name: "S3",
        seen: "server: bookmarks",
        mistake: "a bookmark names a version whose events were not sent",
        packages: SERVER,
    },
    Mutant {
        name: "S4",
        seen: "server: selectors",
        mistake: "an object that leaves a selection is not deleted for its watch",
        packages: SERVER,
    },
    Mutant {
        name: "S5",
        seen: "server: finalizers",
        mistake: "a delete removes an object that has finalizers",
        packages: SERVER,
    },
    Mutant {
        name: "S6",
        seen: "server: defaults",
        mistake: "defaults of the elements of a list are not set",
        packages: SERVER,
    },
    Mutant {
        name: "S7",
        seen: "server: RBAC",
        mistake: "a binding of one namespace gives rights in all",
        packages: SERVER,
    },
    Mutant {
        name: "S8",
        seen: "server: field ownership",
        mistake: "an apply takes fields of other managers without a conflict",
        packages: SERVER,
    },
    Mutant {
        name: "S9",
        seen: "server: garbage",
        mistake: "an object is deleted with its first owner, whoever else owns it",
        packages: SERVER,
    },
    Mutant {
        name: "S10",
        seen: "server: patches",
        mistake: "the test of a JSON patch is not made",
        packages: SERVER,
    },
    Mutant {
        name: "S11",
        seen: "server: disk",
        mistake: "a write is acknowledged before it is on disk",
        packages: SERVER,
    },
    Mutant {
        name: "S12",
        seen: "server: disk",
        mistake: "what leaves the history is not deleted in the transaction that evicts it",
        packages: SERVER,
    },
    Mutant {
        name: "S13",
        seen: "server: disk",
        mistake: "a watch hears a write before it is on disk",
        packages: SERVER,
    },
    Mutant {
        name: "S14",
        seen: "server: admission",
        mistake: "validating plugins, webhooks and quotas are not asked",
        packages: SERVER,
    },
    Mutant {
        name: "S15",
        seen: "server: quotas",
        mistake: "the usage is not compared with the quota",
        packages: SERVER,
    },
    Mutant {
        name: "S16",
        seen: "server: counts of quotas",
        mistake: "what was deleted is not taken from a quota",
        packages: SERVER,
    },
    Mutant {
        name: "W1",
        seen: "own features: caches on disk",
        mistake: "a snapshot is used against a server that is older than it",
        packages: CORE,
    },
    Mutant {
        name: "W2",
        seen: "own features: caches on disk",
        mistake: "a snapshot is used although the server's newest objects are others",
        packages: CORE,
    },
    Mutant {
        name: "W3",
        seen: "own features: caches on disk",
        mistake: "a restored cache is synced before it reached the server's version",
        packages: CORE,
    },
    Mutant {
        name: "W4",
        seen: "own features: caches on disk",
        mistake: "handlers of a restored cache are told that it is synced while it is not",
        packages: CORE,
    },
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// All Rust sources of the crates.
    fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                sources(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }

    fn crates() -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        for folder in ["../crates", "../schedules"] {
            sources(
                &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
                &mut found,
            );
        }
        found.retain(|(path, _)| !path.ends_with("mutant.rs"));
        found
    }

    /// The texts between `before` and `after`.
    fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
        let parts = text.split(before).skip(1);
        parts
            .filter_map(|part| Some(part.split_once(after)?.0))
            .collect()
    }

    #[test]
    fn each_mutant_has_a_seam_and_a_test_and_each_seam_a_mutant() {
        let sources = crates();
        let seams = sources
            .iter()
            .flat_map(|(_, text)| between(text, "mutant!(\"", '"'));
        let mut seams: Vec<&str> = seams.collect();
        seams.sort_unstable();
        seams.dedup();
        let mut names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        names.sort_unstable();
        assert_eq!(seams, names);
        let tests: Vec<&str> = sources
            .iter()
            .flat_map(|(_, text)| between(text, "fn ", '('))
            .collect();
        for name in names {
            let start = format!("{}_", name.to_ascii_lowercase());
            assert!(
                tests.iter().any(|test| test.starts_with(&start)),
                "no test {start}.."
            );
        }
    }

    #[test]
    fn the_table_is_sorted_by_letter_and_number() {
        let place = |mutant: &Mutant| {
            (
                mutant.name[..1].to_owned(),
                mutant.name[1..].parse::<u32>().unwrap(),
            )
        };
        assert!(MUTANTS.is_sorted_by_key(place));
    }
}
