//! The doctor's verdicts: facts of replies and streams become checks.
//!
//! ```text
//! error of a connection │ version │ two clocks │ code of a list │ a stream's times and keys ──▶ Check
//! ```
//!
//! Pure: no request is made here.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kinform::source::SourceErrorKind;
use serde::Deserialize;

use super::check::Check;
use super::probe::{Clock, Reply, Stream, Unanswered};

/// The oldest and the newest minor version that this program is tested with.
const TESTED: (u32, u32) = (33, 37);
/// The difference of two clocks at which tokens, certificates and leases begin to fail.
const MAX_SKEW: Duration = Duration::from_secs(5);
/// The time after which certificates of a kubeconfig are worth a word.
const SOON: Duration = Duration::from_secs(14 * 24 * 3_600);
/// The time within which the first event of a stream comes from a server that has one.
pub(super) const PROMPT: Duration = Duration::from_millis(2_500);

/// A reply to `/version`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerVersion {
    #[serde(default)]
    pub(crate) major: String,
    #[serde(default)]
    pub(crate) minor: String,
    #[serde(default)]
    pub(crate) git_version: String,
}

/// The scope of the checks, as flags of kubectl that give a right in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    /// `None` for all namespaces.
    pub(super) namespace: Option<&'a str>,
    /// As `deployments.apps`.
    pub(super) title: &'a str,
}

/// The server does not answer.
pub(super) fn unanswered(error: &Unanswered, via_proxy: Option<&str>) -> Check {
    let message = error.message.clone();
    let lower = message.to_lowercase();
    match error.kind {
        SourceErrorKind::Certificate if lower.contains("expired") => Check::problem(
            "certificate",
            message,
            "renew the server's certificate (`kubeadm certs renew all` on its node); if it is younger than that, set this machine's clock",
        ),
        SourceErrorKind::Certificate if lower.contains("not valid yet") => Check::problem(
            "certificate",
            message,
            "set this machine's clock: for it, the certificate begins in the future",
        ),
        SourceErrorKind::Certificate => Check::problem(
            "certificate",
            message,
            "--certificate-authority and --tls-server-name choose what is accepted, --client-certificate what is shown",
        ),
        SourceErrorKind::NotKubernetes => Check::problem(
            "connection",
            message,
            "a proxy or login page is in between: check the server's address in the kubeconfig, and HTTPS_PROXY",
        ),
        SourceErrorKind::Request => Check::problem(
            "credentials",
            message,
            "log the user of this context in again, or give another one by --token, --user or --context",
        ),
        _ => {
            let remedy = match via_proxy {
                Some(proxy) => format!("requests go through {proxy}: is it up? NO_PROXY and --proxy-url choose"),
                None => "is the server running, and does this machine reach it? --context and --server choose another".to_owned(),
            };
            Check::problem("connection", message, remedy)
        }
    }
}

/// The reply to `/version` is a refusal.
pub(super) fn refused(reply: &Reply) -> Option<Check> {
    let words = format!("GET /version: {} {}", reply.code, reply.message);
    let words = words.trim_end().to_owned();
    match reply.code {
        200 => None,
        401 => Some(Check::problem(
            "credentials",
            words,
            "the token or certificate is wrong or has expired: log in again, or give another one by --token",
        )),
        403 => Some(Check::problem(
            "credentials",
            words,
            "bind the role system:public-info-viewer to this user's group; every cluster has it",
        )),
        _ => Some(Check::problem(
            "connection",
            words,
            "this is no Kubernetes API server, or one that fails: check the server's address in the kubeconfig",
        )),
    }
}

