//! Troubles between this command and an inspector.
//!
//! ```text
//! error of a request │ status of a reply ─▶ Trouble ─▶ Failure: one line, and a remedy
//! ```
//!
//! Texts of the other side were cut, and control no terminal.
//!
//! Upstream counterpart: none.

use std::error::Error;
use std::time::Duration;

use http::StatusCode;
use kinform_operator::inspect::VERSION;

use super::address::Token;
use crate::exit::Failure;

/// A request without a reply that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody listens, or the connection ended.
    Gone(String),
    /// No reply within this time.
    Silent(Duration),
    /// Something else answers.
    Foreign(String),
    /// An inspector of another version.
    Version(String),
    /// An inspector that is older than this view.
    NoView,
    /// The token is missing or not known.
    Unknown,
    /// The caller may not look.
    Forbidden(String),
    /// All seats are taken, or the program has too much to do.
    Busy,
    /// There is no such object.
    NotThere,
    /// The reply is larger than the limit.
    TooLarge,
    /// A reply of this version that cannot be read.
    Unreadable(String),
    /// The program failed to answer.
    Failed(String),
}

impl Trouble {
    /// The trouble of a request that got no reply.
    pub(super) fn of_request(error: &hyper_util::client::legacy::Error) -> Self {
        let mut cause = Some(error as &dyn Error);
        let mut text = error.to_string();
        while let Some(error) = cause {
            let is_http = error.downcast_ref::<hyper::Error>();
            if is_http.is_some_and(hyper::Error::is_parse) {
                return Self::Foreign("not HTTP".to_owned());
            }
            text = error.to_string();
            cause = error.source();
        }
        Self::Gone(text)
    }

    /// The trouble that a status other than 200 means. Inspectors say `Retry-After` with 503.
    pub(super) fn of_status(status: StatusCode, says_retry: bool, text: String) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::Unknown,
            StatusCode::FORBIDDEN => Self::Forbidden(text),
            StatusCode::NOT_FOUND if text == "404 no such object" => Self::NotThere,
            StatusCode::NOT_FOUND if text == "404 no such view" => Self::NoView,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS if says_retry => {
                Self::Busy
            }
            status if status.is_server_error() => Self::Failed(format!("{status}: {text}")),
            status => Self::Foreign(format!("HTTP {}", status.as_u16())),
        }
    }

    /// Returns whether the same request may be answered a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Gone(_) | Self::Silent(_) | Self::Busy | Self::Failed(_)
        )
    }

    /// The end of a command.
    pub(super) fn failure(&self, place: &str, token: &Token) -> Failure {
        let (message, hint) = match self {
            Self::Gone(_) => (
                "nobody answers there".to_owned(),
                "start the program with its inspector (an operator: --inspect) and attach to the \
                 address that it prints; kubectl port-forward leads to a program in a cluster",
            ),
            Self::Silent(time) => (
                format!("no answer within {} s", time.as_secs()),
                "the program may be stopped or have too much to do: try again",
            ),
            Self::Foreign(what) => (
                format!("something else than an inspector answers there: {what}"),
                "attach to the whole address that the program printed",
            ),
            Self::Version(theirs) => (
                format!("the program's inspector speaks {theirs:?}, and this command {VERSION:?}"),
                match version(theirs) > version(VERSION) {
                    true => "use a newer kinform command",
                    false => {
                        "build the program with a newer kinform, or use the kinform command of \
                              its version"
                    }
                },
            ),
            Self::NoView => (
                "the program's inspector does not have this view: it is older than this command"
                    .to_owned(),
                "build the program with a newer kinform, or use the kinform command of its version",
            ),
            Self::Unknown => unknown(token),
            Self::Forbidden(why) if why.starts_with("forbidden: the request") => {
                (why.clone(), "attach to 127.0.0.1 or localhost")
            }
            Self::Forbidden(why) => (
                format!("this account may not look: {why}"),
                "bind it to a role with get of the nonResourceURL /debug/kinform/*",
            ),
            Self::Busy => (
                "all seats are taken (503)".to_owned(),
                "eight viewers look already: close one of them",
            ),
            Self::NotThere => (
                "the program does not have this object, or this account may not list it".to_owned(),
                "kinform top finds objects: the key 4, then /",
            ),
            Self::TooLarge => (
                "the reply has more than 16 MiB".to_owned(),
                "ask for less, as by a part of the name",
            ),
            Self::Unreadable(why) => (
                format!("the reply cannot be read: {why}"),
                "use the kinform command of the program's version",
            ),
            Self::Failed(why) => (
                format!("the program failed to answer: {why}"),
                "its log may say why",
            ),
        };
        Failure::new(format!("{place}: {message}")).with_hint(hint)
    }
}

