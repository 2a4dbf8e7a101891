//! Typing into a line.
//!
//! ```text
//! key, text ─▶ Typed { Text │ Done │ Cancelled │ Nothing }
//! ```
//!
//! BOUND: 200 letters.
//!
//! Upstream counterpart: none.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// BOUND: letters of a line.
pub(super) const LETTERS: usize = 200;

/// The effect of a key on a prompt.
pub(super) enum Typed {
    Text(String),
    Done,
    Cancelled,
    Nothing,
}

/// Types a key.
pub(super) fn typed(key: KeyEvent, mut text: String) -> Typed {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Enter => return Typed::Done,
        KeyCode::Esc => return Typed::Cancelled,
        KeyCode::Backspace if text.is_empty() => return Typed::Cancelled,
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char('u') if control => text.clear(),
        KeyCode::Char(letter) if !control && text.chars().count() < LETTERS => text.push(letter),
        _ => return Typed::Nothing,
    }
    Typed::Text(text)
}
