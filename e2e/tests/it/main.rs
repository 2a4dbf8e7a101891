//! kinform against a real API server.

mod differential;
mod rounds;
