//! The answer to one request: the truth, or the fault that the script has for it.
//!
//! ```text
//! Request { list | streaming list | watch, version, .. } + Plot ──▶ Answer
//! ```
//!
//! The rules of versions are those of a server with a watch cache. A list at version 0 or N is of
//! now. A watch from N sends the events after N, or reports that N is expired. A streaming list
//! begins with everything. Continue tokens name a version and a place, and expire as versions do.
//!
//! Upstream counterpart: `apiserver:pkg/storage/cacher/delegator.go`, `cacher.go` (`Watch`).

use std::collections::BTreeMap;

use super::history::{State, end_frame, frame, item, object};
use super::script::{Ending, Expired, Fault};
use super::server::Plot;

/// The parts of a request that the answer depends on.
#[derive(Debug, Default)]
pub(crate) struct Request {
    line: String,
    watch: bool,
    initial_events: bool,
    version: String,
    limit: usize,
    token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// No answer: the connection closes.
    HangUp,
    /// All of it.
    Whole { head: Vec<u8>, body: Vec<u8> },
    /// A stream that ends as soon as it has begun.
    Brief {
        head: Vec<u8>,
        body: Vec<u8>,
        ending: Ending,
    },
    /// A stream: this, then the log from there on.
    Watch {
        head: Vec<u8>,
        first: Vec<u8>,
        from: usize,
    },
}

impl Request {
    /// Reads the head of a GET.
    pub(crate) fn parse(head: &str) -> Option<Self> {
        let target = head.strip_prefix("GET ")?.split(' ').next()?;
        let mut request = Self {
            line: target.to_owned(),
            ..Self::default()
        };
        let (_, query) = target.split_once('?').unwrap_or((target, ""));
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let is_on = matches!(value, "1" | "true");
            match name {
                "watch" => request.watch = is_on,
                "sendInitialEvents" => request.initial_events = is_on,
                "resourceVersion" => request.version = value.to_owned(),
                "limit" => request.limit = value.parse().ok()?,
                "continue" => request.token = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(request)
    }

    fn is_streaming(&self) -> bool {
        self.watch && self.initial_events
    }

    fn can_meet(&self, fault: &Fault) -> bool {
        match fault {
            Fault::Code(_) | Fault::HangUp => true,
            Fault::EndsAtOnce(_) => self.watch && !self.initial_events,
            Fault::NoEndBookmark | Fault::ChangesInside => self.is_streaming(),
            Fault::CutList => !self.watch,
            Fault::ExpiredPage => self.token.is_some(),
        }
    }
}

/// Decides on an answer and records it.
pub(crate) fn decide(request: &Request, plot: &mut Plot) -> Answer {
    // A server that does not know streaming lists does not get as far as the fault of one.
    if request.is_streaming() && !plot.streams {
        plot.asked.push(format!("{}: not known here", request.line));
        return refuse(422);
    }
    let fault = plot.meets(|fault| request.can_meet(fault));
    let told = fault.map_or(String::new(), |fault| format!(" {fault:?}"));
    plot.asked.push(format!("{}{told}", request.line));
    match fault {
        Some(Fault::Code(code)) => refuse(code),
        Some(Fault::HangUp) => Answer::HangUp,
        Some(Fault::ExpiredPage) => refuse(410),
        Some(Fault::EndsAtOnce(ending)) => brief(Vec::new(), ending),
        _ if request.is_streaming() => stream(plot, fault),
        _ if request.watch => watch(request, plot),
        _ => list(request, plot, fault),
    }
}

fn stream(plot: &mut Plot, fault: Option<Fault>) -> Answer {
    let mut first: String = plot
        .history
        .objects()
        .iter()
        .map(|(key, state)| frame("ADDED", &object(key, state)))
        .collect();
    if fault == Some(Fault::NoEndBookmark) {
        return brief(first.into(), Ending::Clean);
    }
    let before = plot.history.log().len();
    if fault == Some(Fault::ChangesInside) {
        plot.change_inside();
        plot.has_changed_inside = true;
    }
    let inside = plot.history.log().iter().skip(before);
    first.extend(inside.map(|entry| entry.frame()));
    first.push_str(&end_frame(plot.history.version()));
    plot.lists += 1;
    Answer::Watch {
        head: stream_head(),
        first: first.into(),
        from: plot.history.log().len(),
    }
}

fn watch(request: &Request, plot: &Plot) -> Answer {
    let version: u64 = request.version.parse().unwrap_or_default();
    if plot.history.is_expired(version) {
        return match plot.expired {
            Expired::Refusal => refuse(410),
            Expired::Event => brief(Vec::new(), Ending::Error(410)),
        };
    }
    Answer::Watch {
        head: stream_head(),
        first: Vec::new(),
        from: plot.history.index_after(version),
    }
}

fn list(request: &Request, plot: &mut Plot, fault: Option<Fault>) -> Answer {
    let now = plot.history.version();
    let (version, after) = match request.token.as_deref().and_then(|t| t.split_once('.')) {
        Some((version, place)) => match (version.parse(), place.parse()) {
            (Ok(version), Ok(place)) => (version, place),
            _ => return refuse(400),
        },
        None => (now, 0),
    };
    if plot.history.is_expired(version) {
        return refuse(410);
    }
    let objects = plot.history.objects_at(version);
    let page = match (plot.page, request.limit) {
        (Some(page), 1..) => page.min(request.limit),
        (None, 1..) if request.version.is_empty() => request.limit,
        _ => usize::MAX,
    };
    let end = after + page.min(objects.len() - after.min(objects.len()));
    let token = (end < objects.len()).then(|| format!("{version}.{end}"));
    let body = list_body(version, token.as_deref(), &objects, after..end);
    if fault == Some(Fault::CutList) {
        let body = body.as_bytes()[..body.len() / 2].to_vec();
        return brief(body, Ending::Cut);
    }
    // A list of one item is a question for the version.
    plot.lists += u64::from(token.is_none() && request.limit != 1);
    whole(200, body)
}

fn list_body(
    version: u64,
    token: Option<&str>,
    objects: &BTreeMap<String, State>,
    page: std::ops::Range<usize>,
) -> String {
    let items: Vec<_> = objects
        .iter()
        .map(|(key, state)| item(key, state))
        .collect();
    let items = items.get(page).unwrap_or_default().join(",");
    let token = token.map_or(String::new(), |t| format!(r#","continue":"{t}""#));
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{token}}},"items":[{items}]}}"#
    )
}

fn status(code: u16) -> String {
    let reason = match code {
        400 => "BadRequest",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "",
    };
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"as the script says","reason":"{reason}","code":{code}}}"#
    )
}

/// An ERROR event of this code.
pub(crate) fn error_frame(code: u16) -> String {
    frame("ERROR", &status(code))
}

fn refuse(code: u16) -> Answer {
    whole(code, status(code))
}

fn whole(code: u16, body: String) -> Answer {
    let head = format!(
        "HTTP/1.1 {code} As-Scripted\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    Answer::Whole {
        head: head.into(),
        body: body.into(),
    }
}

fn brief(body: Vec<u8>, ending: Ending) -> Answer {
    Answer::Brief {
        head: stream_head(),
        body,
        ending,
    }
}

fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".to_vec()
}