/// The age of the server's version.
pub(super) fn version(version: &ServerVersion) -> Check {
    let digits: String = version
        .minor
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let (oldest, newest) = TESTED;
    let name = &version.git_version;
    match (&*version.major, digits.parse::<u32>()) {
        ("1", Ok(minor)) if minor < oldest => Check::problem(
            "version",
            format!("the server is {name}, older than 1.{oldest}"),
            format!("upgrade the cluster: 1.{oldest} to 1.{newest} are supported"),
        ),
        ("1", Ok(minor)) if minor > newest => Check::note(
            "version",
            format!(
                "the server is {name}, newer than 1.{newest}, with which this program is tested"
            ),
        ),
        (_, Ok(_)) => Check::ok("version", name.clone()),
        (_, Err(_)) => Check::note(
            "version",
            format!("the server states none that can be read: {name:?}"),
        ),
    }
}

/// The difference of the clocks.
pub(super) fn clock(clock: Option<Clock>) -> Check {
    let Some(Clock {
        before,
        stated,
        after,
    }) = clock
    else {
        return Check::note("clock", "the server states no time");
    };
    // A header has whole seconds.
    let behind = before.duration_since(stated).as_secs_f64() - 1.0;
    let ahead = stated.duration_since(after).as_secs_f64();
    let skew = behind.max(ahead).max(0.0);
    if skew <= MAX_SKEW.as_secs_f64() {
        return Check::ok("clock", "the server's and this machine's agree");
    }
    let side = if ahead > behind { "ahead of" } else { "behind" };
    Check::problem(
        "clock",
        format!("the server's clock is {skew:.0} s {side} this machine's"),
        "synchronize both with NTP (`timedatectl status` on each): tokens, certificates and leases end by the clock",
    )
}

/// A certificate of the kubeconfig, and the time until it is valid.
pub(super) fn certificate(name: &str, until: Timestamp, now: Timestamp) -> Check {
    let left = until.duration_since(now);
    let date = until.strftime("%Y-%m-%d %H:%M:%SZ");
    if left.is_negative() {
        return Check::problem(
            "certificate",
            format!("{name} has expired: it was valid until {date}"),
            "get a new kubeconfig (`kubeadm kubeconfig user`, or log in again)",
        );
    }
    match left.unsigned_abs() < SOON {
        true => Check::note("certificate", format!("{name} is valid until {date} only")),
        false => Check::ok("certificate", format!("{name} is valid until {date}")),
    }
}

impl Scope<'_> {
    fn role(&self) -> String {
        let title = self.title;
        match self.namespace {
            Some(namespace) => format!(
                "an administrator grants it: kubectl -n {namespace} create role {title}-reader --verb=get,list,watch --resource={title}, then create rolebinding"
            ),
            None => format!(
                "an administrator grants it: kubectl create clusterrole {title}-reader --verb=get,list,watch --resource={title}, then create clusterrolebinding; or try -n NAMESPACE"
            ),
        }
    }
}

/// The reply to a list.
pub(super) fn list(scope: Scope<'_>, reply: &Result<Reply, Unanswered>) -> Check {
    let check = match reply {
        Err(error) => Check::problem(
            "list",
            error.message.clone(),
            "try again: the server was slow or the connection broke",
        ),
        Ok(reply) => match reply.code {
            200 => Check::ok("list", "allowed"),
            403 => Check::problem(
                "list",
                format!("no right to list: {}", reply.message),
                scope.role(),
            ),
            404 => missing(scope.title),
            code => Check::problem(
                "list",
                format!("{code} {}", reply.message),
                "the server's log says more; a type of an aggregated API fails with its server",
            ),
        },
    };
    check.of(scope.title)
}

/// The type is not served.
pub(super) fn missing(title: &str) -> Check {
    Check::problem(
        "definition",
        format!("the server does not serve {title}"),
        format!("install its CustomResourceDefinition (kubectl get crd {title}), or correct the name: `kubectl api-resources` lists all"),
    )
    .of(title)
}

