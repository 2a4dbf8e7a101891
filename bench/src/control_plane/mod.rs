//! The cost of the embedded server and its controllers: Deployments, writes, webhooks.
//!
//! ```text
//! control_plane (the bench) ─HTTPS─▶ kinform serve [--controllers] [--data-dir ..]   a process of its own
//!                           │    └─▶ or another server, by its kubeconfig
//!                           └─ a webhook in the bench ◀─HTTPS─ the server
//! ```
//!
//! The server is the command line's program, as users run it. Its CPU time and memory are read from
//! the system; the bench's are not counted.

pub mod creates;
pub mod deployments;
pub mod hooks;
pub mod served;
