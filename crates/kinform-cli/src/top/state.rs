//! The place, the cursor and the prompts: keys in, orders out. Pure.
//!
//! ```text
//! key, page, time ─▶ State ─▶ Order { Stay │ Quit │ Again │ Thing(n) .. }
//! ```
//!
//! INVARIANT: the cursor is on a row of the page at which it may stop, if there is one.
//! BOUND: 50 places to go back to.
//!
//! Upstream counterpart: the keys of k9s.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::command::Command;
use super::page::Page;
use super::place::{Form, Place};
use super::prompt::{Typed, typed};
use crate::args::inspecting::VIEWS;

const BACK: usize = 50;
/// The pause in typing after which a search is asked of the program.
const PAUSE: Duration = Duration::from_millis(300);
/// Columns that an arrow moves a text by.
const STEP: usize = 20;

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct State {
    place: Place,
    back: Vec<Place>,
    mode: Mode,
    /// Text that rows of this page must have.
    filter: String,
    at: usize,
    /// The target of the row under the cursor, which it follows.
    chosen: Option<Place>,
    /// Columns of a text that are left of the screen.
    left: usize,
    message: Option<String>,
    typed: Option<Instant>,
}

/// The use of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// After `:`.
    Command(String),
    /// After `/`; the second text is the one of before.
    Search(String, String),
    Help,
    /// Things to try.
    Things,
}

/// The request of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Stay,
    /// Ask for the view again.
    Again,
    /// Choose a thing to try, by its number from 1.
    Thing(usize),
    Quit,
    Interrupt,
}

impl State {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            back: Vec::new(),
            mode: Mode::Browse,
            filter: String::new(),
            at: 0,
            chosen: None,
            left: 0,
            message: None,
            typed: None,
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn mode(&self) -> &Mode {
        &self.mode
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Moves the cursor to where its row is in a new page.
    pub(super) fn settle(&mut self, page: &Page) {
        if page.rows.is_empty() {
            // Not known yet.
            return;
        }
        let is_its = |at: &usize| page.stops(*at) && page.rows[*at].target == self.chosen;
        let distance = |at: &usize| at.abs_diff(self.at);
        let places = 0..page.rows.len();
        if self.chosen.is_some()
            && let Some(at) = places.clone().filter(is_its).min_by_key(distance)
        {
            self.at = at;
            return;
        }
        let nearest = places.filter(|at| page.stops(*at)).min_by_key(distance);
        self.at = nearest.unwrap_or(0);
        self.choose(page);
    }

    fn choose(&mut self, page: &Page) {
        self.chosen = page.rows.get(self.at).and_then(|row| row.target.clone());
    }

    /// Applies a search whose typing has paused. Returns whether the place changed.
    pub(super) fn pause(&mut self, now: Instant) -> bool {
        let is_due = |typed: Instant| now.duration_since(typed) >= PAUSE;
        if !self.typed.is_some_and(is_due) {
            return false;
        }
        self.typed = None;
        match &self.mode {
            Mode::Search(text, _) => self.search(text.clone()),
            _ => false,
        }
    }

    fn search(&mut self, text: String) -> bool {
        match self.place.search() {
            Some(q) if *q != text => *q = text,
            _ => return false,
        }
        self.at = 0;
        self.chosen = None;
        true
    }

    /// Acts on a key. `height` are the rows that the screen has for the page.
    pub(super) fn press(
        &mut self,
        key: KeyEvent,
        (page, height): (&Page, usize),
        now: Instant,
    ) -> Order {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Order::Interrupt;
        }
        self.message = None;
        match self.mode.clone() {
            Mode::Browse => self.browse(key.code, page, height),
            Mode::Command(text) => self.command(key, text),
            Mode::Search(text, before) => {
                self.type_search(key, text, before, now);
                Order::Stay
            }
            Mode::Help => {
                self.mode = Mode::Browse;
                Order::Stay
            }
            Mode::Things => {
                self.mode = Mode::Browse;
                match digit(key.code) {
                    Some(number) => Order::Thing(number),
                    None => Order::Stay,
                }
            }
        }
    }