fn unknown(token: &Token) -> (String, &'static str) {
    let again = "each start of a program has its own token: attach to the address that it printed \
                 now; of an operator, kubectl create token ACCOUNT makes one for KINFORM_TOKEN";
    match token {
        Token::Missing => (
            "a token is needed".to_owned(),
            "attach to the whole address that the program printed, with #token=.., or to the file \
             that it wrote; or set KINFORM_TOKEN, of an operator to what kubectl create token \
             ACCOUNT prints",
        ),
        Token::Address(_) => ("the token of the address is not accepted".to_owned(), again),
        Token::Variable(_) => (
            "the token of KINFORM_TOKEN is not accepted".to_owned(),
            again,
        ),
        Token::File(_, path) => (
            format!("the token of {} is not accepted", path.display()),
            again,
        ),
    }
}

/// The number of a version such as `v1`; 0 of another word.
fn version(text: &str) -> u64 {
    let number = text.strip_prefix('v').unwrap_or_default();
    number.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_is_one_line_and_a_remedy() {
        let status = |code: u16, says_retry, text: &str| {
            let status = StatusCode::from_u16(code).unwrap();
            Trouble::of_status(status, says_retry, text.to_owned())
        };
        for (trouble, token, message, hint) in [
            (
                Trouble::Gone("x".to_owned()),
                None,
                "nobody answers",
                "--inspect",
            ),
            (
                Trouble::Silent(Duration::from_secs(5)),
                None,
                "within 5 s",
                "try again",
            ),
            (
                status(404, false, "<html>"),
                None,
                "something else than an inspector answers there: HTTP 404",
                "whole address",
            ),
            (
                status(503, false, "<html>"),
                None,
                "503 Service Unavailable: <html>",
                "log",
            ),
            (status(302, false, ""), None, "HTTP 302", "whole address"),
            (
                status(401, false, ""),
                None,
                "a token is needed",
                "KINFORM_TOKEN",
            ),
            (
                status(401, false, ""),
                Some("t"),
                "the token of the address",
                "each start",
            ),
            (
                status(403, false, "forbidden: the request names another host"),
                None,
                "another host",
                "localhost",
            ),
            (
                status(403, false, "no"),
                None,
                "may not look: no",
                "/debug/kinform/*",
            ),
            (status(503, true, ""), None, "seats", "close one"),
            (
                status(404, false, "404 no such object"),
                None,
                "does not have this object",
                "kinform top",
            ),
            (
                status(404, false, "404 no such view"),
                None,
                "does not have this view",
                "build the program",
            ),
            (
                status(500, false, "the view failed"),
                None,
                "the view failed",
                "log",
            ),
            (
                Trouble::Version("v0".to_owned()),
                None,
                "speaks \"v0\"",
                "build the program",
            ),
            (
                Trouble::Version("v2".to_owned()),
                None,
                "speaks \"v2\"",
                "newer kinform command",
            ),
            (
                Trouble::Version("odd".to_owned()),
                None,
                "speaks \"odd\"",
                "build the program",
            ),
            (Trouble::TooLarge, None, "16 MiB", "ask for less"),
            (
                Trouble::Unreadable("x".to_owned()),
                None,
                "cannot be read: x",
                "version",
            ),
        ] {
            let token = token.map_or(Token::Missing, |it: &str| Token::Address(it.to_owned()));
            let failure = trouble.failure("127.0.0.1:1", &token);
            let text = failure.to_string();
            assert_eq!((failure.code(), text.lines().count()), (1, 2), "{text}");
            let (first, second) = text.split_once('\n').unwrap();
            assert!(first.starts_with("error: 127.0.0.1:1: "), "{first}");
            assert!(first.contains(message) && second.contains(hint), "{text}");
        }
    }
}
