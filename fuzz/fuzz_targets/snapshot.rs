//! `cargo +nightly fuzz run snapshot --features libfuzzer`: libFuzzer mutates, the library asserts.
//!
//! ```text
//! libFuzzer ──▶ bytes ──▶ kinform_fuzz::snapshot::run
//! ```
//!
//! Nothing is decided here: the driver for stable compilers runs the same function.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kinform_fuzz::snapshot::run(bytes);
});
