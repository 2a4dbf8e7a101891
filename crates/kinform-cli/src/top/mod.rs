//! `kinform top`: the inspector of a running program, in a terminal.
//!
//! ```text
//! Attach ◀─poll.rs─▶ reply.rs ─▶ views/ ─▶ Page ─▶ picture.rs ─▶ screen.rs        keys ─▶ state.rs
//!                                                        without a terminal: lines.rs
//! ```
//!
//! * `place.rs`: a view and what it shows; `prompt.rs`, `command.rs`: typing, and words after `:`; `contact.rs`: a program that
//!   does not answer;
//! * `page.rs`, `columns.rs`, `numbers.rs`, `trends.rs`, `paint.rs`: rows, tables, numbers, lines of
//!   values, styles;
//! * `extras.rs`: what a host of the screen adds.
//!
//! Only what is shown is asked for, and a sign of life where that is read once; only what changed is
//! drawn. It ends when the program does.
//!
//! Upstream counterpart: none; the keys are those of k9s.

mod columns;
mod command;
mod contact;
mod extras;
mod lines;
mod numbers;
mod page;
mod paint;
mod picture;
mod place;
mod poll;
mod prompt;
mod reply;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod trends;
mod views;

use std::time::{Duration, Instant};

use kinform_operator::inspect::Head;
use ratatui::layout::Size;
use tokio::time::MissedTickBehavior;

use self::contact::Contact;
pub(crate) use self::extras::{Extras, NoExtras};
pub(crate) use self::numbers::ms;
use self::page::Page;
use self::paint::Paint;
use self::picture::{Around, Picture, height};
pub(crate) use self::place::Place;
use self::poll::{Arrived, Poll};
use self::reply::Reply;
use self::screen::Screen;
use self::state::{Order, State};
use self::trends::Trends;
use self::views::Look;
pub(crate) use self::views::cause_text;
use crate::args::inspecting::{TopArgs, TopOutput};
use crate::attach::Attach;
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::watch::elapsed;

/// The time between two looks at the keys.
const TICK: Duration = Duration::from_millis(50);

/// The settings of `top`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The view to begin with.
    pub(crate) place: Place,
    /// The time after which it ends; `None` ends it with the program or by a key.
    pub(crate) run_for: Option<Duration>,
    /// Print replies as JSON, on a terminal, too.
    pub(crate) is_json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Place::Pipeline,
            run_for: None,
            is_json: false,
        }
    }
}

/// Runs the command.
pub(crate) async fn command(args: TopArgs) -> Result<Ending, Failure> {
    let attach = Attach::of(args.attach.as_deref())?;
    let options = Options {
        place: Place::of_name(&args.view).unwrap_or(Place::Pipeline),
        run_for: args.run_for,
        is_json: args.output == TopOutput::Json,
    };
    let mut signals = Signals::listen()?;
    run(&attach, &mut NoExtras, &mut signals, &options).await
}

/// Shows a program until a key, a signal or the program ends it.
///
/// # Errors
/// The program does not answer in a way that this command understands, or it ended.
///
/// # Cancel safety
/// The terminal is given back.
pub(crate) async fn run(
    attach: &Attach,
    extras: &mut dyn Extras,
    signals: &mut Signals,
    options: &Options,
) -> Result<Ending, Failure> {
    // Before the terminal is taken: most mistakes show here.
    let first = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        first = attach.view::<Head>("pipeline", &[]) => first?,
    };
    let screen = match options.is_json {
        true => None,
        false => Screen::open()?,
    };
    let Some(screen) = screen else {
        return lines::run(attach, signals, options).await;
    };
    let mut top = Top::new(first.program, options.place.clone(), screen)?;
    let mut poll = Poll::new(attach);
    let mut elapsed = Box::pin(elapsed(options.run_for));
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            ending = signals.ending() => return Ok(ending),
            () = &mut elapsed => return Ok(Ending::Done),
            arrived = poll.arrived() => top.hear(arrived, attach)?,
            _ = tick.tick() => {
                if let Some(ending) = top.keys(extras, &mut poll)? {
                    return Ok(ending);
                }
                poll.begin(top.state.place(), top.managers(), Instant::now());
            }
        }
        top.draw(extras, &poll)?;
    }
}

