//! Controllers on which clients of a test server depend: they apply the consequences of a write.
//!
//! ```text
//! Written ──follow──▶ definitions settled, pods finished, namespaces drained ──garbage──▶ dependents gone
//! ```
//!
//! The router calls them after each write, before it sends the reply. So watches see the events in
//! the order in which upstream's controllers would write them.
//!
//! * `follow.rs`: the entry of the router; `effects.rs`: effects of a write by kind;
//! * `definitions.rs`: definitions that are settled and taken away; `namespace.rs`: namespaces that
//!   empty themselves; `removal.rs`: how both remove objects; `put.rs`: how objects are stored;
//! * `initial/`: the objects that every cluster has from the start; `account.rs`: the content that
//!   every namespace has; `account_token.rs`: secrets with tokens of accounts; `quota.rs`: the
//!   counts of quotas; `addresses.rs`: addresses of services as objects;
//! * `event_ttl.rs`: events that end an hour after their last write; `resume.rs`: the effects that
//!   an earlier process began;
//! * `asked.rs`, `defer.rs`: deletes of controllers about which admission is asked;
//! * `garbage/`: the garbage collector; `restore.rs`: objects as another server had them.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller`, `apiextensions-apiserver:pkg/controller`.

pub(crate) mod account;
mod account_token;
pub(crate) mod addresses;
pub(crate) mod asked;
mod defer;
pub(crate) mod definitions;
pub(crate) mod effects;
pub(crate) mod event_ttl;
pub(crate) mod follow;
pub(crate) mod garbage;
pub(crate) mod initial;
mod kinds;
pub(crate) mod namespace;
mod policy_types;
mod put;
mod quota;
mod removal;
pub(crate) mod restore;
pub(crate) mod resume;