    fn browse(&mut self, code: KeyCode, page: &Page, height: usize) -> Order {
        match code {
            KeyCode::Char('q') => return Order::Quit,
            KeyCode::Char('r') => return Order::Again,
            KeyCode::Char(':') => self.mode = Mode::Command(String::new()),
            KeyCode::Char('/') => self.begin_search(),
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('t') => self.mode = Mode::Things,
            KeyCode::Char('d') => self.open_as(Form::Facts, page),
            KeyCode::Char('y') => self.open_as(Form::Yaml, page),
            KeyCode::Char('m') => {
                if let Place::Object { form, .. } = &mut self.place {
                    *form = Form::Managers;
                }
            }
            KeyCode::Enter => self.open(page),
            KeyCode::Esc => self.go_back(),
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(5),
            KeyCode::Right if page.is_text => {
                self.left = self.left.saturating_add(STEP).min(10_000)
            }
            KeyCode::Left => self.left = self.left.saturating_sub(STEP),
            code => match digit(code).and_then(|number| Place::of_number(number - 1)) {
                Some(place) => self.go(place),
                None => self.scroll(code, page, height),
            },
        }
        Order::Stay
    }

    fn scroll(&mut self, code: KeyCode, page: &Page, height: usize) {
        let page_of_rows = height.saturating_sub(1).max(1);
        let last = page.rows.len().saturating_sub(1);
        let (to, is_down) = match code {
            KeyCode::Down | KeyCode::Char('j') => (self.at + 1, true),
            KeyCode::Up | KeyCode::Char('k') => (self.at.saturating_sub(1), false),
            KeyCode::PageDown | KeyCode::Char(' ') => (self.at + page_of_rows, true),
            KeyCode::PageUp => (self.at.saturating_sub(page_of_rows), false),
            KeyCode::Home | KeyCode::Char('g') => (0, true),
            KeyCode::End | KeyCode::Char('G') => (last, false),
            _ => return,
        };
        let to = to.min(last);
        let stops = |at: &usize| page.stops(*at);
        let onwards = match is_down {
            true => (to..=last).find(stops),
            false => (0..=to).rev().find(stops),
        };
        // A page up may end above the first stop, a page down below the last one.
        let back = match is_down {
            true => (0..=to).rev().find(stops),
            false => (to..=last).find(stops),
        };
        if let Some(at) = onwards.or(back).filter(|_| !page.rows.is_empty()) {
            self.at = at;
            self.choose(page);
        }
    }

    fn go(&mut self, place: Place) {
        if place == self.place {
            return;
        }
        if self.back.len() == BACK {
            self.back.remove(0);
        }
        self.back.push(std::mem::replace(&mut self.place, place));
        self.arrive();
    }

    fn arrive(&mut self) {
        self.filter.clear();
        (self.at, self.left, self.chosen, self.typed) = (0, 0, None, None);
    }

    fn go_back(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else if let Some(place) = self.back.pop() {
            self.place = place;
            self.arrive();
        }
    }

    /// Goes to the view that is a number of places to the right.
    fn turn(&mut self, by: usize) {
        let number = (self.place.number() + by) % VIEWS.len();
        if let Some(place) = Place::of_number(number) {
            self.go(place);
        }
    }

    fn open(&mut self, page: &Page) {
        if let Some(place) = page.rows.get(self.at).and_then(|row| row.target.clone()) {
            self.go(place);
        }
    }

    /// Opens the object under the cursor in this form, or shows the one that is open in it.
    fn open_as(&mut self, wanted: Form, page: &Page) {
        if let Place::Object { form, .. } = &mut self.place {
            (*form, self.at, self.left, self.chosen) = (wanted, 0, 0, None);
            self.filter.clear();
            return;
        }
        match page.rows.get(self.at).and_then(|row| row.target.clone()) {
            Some(Place::Object { object, .. }) => self.go(Place::Object {
                object,
                form: wanted,
            }),
            Some(place) if wanted == Form::Facts => self.go(place),
            _ => self.message = Some("no object is chosen: the key 4 finds one".to_owned()),
        }
    }

