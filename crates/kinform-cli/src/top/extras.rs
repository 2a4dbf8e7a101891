//! Things beside the views, for a host of the screen such as the demo.
//!
//! ```text
//! Extras: things to try ─▶ popup of the key t ─number─▶ Extras        notices ─▶ foot of the screen
//! ```
//!
//! Upstream counterpart: none.

/// Additions of a host to the screen. All of it is asked for 20 times a second and must not block.
pub(crate) trait Extras {
    /// Short words for things to try, numbered from 1; nine at most are shown.
    fn things(&self) -> Vec<String>;

    /// The thing of this number was chosen.
    fn choose(&mut self, number: usize);

    /// Lines about what happened, oldest first; the last six are shown.
    fn notices(&self) -> Vec<String>;
}

/// No extras.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoExtras;

impl Extras for NoExtras {
    fn things(&self) -> Vec<String> {
        Vec::new()
    }

    fn choose(&mut self, _number: usize) {}

    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}
