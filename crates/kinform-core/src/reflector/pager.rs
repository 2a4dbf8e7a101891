//! One list, page by page: what to ask for next, and when the pages do not make one list.
//!
//! ```text
//! version, limit → page request ⇄ end of page (version, continue token) → whole list | broken
//! ```
//!
//! All pages of a list share one version, the first page's, or there is no list. The version asked
//! for is sent with the first page only: servers refuse it next to a continue token.
//! Tokens that repeat, in a cycle of any length, runs of empty pages and endless lists are broken.
//! Memory: two tokens.
//!
//! Upstream counterpart: `client-go:tools/pager/pager.go`, which checks none of that.

use kinform_api::{ResourceVersion, mutant};

/// Items a page.
pub(super) const PAGE_SIZE: u32 = 500;
/// BOUND: pages a list; at 500 items a page ten million objects.
const MAX_PAGES: u32 = 20_000;
/// BOUND: pages in a row without an item. A server may filter a page away, but not for ever.
const MAX_EMPTY_PAGES: u32 = 50;

/// BOUND: bytes of a continue token; an address has 64 KB at most, and escapes take three bytes each.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The next step after a page has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// There are more pages.
    Next,
    /// That was all: the list is whole, at this version.
    Whole(ResourceVersion),
    /// The pages do not make one list.
    Broken(&'static str),
}

/// The list being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Pager {
    /// The version asked for with the first page; unset for the most recent state.
    asked: ResourceVersion,
    limit: Option<u32>,
    version: Option<ResourceVersion>,
    token: Option<String>,
    /// An earlier token, moved up at each power of two: a cycle must meet it (Brent).
    landmark: Option<String>,
    pages: u32,
    empty_pages: u32,
    items: u32,
}

impl Pager {
    /// A new list at this version, in pages of this size.
    pub(super) fn new(asked: ResourceVersion, limit: Option<u32>) -> Self {
        Self {
            asked,
            limit,
            ..Self::default()
        }
    }

    /// The same list from its start, in one piece.
    pub(super) fn restart_unpaged(&mut self) {
        *self = Self::new(std::mem::take(&mut self.asked), None);
    }

    /// Returns the version asked for.
    pub(super) fn asked(&self) -> &ResourceVersion {
        &self.asked
    }

    /// Returns whether the request under way is one after the first.
    pub(super) fn is_continuing(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the parameters of the next request: version, limit, token.
    pub(super) fn request(&self) -> (Option<ResourceVersion>, Option<u32>, Option<String>) {
        let version = (self.token.is_none() && !self.asked.is_unset()).then(|| self.asked.clone());
        (version, self.limit, self.token.clone())
    }

    /// One item of the page being read.
    pub(super) fn count_item(&mut self) {
        self.items = self.items.saturating_add(1);
    }

    /// The page being read ended.
    pub(super) fn end_page(&mut self, version: ResourceVersion, token: &str) -> Turn {
        let items = std::mem::take(&mut self.items);
        match &self.version {
            None => self.version = Some(version.clone()),
            Some(first) if *first != version => {
                return Turn::Broken("pages of one list have different versions");
            }
            Some(_) => {}
        }
        if token.is_empty() || mutant!("B6") {
            return Turn::Whole(version);
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Turn::Broken("the continue token is longer than an address can be");
        }
        self.empty_pages = if items == 0 { self.empty_pages + 1 } else { 0 };
        self.pages += 1;
        if self.token.as_deref() == Some(token) || self.landmark.as_deref() == Some(token) {
            return Turn::Broken("the continue token repeats");
        }
        if self.empty_pages > MAX_EMPTY_PAGES {
            return Turn::Broken("pages without items do not end");
        }
        if self.pages >= MAX_PAGES {
            return Turn::Broken("the list does not end");
        }
        if self.pages.is_power_of_two() {
            self.landmark = Some(token.to_owned());
        }
        self.token = Some(token.to_owned());
        Turn::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(pager: &mut Pager, items: u32, version: &str, token: &str) -> Turn {
        (0..items).for_each(|_| pager.count_item());
        pager.end_page(version.into(), token)
    }

    #[test]
    fn the_version_is_asked_for_once() {
        // client-go: TestListPager_List (RV and match only on page 1)
        let mut pager = Pager::new("10".into(), Some(500));
        assert_eq!(pager.request(), (Some("10".into()), Some(500), None));
        assert_eq!(turn(&mut pager, 1, "12", "a"), Turn::Next);
        assert_eq!(pager.request(), (None, Some(500), Some("a".into())));
        assert_eq!(turn(&mut pager, 1, "12", ""), Turn::Whole("12".into()));
        pager.restart_unpaged();
        assert_eq!(pager.request(), (Some("10".into()), None, None));
        assert_eq!(Pager::default().request(), (None, None, None));
    }

    #[test]
    fn pages_of_two_versions_are_no_list() {
        let mut pager = Pager::default();
        assert_eq!(turn(&mut pager, 1, "12", "a"), Turn::Next);
        assert!(matches!(turn(&mut pager, 1, "13", ""), Turn::Broken(_)));
    }

    // fault: F22
    #[test]
    fn tokens_that_come_back_are_found_whatever_the_cycle() {
        for cycle in 1..40u32 {
            let mut pager = Pager::default();
            let broken = (0..).find(|page: &u32| {
                let token = (page % cycle).to_string();
                matches!(turn(&mut pager, 1, "1", &token), Turn::Broken(_))
            });
            assert!(broken.unwrap() <= 4 * cycle + 1, "{cycle}: {broken:?}");
        }
    }

    // fault: F22
    #[test]
    fn a_list_without_an_end_is_broken() {
        for (items, bound) in [(0, MAX_EMPTY_PAGES), (1, MAX_PAGES - 1)] {
            let mut pager = Pager::default();
            let pages = (0..).take_while(|page: &u32| {
                turn(&mut pager, items, "1", &format!("t{page}")) == Turn::Next
            });
            assert_eq!(pages.count() as u32, bound);
        }
    }

    #[test]
    fn a_token_that_no_address_can_hold_is_not_sent() {
        for (length, is_sent) in [(MAX_TOKEN_BYTES, true), (MAX_TOKEN_BYTES + 1, false)] {
            let mut pager = Pager::default();
            let next = turn(&mut pager, 1, "1", &"t".repeat(length));
            assert_eq!(next == Turn::Next, is_sent, "{length}: {next:?}");
        }
    }

    #[test]
    fn a_page_may_be_filtered_away() {
        let mut pager = Pager::default();
        assert_eq!(turn(&mut pager, 0, "1", "a"), Turn::Next);
        assert_eq!(turn(&mut pager, 2, "1", "b"), Turn::Next);
        assert_eq!(turn(&mut pager, 0, "1", ""), Turn::Whole("1".into()));
    }
}
