//! A model of a server: objects, one revision log, and every way to go wrong.
//!
//! ```text
//! Request, time → Server → inputs for the reflector, at once (lists) or as time goes by (watches)
//! ```
//!
//! Lists and watches follow `apiserver:pkg/storage/cacher`: any state at version 0, exact pages, a
//! watch from its version's future that stays silent, 410 as an event or as a status, an end bookmark
//! after the initial events, or 422 for them, or no idea of them. Deletions carry their own version.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kinform_api::{ListOptions, ResourceVersion, Status, WatchOptions, reason};
use kinform_core::reflector::Request;
use kinform_core::reflector::input::{Ending, Event, Failure, Input};
use kinform_core::time::Instant;
use kinform_core::{Object, Projection};

/// SplitMix64: a seed is a run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Name to uid and version.
pub(crate) type Objects = BTreeMap<String, (u64, u64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamingLists {
    Served,
    /// 422, as with the gate off.
    Refused,
    /// As a server that does not know the parameter: an ordinary watch.
    Ignored,
}

#[derive(Clone)]
struct Entry {
    revision: u64,
    what: &'static str,
    name: String,
    uid: u64,
}

pub(crate) struct Server {
    pub(crate) objects: Objects,
    pub(crate) revision: u64,
    log: Vec<Entry>,
    /// Nothing at or below is known but the present.
    floor: u64,
    pub(crate) next_uid: u64,
    pub(crate) streaming: StreamingLists,
    pub(crate) sends_bookmarks: bool,
    pub(crate) is_up: bool,
    /// One answer in `failures` fails; 0 means that no answer fails.
    pub(crate) failures: u64,
}

/// The one request that is open.
#[derive(Default)]
pub(crate) struct Connection {
    pub(crate) pending: VecDeque<Input>,
    watch: Option<Watch>,
    /// Nothing comes any more, and nobody says so.
    pub(crate) is_stalled: bool,
}

struct Watch {
    sent: u64,
    next_bookmark: Instant,
    ends_at: Instant,
}

impl Server {
    pub(crate) fn new(streaming: StreamingLists) -> Self {
        Self {
            objects: Objects::new(),
            revision: 10,
            log: Vec::new(),
            floor: 10,
            next_uid: 1,
            streaming,
            sends_bookmarks: true,
            is_up: true,
            failures: 0,
        }
    }

    /// Creates, changes or deletes something.
    pub(crate) fn write(&mut self, chance: &mut Chance) {
        self.revision += 1;
        let name = format!("o{}", chance.below(12));
        let (what, uid) = match self.objects.get(&name) {
            None => ("added", self.new_uid()),
            Some((uid, _)) if chance.one_in(3) => ("deleted", *uid),
            Some((uid, _)) => ("modified", *uid),
        };
        let entry = Entry {
            revision: self.revision,
            what,
            name,
            uid,
        };
        replay(&mut self.objects, &entry);
        self.log.push(entry);
    }

    /// Compacts the history away.
    pub(crate) fn expire(&mut self) {
        self.floor = self.revision;
    }

    /// Goes back to an earlier revision, as from a backup.
    pub(crate) fn restore(&mut self, revision: u64) {
        if let Some(objects) = self.state_at(revision) {
            self.objects = objects;
            self.revision = revision;
            self.log.retain(|entry| entry.revision <= revision);
            self.expire();
        }
    }

    /// Forgets everything.
    pub(crate) fn wipe(&mut self) {
        self.objects.clear();
        self.log.clear();
        self.revision = 2;
        self.floor = 2;
    }

    fn new_uid(&mut self) -> u64 {
        self.next_uid += 1;
        self.next_uid
    }

    /// The state at a revision, if it is still known.
    fn state_at(&self, revision: u64) -> Option<Objects> {
        if revision == self.revision {
            return Some(self.objects.clone());
        }
        let mut objects = Objects::new();
        for entry in self
            .log
            .iter()
            .take_while(|entry| entry.revision <= revision)
        {
            replay(&mut objects, entry);
        }
        (revision >= self.floor && revision < self.revision).then_some(objects)
    }

    pub(crate) fn answer(
        &self,
        request: &Request,
        now: Instant,
        chance: &mut Chance,
    ) -> Connection {
        let mut connection = Connection::default();
        if !self.is_up {
            let message = "refused".to_owned();
            connection.say(Input::Failed(Failure::Refused { message }));
        } else if self.failures > 0 && chance.one_in(self.failures) {
            connection.say(Input::Failed(failure(chance)));
        } else {
            match request {
                Request::List { options, .. } | Request::Probe { options, .. } => {
                    self.list(options, &mut connection, chance);
                }
                Request::Watch { options, .. } => {
                    self.watch(options, &mut connection, now, chance);
                }
            }
        }
        connection
    }

    fn list(&self, options: &ListOptions, connection: &mut Connection, chance: &mut Chance) {
        let asked = options.resource_version.clone().unwrap_or_default();
        let number = asked.parsed();
        if number.is_some_and(|number| number > self.revision) {
            return connection.say(refusal(self.too_large(number.unwrap_or_default())));
        }
        let (at, after) = match options
            .continue_token
            .as_deref()
            .and_then(|t| t.split_once(':'))
        {
            Some((revision, after)) => (revision.parse().unwrap(), after.to_owned()),
            // A cache may be behind.
            None if asked.is_zero() => (
                self.revision - chance.below(4).min(self.revision - self.floor),
                String::new(),
            ),
            None if number.is_some() && options.limit.is_some() => (number.unwrap(), String::new()),
            None => (self.revision, String::new()),
        };
        let Some(objects) = self.state_at(at) else {
            return connection.say(refusal(Status::expired("too old")));
        };
        connection.say(Input::Accepted);
        let limit = options.limit.map_or(usize::MAX, |limit| limit as usize);
        let rest: Vec<_> = objects.iter().filter(|(name, _)| **name > after).collect();
        for (name, (uid, version)) in rest.iter().take(limit) {
            connection.say(Input::Item(Ok(object(name, *uid, *version))));
            if self.failures > 0 && chance.one_in(40) {
                return connection.say(cut());
            }
        }
        let token = match rest.get(limit.saturating_sub(1)) {
            Some((name, _)) if rest.len() > limit => format!("{at}:{name}"),
            _ => String::new(),
        };
        connection.say(Input::PageEnd {
            version: at.into(),
            continue_token: token,
            remaining: None,
        });
    }

    fn watch(
        &self,
        options: &WatchOptions,
        connection: &mut Connection,
        now: Instant,
        chance: &mut Chance,
    ) {
        let asked = options.resource_version.clone().unwrap_or_default();
        let number = asked.parsed();
        let wants_state = options.send_initial_events == Some(true);
        let mut sent = number.unwrap_or(self.revision);
        if wants_state && self.streaming == StreamingLists::Refused {
            return connection.say(refusal(Status::failure(422, reason::INVALID, "forbidden")));
        }
        let is_streamed = wants_state && self.streaming == StreamingLists::Served;
        let too_old = number.is_some_and(|number| number < self.floor);
        if !is_streamed && too_old && chance.one_in(4) {
            return connection.say(refusal(Status::expired("too old")));
        }
        connection.say(Input::Accepted);
        if !is_streamed && too_old {
            connection.say(Input::Event(Event::Error(Some(Status::expired("too old")))));
            return connection.say(Input::Ended(Ending::Clean));
        }
        if is_streamed && number.is_some_and(|number| number > self.revision) {
            let status = self.too_large(number.unwrap_or_default());
            connection.say(Input::Event(Event::Error(Some(status))));
            return connection.say(Input::Ended(Ending::Clean));
        }
        if is_streamed || number.is_none() {
            sent = self.revision;
            for (name, (uid, version)) in &self.objects {
                connection.say(Input::Event(Event::Added(object(name, *uid, *version))));
            }
        }
        if is_streamed {
            let version = ResourceVersion::from(self.revision);
            connection.say(Input::Event(Event::Bookmark {
                version,
                initial_events_end: true,
            }));
        }
        let next_bookmark = now + Duration::from_secs(60);
        let ends_at = now + options.timeout.unwrap_or(Duration::from_secs(1_800));
        connection.watch = Some(Watch {
            sent,
            next_bookmark,
            ends_at,
        });
    }

    /// Sends a watch the events and bookmarks that are due.
    pub(crate) fn go_on(&self, connection: &mut Connection, now: Instant) {
        let Connection {
            pending,
            watch: Some(watch),
            is_stalled: false,
        } = connection
        else {
            return;
        };
        let log = &self.log;
        let new = log.partition_point(|entry| entry.revision <= watch.sent);
        for entry in &log[new..] {
            let object = object(&entry.name, entry.uid, entry.revision);
            pending.push_back(Input::Event(match entry.what {
                "added" => Event::Added(object),
                "modified" => Event::Modified(object),
                _ => Event::Deleted(object),
            }));
            watch.sent = entry.revision;
        }
        if self.sends_bookmarks && watch.next_bookmark <= now {
            watch.next_bookmark = now + Duration::from_secs(60);
            let version = ResourceVersion::from(self.revision);
            pending.push_back(Input::Event(Event::Bookmark {
                version,
                initial_events_end: false,
            }));
        }
        if watch.ends_at <= now {
            pending.push_back(Input::Ended(Ending::Clean));
            connection.watch = None;
        }
    }

    fn too_large(&self, asked: u64) -> Status {
        Status::too_large_resource_version(asked, self.revision)
    }
}

impl Connection {
    pub(crate) fn say(&mut self, input: Input) {
        self.pending.push_back(input);
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.watch.is_some()
    }

    /// The connection breaks, or ends in order, after what was sent or before.
    pub(crate) fn end(&mut self, chance: &mut Chance) {
        if self.watch.take().is_some() {
            let kept = chance.below(self.pending.len() as u64 + 1) as usize;
            // The first is the acceptance.
            self.pending.truncate(kept.max(1));
            let ending = if chance.one_in(3) {
                Input::Ended(Ending::Clean)
            } else {
                cut()
            };
            self.say(ending);
        }
    }
}

fn replay(objects: &mut Objects, entry: &Entry) {
    if entry.what == "deleted" {
        objects.remove(&entry.name);
    } else {
        objects.insert(entry.name.clone(), (entry.uid, entry.revision));
    }
}

pub(crate) fn object(name: &str, uid: u64, version: u64) -> Object {
    let body = format!(
        r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"u{uid}","resourceVersion":"{version}"}},"data":"{:200}"}}"#,
        "what all of them say"
    );
    Object::from_json(body.as_bytes(), &Projection::default()).unwrap()
}

fn cut() -> Input {
    Input::Ended(Ending::Cut {
        message: "reset".to_owned(),
    })
}

fn refusal(status: Status) -> Input {
    Input::Failed(Failure::Status {
        code: status.code,
        status: Box::new(status),
        retry_after: None,
    })
}

fn failure(chance: &mut Chance) -> Failure {
    let message = || "broke".to_owned();
    let status = |status: Status| Failure::Status {
        code: status.code,
        status: Box::new(status),
        retry_after: None,
    };
    match chance.below(6) {
        0 => Failure::Transport { message: message() },
        1 => Failure::NotKubernetes {
            code: 200,
            message: message(),
        },
        2 => status(Status::too_many_requests("later", 2)),
        3 => status(Status::internal_error("oops")),
        4 => status(Status::service_unavailable("down")),
        _ => status(Status::unauthorized()),
    }
}