    fn begin_search(&mut self) {
        let before = match self.place.search() {
            Some(q) => q.clone(),
            None => self.filter.clone(),
        };
        self.mode = Mode::Search(before.clone(), before);
    }

    fn type_search(&mut self, key: KeyEvent, text: String, before: String, now: Instant) {
        let is_asked = self.place.clone().search().is_some();
        match typed(key, text.clone()) {
            Typed::Text(text) => {
                match is_asked {
                    true => self.typed = Some(now),
                    false => self.filter.clone_from(&text),
                }
                self.mode = Mode::Search(text, before);
            }
            Typed::Done => {
                self.mode = Mode::Browse;
                self.typed = None;
                self.search(text);
            }
            Typed::Cancelled => {
                self.mode = Mode::Browse;
                self.typed = None;
                match is_asked {
                    true => drop(self.search(before)),
                    false => self.filter = before,
                }
            }
            Typed::Nothing => {}
        }
    }

    fn command(&mut self, key: KeyEvent, text: String) -> Order {
        match typed(key, text.clone()) {
            Typed::Text(text) => self.mode = Mode::Command(text),
            Typed::Cancelled => self.mode = Mode::Browse,
            Typed::Nothing => {}
            Typed::Done => {
                self.mode = Mode::Browse;
                match Command::read(&text) {
                    Ok(None) => {}
                    Ok(Some(Command::Quit)) => return Order::Quit,
                    Ok(Some(Command::Help)) => self.mode = Mode::Help,
                    Ok(Some(Command::Go(place))) => self.go(place),
                    Err(message) => self.message = Some(message),
                }
            }
        }
        Order::Stay
    }
}

fn digit(code: KeyCode) -> Option<usize> {
    let KeyCode::Char(letter) = code else {
        return None;
    };
    letter
        .to_digit(10)
        .filter(|digit| *digit > 0)
        .map(|digit| digit as usize)
}

#[cfg(test)]
mod tests {
    use ratatui::text::Span;

    use super::*;
    use crate::top::page::{Kind, Row};
    use crate::top::prompt::LETTERS;

    fn page() -> Page {
        let row =
            |kind, text: &str, target| Row::new(kind, vec![Span::raw(text.to_owned())], target);
        let mut page = Page::default();
        page.add([
            row(Kind::Head, "CACHE", None),
            row(Kind::Item, "pods", Some(Place::objects(Some("pods")))),
            row(Kind::More, "relisted", None),
            row(
                Kind::Item,
                "web",
                Some(Place::object("pods", Some("shop"), "web")),
            ),
        ]);
        page
    }

