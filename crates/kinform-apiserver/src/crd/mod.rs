//! Custom resource definitions: from a definition to resources that are served.
//!
//! ```text
//! definition -> checked, defaulted -> settle(step by step) -> Established -> resources_of
//!            -> deleted -> objects removed -> finalizer removed
//! ```
//!
//! * `definition.rs`: the definition as an object: defaults, errors, what it makes served;
//! * `life.rs`: its conditions, one step at a time, as upstream's controllers write them;
//! * `structural.rs`: pruning and defaulting by a schema; `validate.rs`: what a schema refuses.
//!
//! Not done: conversion by webhooks, CEL rules, `pattern`, printer columns.
//!
//! Upstream: `kubernetes/apiextensions-apiserver`.

pub(crate) mod definition;
pub(crate) mod life;
pub(crate) mod structural;
pub(crate) mod validate;
