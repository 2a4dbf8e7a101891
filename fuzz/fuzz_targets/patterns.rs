//! `cargo +nightly fuzz run patterns --features libfuzzer`: libFuzzer mutates, the library asserts.
//!
//! ```text
//! libFuzzer ──▶ bytes ──▶ kinform_fuzz::patterns::run
//! ```
//!
//! Nothing is decided here: the driver for stable compilers runs the same function.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kinform_fuzz::patterns::run(bytes);
});
