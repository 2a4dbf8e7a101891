//! kinform against a real API server.

mod rounds;