    fn key(name: &str) -> KeyEvent {
        let code = match name {
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "tab" => KeyCode::Tab,
            "backtab" => KeyCode::BackTab,
            "back" => KeyCode::Backspace,
            "pgdn" => KeyCode::PageDown,
            "^c" | "^u" => {
                let letter = name.chars().last().unwrap();
                return KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            }
            letter => KeyCode::Char(letter.chars().next().unwrap()),
        };
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    /// The state after keys, half a second apart, and the last order.
    fn after(place: Place, keys: &str) -> (State, Order) {
        let mut state = State::new(place);
        let (page, mut now) = (page(), Instant::now());
        let mut order = Order::Stay;
        state.settle(&page);
        for name in keys.split(' ').filter(|name| !name.is_empty()) {
            order = state.press(key(name), (&page, 10), now);
            now += PAUSE * 2;
            state.pause(now);
            state.settle(&page);
        }
        (state, order)
    }

    #[test]
    fn keys_choose_places() {
        let object = |form| match Place::object("pods", Some("shop"), "web") {
            Place::Object { object, .. } => Place::Object { object, form },
            other => other,
        };
        for (keys, expected) in [
            ("", Place::Caches),
            ("1", Place::Pipeline),
            ("6", Place::Problems),
            ("9", Place::Caches),
            ("tab", Place::queues(None)),
            ("backtab backtab", Place::Problems),
            ("enter", Place::objects(Some("pods"))),
            ("enter esc", Place::Caches),
            ("esc", Place::Caches),
            ("j enter", object(Form::Facts)),
            ("j d", object(Form::Facts)),
            ("j y", object(Form::Yaml)),
            ("j y d", object(Form::Facts)),
            ("j d m", object(Form::Managers)),
            ("j k enter", Place::objects(Some("pods"))),
            ("G enter", object(Form::Facts)),
            ("pgdn enter", object(Form::Facts)),
            ("d", Place::objects(Some("pods"))),
            ("y", Place::Caches),
            (": m e m enter", Place::Memory { cache: None }),
            (": m e m esc", Place::Caches),
            (": x back back back 6", Place::Problems),
            ("? 6", Place::Caches),
            ("? 6 6", Place::Problems),
            ("t 6", Place::Caches),
        ] {
            assert_eq!(after(Place::Caches, keys).0.place, expected, "{keys:?}");
        }
    }

    #[test]
    fn keys_are_orders() {
        for (keys, expected) in [
            ("q", Order::Quit),
            ("^c", Order::Interrupt),
            ("/ ^c", Order::Interrupt),
            ("/ q", Order::Stay),
            (": q enter", Order::Quit),
            ("r", Order::Again),
            ("t 2", Order::Thing(2)),
            ("t x", Order::Stay),
            ("z", Order::Stay),
        ] {
            assert_eq!(after(Place::Caches, keys).1, expected, "{keys:?}");
        }
        let (state, _) = after(Place::Caches, ": x enter");
        assert!(
            state
                .message()
                .unwrap()
                .starts_with("no command \"x\": pipeline")
        );
        let (state, _) = after(Place::Caches, ": x enter j");
        assert_eq!(state.message(), None);
    }

    #[test]
    fn a_search_is_asked_of_the_program_where_it_can_be() {
        for (keys, q, filter) in [
            ("/ w e", "we", ""),
            ("/ w e enter", "we", ""),
            ("/ w e esc", "", ""),
            ("/ w enter / e esc", "w", ""),
            ("/ w ^u x", "x", ""),
            ("/ back", "", ""),
        ] {
            let mut found = after(Place::objects(None), keys).0;
            assert_eq!(found.place.search().unwrap(), q, "{keys}");
            assert_eq!(found.filter, filter, "{keys}");
        }
        for (keys, filter) in [
            ("/ w e", "we"),
            ("/ w enter esc", ""),
            ("/ w esc", ""),
            ("/ w enter 6", ""),
        ] {
            assert_eq!(after(Place::Caches, keys).0.filter, filter, "{keys}");
        }
    }

    #[test]
    fn a_search_waits_for_a_pause_in_typing() {
        let (mut state, page, now) = (State::new(Place::objects(None)), page(), Instant::now());
        for name in ["/", "w", "e"] {
            state.press(key(name), (&page, 10), now);
        }
        assert!(!state.pause(now + PAUSE / 2));
        assert_eq!(state.place, Place::objects(None));
        assert!(state.pause(now + PAUSE));
        assert!(!state.pause(now + PAUSE * 2), "it is asked once");
    }

    #[test]
    fn the_cursor_follows_its_row() {
        let (mut state, _) = after(Place::Caches, "j");
        assert_eq!(state.at(), 3);
        let mut later = page();
        later.rows.remove(2);
        state.settle(&later);
        assert_eq!(state.at(), 2);
        later.rows.pop();
        state.settle(&later);
        assert_eq!(state.at(), 1, "the nearest row that is left");
        state.settle(&Page::default());
        assert_eq!(state.at(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut state, page, now) = (State::new(Place::Caches), page(), Instant::now());
        for _ in 0..100 {
            state.press(key("tab"), (&page, 10), now);
        }
        assert_eq!(state.back.len(), BACK);
        state.press(key(":"), (&page, 10), now);
        for _ in 0..2 * LETTERS {
            state.press(key("x"), (&page, 10), now);
        }
        assert_eq!(state.mode, Mode::Command("x".repeat(LETTERS)));
    }
}
