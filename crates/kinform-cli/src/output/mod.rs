//! The output on stdout: data for programs, and for people.
//!
//! ```text
//! changes, objects, measurements → line (JSON) | table (padded) | diff (field by field)
//!                                  | template (JSONPath) | custom columns ──terminal.rs──▶ stdout
//! ```
//!
//! stdout is data only; progress and hints go to stderr through [`crate::progress!`]. A closed
//! stdout ends the command quietly.

pub(crate) mod change;
pub(crate) mod custom_columns;
pub(crate) mod diff;
pub(crate) mod line;
pub(crate) mod table;
pub(crate) mod template;
