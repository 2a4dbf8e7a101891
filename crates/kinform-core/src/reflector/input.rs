//! The input of a reflector: everything that its shell can observe.
//!
//! ```text
//! connection, body, clock, owner → Input → Reflector
//! ```
//!
//! The shell classifies what the transport reports and does no more: the machine decides what
//! follows. Messages are for people; no decision depends on them.
//!
//! Upstream counterpart: `apimachinery:pkg/watch/watch.go` (`Event`) and the errors of
//! `client-go:rest/request.go`.

use std::time::Duration;

use kinform_api::{ResourceVersion, Status, WatchEventKind};

use crate::object::Object;
use crate::time::Instant;
use crate::wire::unreadable::Unreadable;

/// One observation of the shell.
#[derive(Clone, Debug)]
pub enum Input {
    /// The server accepted the request: success, headers are there, the body follows.
    Accepted,
    /// The request came to nothing before its body.
    Failed(Failure),
    /// Bytes of the body came, whatever is in them. A list gets on by them; a watch gets on by
    /// events only, since a proxy may send bytes for ever that make none.
    Bytes,
    /// A list or a probe: one item.
    Item(Result<Object, Unreadable>),
    /// A list: one item that is not wanted.
    ItemOutside,
    /// A list: the page is whole, this is its metadata. Nothing else follows for this request.
    PageEnd {
        /// `metadata.resourceVersion`, unset if absent.
        version: ResourceVersion,
        /// `metadata.continue`, empty if absent.
        continue_token: String,
        /// The number of items on later pages, if there are some and the server counts them.
        remaining: Option<u64>,
    },
    /// A watch: one frame.
    Event(Event),
    /// The body ended, of a list before its [`Input::PageEnd`].
    Ended(Ending),
    /// The shell reads again after it was busy, or had waited for room downstream, for so long: the
    /// silence was our own.
    Unblocked {
        /// The time during which nothing was read.
        blocked: Duration,
    },
    /// The time of [`next_wake`](super::Reflector::next_wake) has come.
    Timer,
    /// The owner wants everything listed again.
    Relist,
    /// The owner found that what was handed on is not what the server has: everything is listed
    /// again, as it is now.
    Diverged,
    /// Another cache of the same server found that the server went back in time.
    WentBackElsewhere {
        /// When it found that.
        at: Instant,
    },
    /// The cache has outgrown its limits.
    OverLimit,
    /// The owner wants objects that were not asked for: everything is listed again.
    Extend {
        /// The shard selector of all requests from now on.
        selector: Option<String>,
    },
    /// The owner wants fewer objects, and drops the others itself.
    Narrow {
        /// The shard selector of the requests that follow; a list under way keeps its own.
        selector: Option<String>,
    },
    /// The owner wants no object: nothing is asked for until [`Input::Extend`].
    Rest,
    /// The owner wants no more.
    Stop,
}

/// One frame of a watch.
#[derive(Clone, Debug)]
pub enum Event {
    /// `ADDED`.
    Added(Object),
    /// `MODIFIED`.
    Modified(Object),
    /// `DELETED`.
    Deleted(Object),
    /// One of the first three, about an object that is not wanted.
    Outside(Outside),
    /// `BOOKMARK`.
    Bookmark {
        /// Nothing changed up to here.
        version: ResourceVersion,
        /// True if it carries the mark that ends the initial events, with the value `true`.
        initial_events_end: bool,
    },
    /// `ERROR`, or a bare Status in a frame's place; nothing if it is no Status.
    Error(Option<Status>),
    /// An event of a known type whose object cannot be read.
    Unreadable {
        /// The event's type.
        kind: WatchEventKind,
        /// The facts known about the object.
        object: Unreadable,
    },
    /// An event of a type that no server sends today, or with an object of another kind (a Table).
    Foreign {
        /// Of which, in a few words.
        what: String,
    },
}

/// An event about an object that is not wanted.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The event's type.
    pub kind: WatchEventKind,
    /// The version of the object, unset if it cannot be read.
    pub version: ResourceVersion,
    /// The object, if one that is stored under its key is not wanted any more either.
    pub object: Option<Object>,
}

/// The way in which a body ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order, after the last byte.
    Clean,
    /// In the middle: a reset, a lost connection, half a frame at the end.
    Cut {
        /// The connection's message.
        message: String,
    },
    /// It is still open or not, but its bytes are no list or no frames, or of another kind.
    Garbled {
        /// A short description of the fault.
        message: String,
    },
}

/// Why a request came to nothing before its body began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused.
    Refused {
        /// The connection's message.
        message: String,
    },
    /// The server answered with an error.
    Status {
        /// The HTTP status.
        code: u16,
        /// The body, or what stands for it if it was no Status.
        status: Box<Status>,
        /// The header of that name, already counted from now.
        retry_after: Option<Duration>,
    },
    /// Something answered that is no Kubernetes: HTML, a redirect to a login page.
    NotKubernetes {
        /// The HTTP status.
        code: u16,
        /// A short description of the fault.
        message: String,
    },
    /// A certificate was not accepted: the server's here, or the client's there.
    Certificate {
        /// The connection's message.
        message: String,
    },
    /// The connection failed in another way.
    Transport {
        /// The connection's message.
        message: String,
    },
    /// No answer within the deadline.
    Deadline,
}
