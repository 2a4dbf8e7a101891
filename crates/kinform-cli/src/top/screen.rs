//! The terminal while `top` has it.
//!
//! ```text
//! Picture ──drawn if it differs──▶ terminal        keys pressed ─▶ KeyEvent ..
//! ```
//!
//! The terminal is given back however the command ends.
//!
//! Upstream counterpart: none.

use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::layout::Size;

use super::picture::Picture;
use crate::exit::Failure;
use crate::full_screen::FullScreen;

/// BOUND: keys that are read at a time.
const KEYS: usize = 100;

/// The screen.
#[derive(Debug)]
pub(super) struct Screen {
    full: FullScreen,
    drawn: Option<Picture>,
}

impl Screen {
    /// Takes the terminal; `None` if there is none.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub(super) fn open() -> Result<Option<Self>, Failure> {
        let full = FullScreen::open()?;
        Ok(full.map(|full| Self { full, drawn: None }))
    }

    /// The size of the terminal.
    pub(super) fn size(&mut self) -> Result<Size, Failure> {
        Ok(self.full.terminal().size()?)
    }

    /// The keys that were pressed meanwhile.
    pub(super) fn keys(&mut self) -> Result<Vec<KeyEvent>, Failure> {
        let mut keys = Vec::new();
        while keys.len() < KEYS && event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.is_press() => keys.push(key),
                // Another program may have written over the screen.
                Event::Resize(..) | Event::FocusGained => self.drawn = None,
                _ => {}
            }
        }
        Ok(keys)
    }

    /// Draws a picture, unless it is on the screen already.
    pub(super) fn draw(&mut self, picture: Picture) -> Result<(), Failure> {
        if self.drawn.as_ref() != Some(&picture) {
            self.full.terminal().draw(|frame| picture.draw(frame))?;
            self.drawn = Some(picture);
        }
        Ok(())
    }
}
