//! A full screen, and the terminal as it was before.
//!
//! ```text
//! open ─▶ FullScreen ─dropped, or a panic─▶ the terminal as it was, then the lines that stderr had meanwhile
//! ```
//!
//! Never: a full screen where stdin or stdout is no terminal, or where a log is written to it.
//!
//! Upstream counterpart: none.

use std::io::IsTerminal as _;

use ratatui::DefaultTerminal;

use crate::exit::Failure;
use crate::stderr::Hold;

/// The terminal while a command has it.
#[derive(Debug)]
pub(crate) struct FullScreen {
    // Dropped first: lines are written to the terminal as it was.
    restored: Restored,
    held: Hold,
}

/// Gives the terminal back.
#[derive(Debug)]
struct Restored(DefaultTerminal);

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl FullScreen {
    /// Takes the terminal; `None` if there is none, or a log is written to it.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub(crate) fn open() -> Result<Option<Self>, Failure> {
        if !Self::is_possible() {
            return Ok(None);
        }
        Ok(Some(Self {
            held: Hold::begin(),
            restored: Restored(ratatui::try_init()?),
        }))
    }

    /// Returns whether [`FullScreen::open`] takes the terminal: stdin and stdout are one that can do
    /// more than print, and no log is written to it.
    pub(crate) fn is_possible() -> bool {
        let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        let is_plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        is_terminal && !is_plain && std::env::var_os("RUST_LOG").is_none()
    }

    /// The terminal.
    pub(crate) fn terminal(&mut self) -> &mut DefaultTerminal {
        &mut self.restored.0
    }

    /// The last lines for stderr, which are written when the screen is given back; oldest first.
    pub(crate) fn last_lines(&self, most: usize) -> Vec<String> {
        self.held.last(most)
    }
}
