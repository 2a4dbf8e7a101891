//! Decides when an item is compared with a template, and when it becomes the next template.
//!
//! ```text
//! item ─▶ turn ─▶ validated alone
//!              └▶ compared with the template ─▶ served (equal bytes) ─▶ learn the item?
//! ```
//!
//! A template is an earlier item, or a value in one. Lists come in the order of keys, in which
//! replicas are neighbours, so one template serves until its replicas end. An item that has too
//! little in common with it is a *miss*. After some misses in a row most items are validated alone,
//! so that a list of dissimilar items costs little more than without a template.
//!
//! Upstream: none.

/// An item is a miss if less than one byte in `ONE_OF` equals the template's.
const ONE_OF: usize = 32;
/// The number of misses in a row that are tolerated; the next one starts a pause.
const MOST_MISSES: u32 = 2;
/// The number of items that a pause lasts; they are validated alone.
pub(super) const ALONE: u32 = 100;

/// The record of one template.
#[derive(Debug, Default)]
pub(super) struct Serving {
    /// The most bytes that one item had in common with it.
    pub(super) best: usize,
    /// The number of misses in a row.
    pub(super) misses: u32,
    /// The number of items still to be validated alone.
    pub(super) alone: u32,
}

/// The treatment of the next item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Compare,
    Alone,
    /// The item is validated alone and becomes the next template.
    AloneAndLearn,
}

impl Serving {
    #[inline]
    pub(super) fn turn(&mut self) -> Turn {
        match self.alone {
            0 => return Turn::Compare,
            1 => self.best = 0,
            _ => {}
        }
        self.alone -= 1;
        match self.alone {
            0 => Turn::AloneAndLearn,
            _ => Turn::Alone,
        }
    }

    /// Records that `compared` of an item's `length` bytes equalled the template's; returns
    /// whether the item is to become the template.
    #[inline]
    pub(super) fn served(&mut self, compared: usize, length: usize) -> bool {
        self.misses = match compared * ONE_OF < length {
            true => self.misses + 1,
            false => 0,
        };
        if self.misses > MOST_MISSES {
            // After the pause a single miss starts the next one.
            (self.misses, self.alone) = (MOST_MISSES, ALONE);
            return false;
        }
        let is_worse = self.misses > 0 || 2 * compared < self.best;
        self.best = match is_worse {
            true => 0,
            false => self.best.max(compared),
        };
        is_worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_differ_are_seldom_compared_and_similar_ones_always() {
        let mut serving = Serving::default();
        let mut round = |compared: usize| match serving.turn() {
            Turn::Compare => Some(serving.served(compared, 1_000)),
            _ => None,
        };
        // The first is learnt; the others are compared with it.
        assert_eq!(round(0), Some(true));
        assert!((0..100).all(|_| round(500) == Some(false)));
        // An item that shares less than half of the best count replaces the template.
        assert_eq!([round(300), round(200)], [Some(false), Some(true)]);
        assert_eq!([round(90), round(90)], [Some(false); 2]);
        let misses: Vec<_> = (0..1_000).map(|_| round(1)).collect();
        let compared = misses.iter().flatten().count();
        assert!((8..16).contains(&compared), "{compared}");
        // After the next pause, similar items are compared again.
        let alike = (0..2 * ALONE).filter(|_| round(800).is_some()).count();
        assert!(alike >= ALONE as usize - 1, "{alike}");
    }
}
