//! Known bugs of other informers, and of servers, to be put back on purpose.
//!
//! ```text
//! if mutant!("B6") { the bug }      built as usual ──▶ if false
//! cargo xtask mutants ──▶ --cfg kinform_mutants, KINFORM_MUTANT=B6 ──▶ a test must fail
//! ```
//!
//! A seam is one or two lines, at the place where the bug would live. Without the cfg it is the
//! literal `false`, so that nothing of it is compiled; with it, a release build is an error. Nothing
//! else may ask the environment for it.
//!
//! Upstream counterpart: none.

#[cfg(all(kinform_mutants, not(debug_assertions)))]
compile_error!("known bugs are put back in debug builds only");

/// Returns whether the known bug of this name is active: never, except in `cargo xtask mutants`.
#[cfg(not(kinform_mutants))]
#[doc(hidden)]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}

/// Returns whether the known bug of this name is active: if the environment says so.
#[cfg(kinform_mutants)]
#[doc(hidden)]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::is_put_back($name)
    };
}

/// Returns whether `KINFORM_MUTANT` names this bug; read once.
#[cfg(kinform_mutants)]
#[doc(hidden)]
#[must_use]
pub fn is_put_back(name: &str) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("KINFORM_MUTANT").ok())
        .as_deref()
        == Some(name)
}

#[cfg(all(test, not(kinform_mutants)))]
mod tests {
    #[test]
    fn no_bug_is_put_back_in_an_ordinary_build() {
        // It is a constant, so there is no code behind a seam.
        const PUT_BACK: bool = mutant!("B1");
        let put_back = PUT_BACK;
        assert!(!put_back);
    }
}
