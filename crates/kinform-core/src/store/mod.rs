//! The store: one immutable root, replaced a batch at a time; everything else is the difference of
//! two roots.
//!
//! ```text
//! Root ──Edit::new──▶ Edit ──commit──▶ Root' ──SharedRoot::publish──▶ readers
//!   └───────────────────Diff────────────┘
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `root` | [`root::Root`], what readers ask; `shared` the cell that they load it from |
//! | `edit` | [`edit::Edit`], how the one writer makes the next root; indexes added while running |
//! | `diff` | [`diff::Diff`], what changed from one root to another |
//! | `past` | [`past::Past`], the newest roots by version, for reads of a state that is over |
//! | `view` | [`view::View`], a listing that owns its root |
//! | `order` | [`order::Order`], the keys of a root in their order |
//! | `state` | the data of a root or an edit |
//! | `baseline` | [`baseline::RootBaseline`], the stored objects that a list is compared with; `slot_hint` the guess at the next of them |
//! | `frontier` | where new keys of a first list wait to be entered together |
//! | `index` | [`index::Index`], what an index looks at, and its postings |
//! | `radix`, `cursor` | the persistent array below them, and how many of its values are read at once |
//! | `weight` | the memory of objects and tables |
//! | `directory`, `slots` | the persistent hash directory and slot set |
//!
//! One writer, many readers; no lock. Readers never see half a batch.
//!
//! Upstream counterpart: `client-go:tools/cache/store.go`, `thread_safe_store.go`.

pub mod baseline;
mod cursor;
pub mod diff;
pub mod directory;
pub mod edit;
mod frontier;
pub mod index;
pub mod order;
pub mod past;
mod radix;
pub mod root;
pub mod shared;
pub mod slot_hint;
mod slots;
mod state;
pub mod view;
pub(crate) mod weight;
