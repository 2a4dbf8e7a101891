//! Expressions in CEL: of definitions, webhooks and admission policies.
//!
//! ```text
//! text + types of its variables ──▶ Program | error        Program + values + budget ──▶ value | error
//! ```
//!
//! The interpreter is `kube-cel`. It neither checks types nor limits costs, so both are done here.
//!
//! * `program.rs`: an expression and its limits; `check.rs` `types.rs` `functions.rs`:
//!   type-checking; `tokens.rs`: positions of mistakes; `parts.rs`: the parts of an expression;
//! * `meter.rs`: the cost of running; `paid.rs`: functions that cost more than others;
//!   `mend.rs`: expressions that the interpreter would evaluate in another way than upstream;
//! * `environment.rs`: the variables of admission, and their types;
//! * `syntax.rs`: texts that are only parsed.
//!
//! Upstream: `kubernetes/apiserver:pkg/cel`, `cel-go`.

pub(crate) mod check;
pub(crate) mod environment;
pub(crate) mod functions;
pub(crate) mod mend;
pub(crate) mod meter;
pub(crate) mod paid;
pub(crate) mod parts;
pub(crate) mod program;
pub(crate) mod syntax;
pub(crate) mod tokens;
pub(crate) mod types;
