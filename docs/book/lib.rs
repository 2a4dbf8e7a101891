//! The book's chapters as documentation tests: each block of Rust is compiled, and run if it can be.
//!
//! ```text
//! src/NAME.md ──include_str──▶ a module's documentation ──rustdoc──▶ tests
//! ```
//!
//! There is no library here. Edition 2024 makes one binary of all blocks.

/// A module for each chapter with blocks of Rust.
macro_rules! chapters {
    ($($name:ident = $path:literal),* $(,)?) => {
        $(#[cfg(doctest)]
        #[doc = include_str!($path)]
        mod $name {})*
    };
}

chapters! {}
