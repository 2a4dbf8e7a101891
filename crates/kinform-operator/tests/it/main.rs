//! Tests of the public interface on the embedded server.