/// The refusal of a watch; `None` if it was not refused.
pub(super) fn refused_watch(scope: Scope<'_>, stream: &Stream) -> Option<Check> {
    let check = match (stream.code, stream.error) {
        (403, _) => Check::problem(
            "watch",
            format!("no right to watch: {}", stream.message),
            scope.role(),
        ),
        (0 | 200, None) => return None,
        (410, _) | (200, Some(410)) => return Some(history(scope, stream)),
        (code, error) => Check::problem(
            "watch",
            format!("{} {}", error.unwrap_or(code), stream.message),
            "the server's log says more; an informer lists again and again until this ends",
        ),
    };
    Some(check.of(scope.title))
}

/// A watch that begins at the version of a list that was made just now.
pub(super) fn history(scope: Scope<'_>, stream: &Stream) -> Check {
    let check = match stream.error.unwrap_or(stream.code) {
        410 => Check::problem(
            "history",
            "the version of a list from a moment ago is too old to watch",
            "keep more history: a longer --etcd-compaction-interval of the API server, and no proxy that answers from an old cache",
        ),
        _ => Check::ok("history", "a watch resumes at the version of a list"),
    };
    check.of(scope.title)
}

/// The times of a stream that must have begun at once: each has a bookmark or an event to send.
pub(super) fn buffering(scope: Scope<'_>, stream: &Stream) -> Option<Check> {
    let held = match stream.first {
        Some(first) if first < PROMPT => return None,
        Some(first) => format!(
            "the first event came after {:.1} s, as the watch ended",
            first.as_secs_f64()
        ),
        None => "no event came, although there is one".to_owned(),
    };
    Some(
        Check::problem(
            "proxy",
            format!("{held}: something between here and the server holds answers back"),
            "turn buffering off on the way (nginx: proxy_buffering off; proxy_read_timeout 1h), or connect to the server itself",
        )
        .of(scope.title),
    )
}

