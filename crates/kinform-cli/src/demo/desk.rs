//! The desk between the demo's acts and the place where it is watched.
//!
//! ```text
//! acts ─notice─▶ Desk ─▶ foot of the screen | a line on stderr      key of the screen ─▶ Desk ─▶ act
//! ```
//!
//! BOUND: notices that are kept, and keys that wait.
//!
//! Upstream counterpart: none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acts::Acts;
use crate::top::Extras;

/// BOUND: notices kept for the screen.
const NOTICES: usize = 6;
/// BOUND: acts chosen by keys that wait for the one before.
const CHOSEN: usize = 8;

/// A desk. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk {
    board: Arc<Mutex<Board>>,
    /// Notices are printed as lines.
    is_plain: bool,
}

#[derive(Debug, Default)]
struct Board {
    notices: VecDeque<String>,
    chosen: VecDeque<u8>,
}

impl Desk {
    /// A desk whose notices are lines on stderr.
    pub(crate) fn plain() -> Self {
        Self {
            is_plain: true,
            ..Self::default()
        }
    }

    /// Returns whether there is no screen.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Shows a notice.
    pub(crate) fn notice(&self, notice: &str) {
        if self.is_plain {
            crate::progress!("* {notice}");
            return;
        }
        let mut board = self.board();
        if board.notices.len() == NOTICES {
            board.notices.pop_front();
        }
        board.notices.push_back(notice.to_owned());
    }

    /// The act that a key has chosen, the first of those that wait.
    pub(crate) fn chosen(&self) -> Option<u8> {
        self.board().chosen.pop_front()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Extras for Desk {
    fn things(&self) -> Vec<String> {
        let acts = Acts::list().iter();
        acts.map(|act| act.title.to_owned()).collect()
    }

    fn choose(&mut self, number: usize) {
        let known = Acts::list().iter().map(|act| act.number);
        let act = known
            .into_iter()
            .find(|known| usize::from(*known) == number);
        let mut board = self.board();
        if board.chosen.len() < CHOSEN {
            board.chosen.extend(act);
        }
    }

    fn notices(&self) -> Vec<String> {
        self.board().notices.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_notices_are_shown_and_keys_choose_known_acts_in_order() {
        let desk = Desk::default();
        (0..9).for_each(|number| desk.notice(&format!("n{number}")));
        assert_eq!(desk.notices(), ["n3", "n4", "n5", "n6", "n7", "n8"]);
        let mut screen = desk.clone();
        assert_eq!(screen.things().len(), 8);
        [3, 0, 9, 1]
            .into_iter()
            .for_each(|number| screen.choose(number));
        assert_eq!(
            [desk.chosen(), desk.chosen(), desk.chosen()],
            [Some(3), Some(1), None]
        );
    }
}
