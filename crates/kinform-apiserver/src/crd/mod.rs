//! Custom resource definitions: from a definition to resources that are served.
//!
//! ```text
//! definition -> checked, defaulted -> settle(step by step) -> Established -> resources_of
//!            -> deleted -> objects removed -> finalizer removed
//! ```
//!
//! * `definition.rs`: the definition as an object: defaults, and what it makes served; `check/`: what is
//!   wrong with it; `life.rs`: its conditions, one step at a time, as upstream's controllers write them;
//! * `structural.rs`: pruning and defaulting by a schema; `validate/`: what a schema refuses;
//!   `rules/`: rules in the expression language; `compiled.rs`: what is made of a schema once;
//! * `scale.rs`: numbers of replicas; `words.rs`: names.
//!
//! Not done: conversion by webhooks, which is refused.
//!
//! Upstream: `kubernetes/apiextensions-apiserver`.

pub(crate) mod check;
pub(crate) mod compiled;
pub(crate) mod definition;
pub(crate) mod life;
pub(crate) mod object;
mod rules;
pub(crate) mod structural;
mod validate;
mod words;

pub(crate) use self::compiled::Compiled;
pub(crate) use self::validate::embedded::without_key;
