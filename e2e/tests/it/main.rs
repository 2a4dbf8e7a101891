//! kinform against a real API server.

mod bundle;
mod clients;
mod conformance;
mod coordinated;
mod deploy;
mod differential;
mod election;
mod frozen;
mod informers;
mod invalid;
mod kube_rs;
mod kubectl;
mod metrics;
mod operators;
mod restarts;
mod rights;
mod rounds;
mod sharing;
mod storms;
mod webhook_files;
mod webhooks;
