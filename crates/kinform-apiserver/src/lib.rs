//! A Kubernetes-compatible API server that runs inside your process.
//!
//! ```text
//!  sockets, TLS ─┐                       ┌─ read: get, list, watch ──────────────────┐
//!                ├─▶ router: journal, ──▶├─ write: propose, complete, commit ────────┼─▶ storage: revision, log,
//!  Service ──────┘   faults, access      ├─ actions: eviction, logs, tokens          │   snapshots
//!                                        └─ discovery, OpenAPI                       │
//!                    router ──what was written──▶ controllers: namespaces, garbage ──┘
//! ```
//!
//! Rooms import downwards only; `cargo xtask map` draws them, `cargo xtask tidy` holds their ranks.
//!
//! The server keeps everything in memory, in the order of one global revision, and serves it as a
//! real API server does: lists at a version, pages, watches with bookmarks, initial events,
//! selectors, expired versions, conflicts. Its replies are compared with recordings of a real
//! server. It never reads from a cluster, runs no workloads, and loses its state when it is
//! dropped, unless it has a folder (feature `disk`).
//!
//! Tests hold a [`Server`], inject faults by [`Server::faults`], and read the requests of clients
//! from [`Server::journal`]. Clients in the same process use [`Server::service`], which takes the
//! same path as sockets, and work under paused time.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use kinform_apiserver::Server;
//!
//! let server = Server::builder().in_process();
//! let request = http::Request::get("/api/v1/pods").body(bytes::Bytes::new()).unwrap();
//! let reply = server.service().call(request).await;
//! assert_eq!(reply.status(), 200);
//! # }
//! ```
//!
//! Upstream: `kubernetes/apiserver`.

mod access;
mod actions;
mod admin;
mod admission;
mod api;
mod budget;
mod builtin;
mod clock;
mod columns;
mod controllers;
mod conversion;
mod definition;
mod der;
mod digest;
mod discovery;
mod encode;
mod fault;
mod hooks;
mod http;
mod journal;
mod kubelets;
mod manifest;
mod object;
mod openapi;
mod ownership;
mod protobuf;
mod random;
mod read;
mod resource;
mod schema;
mod seed;
mod server;
mod state;
mod storage;
mod write;

pub use crate::resource::{Found, Origin, Registry, ResourceInfo, Subresource};
pub use crate::state::feature_gates::{FeatureGate, FeatureGates, InvalidFeatureGates};
pub use crate::state::plugins::{AdmissionPlugins, UnknownPlugin};
pub use crate::state::pod_logs::PodLogs;
pub use crate::storage::shelf_name;
pub use access::{TokenFileError, User};
pub use admin::InvalidRule;
pub use admission::cel::{ConditionFailure, InvalidCondition, ObjectCondition};
pub use fault::{Fault, FaultRule, Faults, WatchLag};
pub use http::body::{Body, CutOff};
pub use http::yaml::{DuplicateKey, YamlDocument, YamlError, parse_yaml, write_yaml};
pub use journal::{Journal, Record};
pub use manifest::{MANIFEST_STACK, creation_order, flatten_lists, parse_documents};
pub use seed::Seed;
#[cfg(feature = "disk")]
pub use server::data_dir::DataDir;
pub use server::{Builder, ClientCertificate, Error, Server, Service, Stopped};
#[cfg(feature = "disk")]
pub use storage::disk::folder::SyncMode;
pub use storage::{
    Committed, Draft, Event, Expect, HistoryLimits, Mismatch, OutOfReach, SelectableField, Shelf,
    ShelfEvent, Snapshot, Store, Stored, View,
};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