/// All that the screen shows.
struct Top {
    screen: Screen,
    state: State,
    /// The last reply, and the place that it is for.
    reply: Option<(Place, Reply)>,
    page: Page,
    /// The width that the page was made for; `None` if it has to be made anew.
    made_for: Option<Size>,
    trends: Trends,
    contact: Contact,
    program: String,
    paint: Paint,
    /// Lines of the host.
    notices: Vec<String>,
    things: Vec<String>,
}

impl Top {
    fn new(program: String, place: Place, screen: Screen) -> Result<Self, Failure> {
        Ok(Self {
            screen,
            state: State::new(place),
            reply: None,
            page: Page::default(),
            made_for: None,
            trends: Trends::default(),
            contact: Contact::default(),
            program,
            paint: Paint::of_environment(),
            notices: Vec::new(),
            things: Vec::new(),
        })
    }

    /// The managers of the object's fields that were read already.
    fn managers(&self) -> Option<Vec<kinform_operator::inspect::Manager>> {
        let (place, reply) = self.reply.as_ref()?;
        self.state
            .place()
            .has_reply_of(place)
            .then(|| reply.managers())?
    }

    fn hear(&mut self, arrived: Arrived, attach: &Attach) -> Result<(), Failure> {
        let reply = match arrived.result {
            Ok(reply) => reply,
            Err(trouble) => return self.contact.failed(&trouble, attach, Instant::now()),
        };
        self.contact.answered();
        let Some(reply) = reply else {
            return Ok(());
        };
        match &reply {
            Reply::Pipeline(pipeline) => self.trends.record(pipeline),
            _ => self.trends = Trends::default(),
        }
        if let Some(head) = reply.head() {
            self.program.clone_from(&head.program);
        }
        self.reply = Some((arrived.place, reply));
        self.made_for = None;
        Ok(())
    }

    /// Acts on the keys that were pressed.
    fn keys(
        &mut self,
        extras: &mut dyn Extras,
        poll: &mut Poll<'_>,
    ) -> Result<Option<Ending>, Failure> {
        let now = Instant::now();
        let keys = self.screen.keys()?;
        if self.state.pause(now) {
            self.made_for = None;
        }
        for key in keys {
            self.make()?;
            let height = height(self.screen.size()?, self.notices.len());
            match self.state.press(key, (&self.page, height), now) {
                Order::Stay => {}
                Order::Again => poll.again(),
                Order::Thing(number) if number <= self.things.len() => extras.choose(number),
                Order::Thing(_) => {}
                Order::Quit => return Ok(Some(Ending::Done)),
                Order::Interrupt => return Ok(Some(Ending::Interrupted)),
            }
            self.made_for = None;
        }
        Ok(None)
    }

    /// Makes the page anew if that is due.
    fn make(&mut self) -> Result<(), Failure> {
        let size = self.screen.size()?;
        if self.made_for == Some(size) {
            return Ok(());
        }
        let look = Look {
            width: usize::from(size.width).saturating_sub(2),
            paint: self.paint,
        };
        let place = self.state.place();
        self.page = match &self.reply {
            Some((of, reply)) if place.has_reply_of(of) => {
                views::page(place, reply, &self.trends, look).filtered(self.state.filter())
            }
            _ => waiting(self.paint),
        };
        self.state.settle(&self.page);
        self.made_for = Some(size);
        Ok(())
    }

    fn draw(&mut self, extras: &dyn Extras, poll: &Poll<'_>) -> Result<(), Failure> {
        self.notices = extras.notices();
        self.things = extras.things();
        self.make()?;
        let size = self.screen.size()?;
        let now = Instant::now();
        let is_once = self.state.place().period().is_none();
        let head = self.reply.as_ref().and_then(|(_, reply)| reply.head());
        let around = Around {
            program: &self.program,
            trouble: self.contact.words(now).or_else(|| poll.words(now)),
            read_at: head
                .filter(|_| is_once)
                .map(|head| numbers::clock(&head.time)),
            notices: &self.notices,
            things: &self.things,
        };
        let picture = Picture::new(&self.state, &self.page, &around, (size, self.paint));
        self.screen.draw(picture)
    }
}

/// The page of a place without a reply.
fn waiting(paint: Paint) -> Page {
    let mut page = Page::default();
    page.head("waiting for the program …", paint.faint());
    page
}
