//! kinform against a real API server.

mod conformance;
mod differential;
mod kubectl;
mod rounds;
