//! Styles, with 16 colours or without colour.
//!
//! ```text
//! NO_COLOR ─▶ Paint ─▶ a style for what is good, bad, a head ..
//! ```
//!
//! INVARIANT: a colour repeats what a word or a mark says.
//!
//! Upstream counterpart: <https://no-color.org>.

use ratatui::style::{Color, Modifier, Style};

/// The styles of this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint {
    has_colours: bool,
}

impl Paint {
    /// As the environment wants it.
    pub(super) fn of_environment() -> Self {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { has_colours }
    }

    #[cfg(test)]
    pub(super) const COLOURS: Self = Self { has_colours: true };
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { has_colours: false };

    fn coloured(self, colour: Color) -> Style {
        match self.has_colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Lines of numbers.
    pub(super) fn line(self) -> Style {
        self.coloured(Color::Cyan)
    }

    pub(super) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of the state of a cache.
    pub(super) fn state(self, state: &str) -> Style {
        match state {
            "synced" => self.good(),
            "listing" => self.warning(),
            "stale" | "forbidden" | "no-such-kind" => self.bad(),
            _ => Style::new(),
        }
    }

    /// The style of a count that should be 0.
    pub(super) fn count(self, count: u64) -> Style {
        match count {
            0 => Style::new(),
            _ => self.bad(),
        }
    }
}
