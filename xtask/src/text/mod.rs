//! The repository's files as text, below the tasks that check them.
//!
//! ```text
//! disk ──file──▶ File ──source──▶ masked code ──tokens──▶ words, signs        tidy.toml ──settings──▶ entries
//! ```
//!
//! Only `file.rs` reads the disk.

pub(crate) mod file;
pub(crate) mod settings;
pub(crate) mod source;
pub(crate) mod tokens;