/// The initial events of a streaming list, compared with a list at the same version.
pub(super) fn streaming(
    scope: Scope<'_>,
    stream: &Stream,
    listed: Option<&BTreeSet<String>>,
) -> Check {
    const REMEDY: &str = "turn streaming lists off (kinform: the list mode `list`; client-go: KUBE_FEATURE_WatchListClient=false), and look at the server or proxy that answers so";
    let check = match (&stream.end, listed) {
        _ if stream.code == 400 || stream.code == 422 => {
            Check::note("streaming list", "not offered; informers list by pages")
        }
        (None, _) if stream.is_over => Check::problem(
            "streaming list",
            "the server takes the request and never says that the list is complete",
            REMEDY,
        ),
        (None, _) => Check::note(
            "streaming list",
            format!(
                "{} objects came, and not all within the time of this check",
                stream.keys.len()
            ),
        ),
        (Some(_), Some(listed)) if *listed != stream.keys => Check::problem(
            "streaming list",
            format!(
                "its objects are not those of a list at the same version: {} missing, {} too many",
                listed.difference(&stream.keys).count(),
                stream.keys.difference(listed).count()
            ),
            REMEDY,
        ),
        (Some(_), Some(_)) => Check::ok(
            "streaming list",
            format!("{} objects, as a list has them", stream.keys.len()),
        ),
        (Some(_), None) => Check::ok(
            "streaming list",
            format!(
                "{} objects; too many to compare them with a list",
                stream.keys.len()
            ),
        ),
    };
    check.of(scope.title)
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::*;

    const SCOPE: Scope<'static> = Scope {
        namespace: Some("shop"),
        title: "pods",
    };

    #[track_caller]
    fn check(found: &Check, verdict: Verdict, name: &str) {
        assert_eq!((found.verdict, found.check), (verdict, name), "{found:?}");
        assert_eq!(
            found.remedy.is_some(),
            verdict == Verdict::Problem,
            "{found:?}"
        );
    }

    #[test]
    fn versions_are_judged_by_their_minor() {
        for (minor, expected) in [
            ("24", Verdict::Problem),
            ("32+", Verdict::Problem),
            ("33", Verdict::Ok),
            ("37+", Verdict::Ok),
            ("38", Verdict::Note),
            ("", Verdict::Note),
        ] {
            let found = ServerVersion {
                major: "1".to_owned(),
                minor: minor.to_owned(),
                git_version: format!("v1.{minor}.0"),
            };
            check(&version(&found), expected, "version");
        }
    }

    #[test]
    fn clocks_may_differ_by_the_time_of_a_request_and_five_seconds() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        for (before, stated, after, expected) in [
            (0, 0, 0, Verdict::Ok),
            (0, -1, 1, Verdict::Ok),
            (0, 8, 9, Verdict::Ok),
            (0, -6, 1, Verdict::Ok),
            (0, -7, 1, Verdict::Problem),
            (0, 7, 1, Verdict::Problem),
            (0, -3_600, 1, Verdict::Problem),
        ] {
            let clocks = Clock {
                before: at(before),
                stated: at(stated),
                after: at(after),
            };
            check(&clock(Some(clocks)), expected, "clock");
        }
        check(&clock(None), Verdict::Note, "clock");
    }

    #[test]
    fn certificates_are_named_before_they_end() {
        let at = |days: i64| Timestamp::from_second(days * 86_400).unwrap();
        for (until, expected) in [
            (99, Verdict::Problem),
            (101, Verdict::Note),
            (200, Verdict::Ok),
        ] {
            check(
                &certificate("it", at(until), at(100)),
                expected,
                "certificate",
            );
        }
    }

    #[test]
    fn connections_that_fail_have_a_remedy_each() {
        for (kind, message, name) in [
            (
                SourceErrorKind::Certificate,
                "certificate expired",
                "certificate",
            ),
            (SourceErrorKind::Certificate, "not valid yet", "certificate"),
            (
                SourceErrorKind::Certificate,
                "unknown issuer",
                "certificate",
            ),
            (SourceErrorKind::Refused, "refused", "connection"),
            (SourceErrorKind::Deadline, "late", "connection"),
            (SourceErrorKind::NotKubernetes, "a page", "connection"),
            (SourceErrorKind::Request, "no token", "credentials"),
        ] {
            let error = Unanswered {
                kind,
                message: message.to_owned(),
            };
            check(&unanswered(&error, None), Verdict::Problem, name);
        }
    }

    #[test]
    fn streams_are_judged_by_their_times_and_keys() {
        let keys = |names: &[&str]| {
            names
                .iter()
                .map(|it| (*it).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let listed = keys(&["a", "b"]);
        let stream = |end: bool, names: &[&str]| Stream {
            code: 200,
            first: Some(Duration::from_millis(5)),
            end: end.then(|| "5".to_owned()),
            keys: keys(names),
            is_over: true,
            ..Stream::default()
        };
        for (stream, expected) in [
            (stream(true, &["a", "b"]), Verdict::Ok),
            (stream(true, &["a"]), Verdict::Problem),
            (stream(true, &["a", "b", "c"]), Verdict::Problem),
            (stream(false, &["a", "b"]), Verdict::Problem),
            (
                Stream {
                    code: 422,
                    ..Stream::default()
                },
                Verdict::Note,
            ),
        ] {
            check(
                &streaming(SCOPE, &stream, Some(&listed)),
                expected,
                "streaming list",
            );
        }
        for (first, is_held) in [(Some(100), false), (Some(3_900), true), (None, true)] {
            let stream = Stream {
                first: first.map(Duration::from_millis),
                ..stream(true, &[])
            };
            assert_eq!(buffering(SCOPE, &stream).is_some(), is_held, "{first:?}");
        }
        let too_old = Stream {
            error: Some(410),
            ..stream(false, &[])
        };
        check(&history(SCOPE, &too_old), Verdict::Problem, "history");
        check(
            &refused_watch(SCOPE, &too_old).unwrap(),
            Verdict::Problem,
            "history",
        );
        let forbidden = Stream {
            code: 403,
            ..Stream::default()
        };
        check(
            &refused_watch(SCOPE, &forbidden).unwrap(),
            Verdict::Problem,
            "watch",
        );
    }
}
