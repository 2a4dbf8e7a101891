//! The binary, as scripts and newcomers meet it.
//!
//! ```text
//! kinform (a process) ⇄ embedded server (in the test) | something that is no API server
//! ```
#![expect(clippy::unwrap_used, reason = "tests may unwrap")]

mod book;
mod command;
mod connection;
mod demo;
mod discovery;
mod doctor;
mod fake_server;
mod get;
mod killed;
mod looking;
mod made;
mod manifests;
mod meddler;
mod new;
mod newcomers;
mod plugin;
mod pseudo_terminal;
mod rbac;
mod recording;
mod rounds;
mod screen;
mod serve;
mod terminal;
mod top;
mod wait;
mod watch;
mod why;
