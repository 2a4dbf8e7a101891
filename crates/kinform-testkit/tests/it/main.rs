//! Tests of the testkit, and by it.

mod rounds;
