//! Probes: named checks, and the replies that the kubelet and people read.
//!
//! ```text
//! GET /readyz[/NAME][?verbose][?exclude=NAME] → checks, in order of their names → 200 ok | 500
//! ```
//!
//! A reply without `?verbose` withholds the causes: they may name what a stranger should not read.
//! INVARIANT: a check neither waits nor asks a server; one that panics has failed.
//!
//! Upstream counterpart: `controller-runtime:pkg/healthz`, which tells the cause at `/readyz/NAME`.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};

use crate::error::{Error, ErrorKind};

/// A check: an error is its cause, in one line.
pub(crate) type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Two sets of checks.
#[derive(Clone, Default)]
pub(crate) struct Probes {
    /// The process is alive: failures restart it.
    pub(crate) live: Checks,
    /// The process is ready: failures keep traffic away from it.
    pub(crate) ready: Checks,
}

/// Checks by name.
#[derive(Clone, Default)]
pub(crate) struct Checks(Arc<RwLock<Vec<Named>>>);

struct Named {
    name: String,
    check: Check,
    /// It counts for the whole set, not only under its own name.
    counts: Counts,
}

/// The reach of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// For the set and under its name.
    Everywhere,
    /// Under its name only.
    UnderItsName,
}

impl Checks {
    /// Adds a check; its name is a part of a path.
    pub(crate) fn add(&self, name: &str, counts: Counts, check: Check) -> Result<(), Error> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_word) {
            let message = format!("a check cannot be named {name:?}: use letters, digits, - _ .");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let mut checks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Err(at) = checks.binary_search_by(|known| known.name.as_str().cmp(name)) else {
            let message = format!("there is a check named {name} already");
            return Err(Error::new(ErrorKind::Usage, message));
        };
        let name = name.to_owned();
        checks.insert(
            at,
            Named {
                name,
                check,
                counts,
            },
        );
        Ok(())
    }

    /// Runs the checks that count and are not excluded; returns the long form and the verdict.
    fn run(&self, path: &str, query: &Query) -> (bool, String) {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (mut is_well, mut text) = (true, String::new());
        for Named {
            name,
            check,
            counts,
        } in checks.iter()
        {
            // Writing to a string does not fail.
            let _ = if *counts == Counts::UnderItsName {
                Ok(())
            } else if query.excluded.contains(name) {
                writeln!(text, "[+]{name} excluded: ok")
            } else {
                match outcome(check) {
                    Ok(()) => writeln!(text, "[+]{name} ok"),
                    Err(cause) => {
                        is_well = false;
                        writeln!(text, "[-]{name} failed: {}", query.cause(&cause))
                    }
                }
            };
        }
        for name in &query.excluded {
            if !checks.iter().any(|known| known.name == *name) {
                let _ = writeln!(text, "warn: no check named {name:?} to exclude");
            }
        }
        let verdict = if is_well { "passed" } else { "failed" };
        let _ = writeln!(text, "{path} check {verdict}");
        (is_well, text)
    }

    fn named(&self, name: &str) -> Option<Check> {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = checks.iter().find(|known| known.name == name)?;
        Some(Arc::clone(&found.check))
    }
}

impl Probes {
    /// Replies to a request of the probes' port.
    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned());
        }
        let mut parts = request.uri().path().trim_start_matches('/').splitn(2, '/');
        let set = match parts.next() {
            Some(set @ ("healthz" | "livez")) => (set, &self.live),
            Some(set @ "readyz") => (set, &self.ready),
            _ => return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        };
        let query = Query::parse(request.uri().query().unwrap_or_default());
        match parts.next().filter(|name| !name.is_empty()) {
            Some(name) => one(set.1, name, &query),
            None => all(set, &query),
        }
    }
}

fn all((path, checks): (&str, &Checks), query: &Query) -> Response<Bytes> {
    let (is_well, long) = checks.run(path, query);
    match (is_well, query.is_verbose) {
        (true, false) => text(StatusCode::OK, "ok".to_owned()),
        (true, true) => text(StatusCode::OK, long),
        (false, _) => text(StatusCode::INTERNAL_SERVER_ERROR, long),
    }
}

fn one(checks: &Checks, name: &str, query: &Query) -> Response<Bytes> {
    match checks.named(name).map(|check| outcome(&check)) {
        None => text(StatusCode::NOT_FOUND, format!("no check named {name:?}\n")),
        Some(Ok(())) => text(StatusCode::OK, "ok".to_owned()),
        Some(Err(cause)) => {
            let cause = query.cause(&cause);
            let body = format!("[-]{name} failed: {cause}\n");
            text(StatusCode::INTERNAL_SERVER_ERROR, body)
        }
    }
}

