//! kinform against a real API server.

mod clients;
mod conformance;
mod differential;
mod election;
mod informers;
mod invalid;
mod kube_rs;
mod kubectl;
mod operators;
mod rounds;
mod storms;
