//! Nothing: what depends on this crate builds its dependencies with the features of its manifest.