fn outcome(check: &Check) -> Result<(), String> {
    let caught = catch_unwind(AssertUnwindSafe(|| check()));
    caught.unwrap_or_else(|_| Err("the check panicked".to_owned()))
}

/// The part of a request after `?` that a probe knows.
struct Query {
    is_verbose: bool,
    // BOUND: by the size of a request's head.
    excluded: Vec<String>,
}

impl Query {
    fn parse(query: &str) -> Self {
        let mut parsed = Self {
            is_verbose: false,
            excluded: Vec::new(),
        };
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", value) => parsed.is_verbose = !matches!(value, "0" | "false"),
                ("exclude", name) if !name.is_empty() => parsed.excluded.push(name.to_owned()),
                _ => {}
            }
        }
        parsed
    }

    fn cause<'a>(&self, cause: &'a str) -> &'a str {
        if self.is_verbose {
            cause
        } else {
            "reason withheld"
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes() -> Probes {
        let probes = Probes::default();
        let well: Check = Arc::new(|| Ok(()));
        let ill: Check = Arc::new(|| Err("pods: forbidden".to_owned()));
        let wild: Check = Arc::new(|| panic!("no"));
        let add = |name, counts, check: &Check| {
            let added = probes.ready.add(name, counts, Arc::clone(check));
            added.unwrap();
        };
        add("ping", Counts::Everywhere, &well);
        add("informers", Counts::Everywhere, &ill);
        add("aside", Counts::UnderItsName, &ill);
        probes
            .live
            .add("ping", Counts::Everywhere, Arc::clone(&well))
            .unwrap();
        probes.live.add("wild", Counts::UnderItsName, wild).unwrap();
        probes
    }

    fn ask(probes: &Probes, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Bytes::new()).unwrap();
        let response = probes.answer(&request);
        let body = String::from_utf8(response.body().to_vec()).unwrap();
        (response.status().as_u16(), body)
    }

    // controller-runtime: TestHealthz, "healthz.Handler"
    #[test]
    fn replies_have_the_form_of_upstream_and_causes_are_in_the_long_form_only() {
        let probes = probes();
        for (path, code, body) in [
            ("/healthz", 200, "ok"),
            ("/livez", 200, "ok"),
            ("/healthz/", 200, "ok"),
            (
                "/healthz?verbose",
                200,
                "[+]ping ok\nhealthz check passed\n",
            ),
            ("/healthz/ping", 200, "ok"),
            (
                "/healthz/wild?verbose",
                500,
                "[-]wild failed: the check panicked\n",
            ),
            (
                "/readyz",
                500,
                "[-]informers failed: reason withheld\n[+]ping ok\nreadyz check failed\n",
            ),
            (
                "/readyz?verbose=true",
                500,
                "[-]informers failed: pods: forbidden\n[+]ping ok\nreadyz check failed\n",
            ),
            ("/readyz?exclude=informers", 200, "ok"),
            (
                "/readyz?exclude=informers&exclude=nosuch&verbose",
                200,
                "[+]informers excluded: ok\n[+]ping ok\n\
                 warn: no check named \"nosuch\" to exclude\nreadyz check passed\n",
            ),
            (
                "/readyz/informers",
                500,
                "[-]informers failed: reason withheld\n",
            ),
            (
                "/readyz/informers?verbose",
                500,
                "[-]informers failed: pods: forbidden\n",
            ),
            ("/readyz/aside", 500, "[-]aside failed: reason withheld\n"),
            ("/readyz/nosuch", 404, "no check named \"nosuch\"\n"),
            ("/", 404, "404 page not found\n"),
            ("/metrics", 404, "404 page not found\n"),
        ] {
            assert_eq!(ask(&probes, path), (code, body.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_name_is_a_part_of_a_path_and_is_used_once() {
        let checks = Checks::default();
        for (name, refused) in [
            ("ping", ""),
            ("ping", "already"),
            ("", "cannot be named"),
            ("a/b", "cannot be named"),
            ("a b", "cannot be named"),
            ("cache-sync_2.x", ""),
        ] {
            let added = checks.add(name, Counts::Everywhere, Arc::new(|| Ok(())));
            match added {
                Ok(()) => assert_eq!(refused, "", "{name:?}"),
                Err(error) => assert!(error.to_string().contains(refused), "{error}"),
            }
        }
    }
}
