//! Rules of faults as text, for a command line and for requests.
//!
//! ```text
//! verb=watch,resource=pods,nth=2,times=3,status=429,retry-after=1 ◀──▶ FaultRule
//! ```
//!
//! Words between commas, each a key with a value or a key alone; one of them is the fault. A
//! message stands last, since it may have commas.
//!
//! | word                                  | means                                                         |
//! |---------------------------------------|---------------------------------------------------------------|
//! | `verb=V` `resource=PLURAL`            | only such requests                                            |
//! | `nth=N` `times=N` `times=always`      | from the Nth of them on, that often (1)                       |
//! | `status=CODE`                         | this status; `reason=`, `retry-after=SECONDS`, `message=`     |
//! | `error=CODE`                          | a watch that begins and fails with this status                |
//! | `text=CODE` `page=CODE`               | a plain text, a page of HTML; `retry-after=SECONDS`           |
//! | `empty`                               | a watch that begins and ends                                  |
//! | `delay=DURATION` `hang`               | the answer later, or never                                    |
//! | `truncate=BYTES` `stall=BYTES`        | that much of the body, then a broken or a silent connection   |
//! | `lose-reply`                          | the request is carried out, its answer lost                   |

use std::fmt;
use std::str::FromStr;

use kinform_api::{Status, StatusDetails, reason};

use crate::fault::{Fault, FaultRule};
use crate::object::duration::duration;

/// Invalid rule, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fault rule: {0}")]
pub struct InvalidRule(String);

const TEXT: (&str, &str) = (
    "text/plain; charset=utf-8",
    "Too many requests, please try again later.",
);
const PAGE: (&str, &str) = ("text/html", "<html><body>Bad gateway</body></html>\n");

/// Parsed words of a rule, before they are combined.
#[derive(Default)]
struct Words<'a> {
    fault: Option<(&'a str, &'a str)>,
    reason: Option<&'a str>,
    message: Option<&'a str>,
    retry_after: Option<u32>,
}

impl FromStr for FaultRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let (mut rule, mut words) = (Self::new(Fault::EmptyStream), Words::default());
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (word, after) = match rest.split_once(',') {
                Some((word, after)) if !word.trim().starts_with("message=") => (word, after),
                _ => (rest, ""),
            };
            rest = after.trim();
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let (key, value) = (key.trim(), value.trim());
            rule = match key {
                "verb" => rule.on_verb(value),
                "resource" => rule.on_resource(value),
                "nth" => rule.from_nth(number(key, value)?),
                "times" if value == "always" => rule.always(),
                "times" => rule.times(number(key, value)?),
                _ => {
                    words.take(key, value)?;
                    rule
                }
            };
        }
        rule.fault = words.fault()?;
        Ok(rule)
    }
}

impl<'a> Words<'a> {
    fn take(&mut self, key: &'a str, value: &'a str) -> Result<(), InvalidRule> {
        const FAULTS: [&str; 10] = [
            "status",
            "error",
            "text",
            "page",
            "empty",
            "delay",
            "hang",
            "truncate",
            "stall",
            "lose-reply",
        ];
        match key {
            "reason" => self.reason = Some(value),
            "message" => self.message = Some(value),
            "retry-after" => self.retry_after = Some(number(key, value)?),
            fault if FAULTS.contains(&fault) => {
                if let Some((other, _)) = self.fault.replace((key, value)) {
                    return Err(InvalidRule(format!("{other} and {fault} are two faults")));
                }
            }
            other => return Err(InvalidRule(format!("{other:?} is not known"))),
        }
        Ok(())
    }

    fn fault(&self) -> Result<Fault, InvalidRule> {
        let Some((key, value)) = self.fault else {
            return Err(InvalidRule("it names no fault".to_owned()));
        };
        let foreign = |(media, body)| {
            Ok(Fault::Foreign {
                code: code(key, value)?,
                media,
                body,
                retry_after: self.retry_after,
            })
        };
        Ok(match key {
            "status" => Fault::Reply(self.status(code(key, value)?)),
            "error" => Fault::ErrorEvent(self.status(code(key, value)?)),
            "text" => foreign(TEXT)?,
            "page" => foreign(PAGE)?,
            "empty" => Fault::EmptyStream,
            "hang" => Fault::Hang,
            "lose-reply" => Fault::LoseReply,
            "delay" => Fault::Delay(duration(value).ok_or_else(|| {
                InvalidRule(format!("delay={value}: a duration looks like 500ms or 10s"))
            })?),
            "truncate" => Fault::TruncateAfter(number(key, value)?),
            _ => Fault::StallAfter(number(key, value)?),
        })
    }

    fn status(&self, code: u16) -> Status {
        let usual = match code {
            400 => reason::BAD_REQUEST,
            401 => reason::UNAUTHORIZED,
            403 => reason::FORBIDDEN,
            404 => reason::NOT_FOUND,
            405 => reason::METHOD_NOT_ALLOWED,
            409 => reason::CONFLICT,
            410 => reason::EXPIRED,
            422 => reason::INVALID,
            429 => reason::TOO_MANY_REQUESTS,
            503 => reason::SERVICE_UNAVAILABLE,
            504 => reason::TIMEOUT,
            500..600 => reason::INTERNAL_ERROR,
            _ => "",
        };
        let message = self.message.unwrap_or("a fault of the embedded server");
        let status = Status::failure(code, self.reason.unwrap_or(usual), message);
        match self.retry_after {
            Some(seconds) => status.with_details(StatusDetails {
                retry_after_seconds: seconds,
                ..StatusDetails::default()
            }),
            None => status,
        }
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, InvalidRule> {
    value
        .parse()
        .map_err(|_| InvalidRule(format!("{key}={value}: a number is wanted")))
}

fn code(key: &str, value: &str) -> Result<u16, InvalidRule> {
    number(key, value).and_then(|code| match code {
        400..600 => Ok(code),
        _ => Err(InvalidRule(format!(
            "{key}={value}: not the code of a failure"
        ))),
    })
}

impl fmt::Display for FaultRule {
    /// Writes the rule in the form that parses, with the rest of `nth` and `times`. Texts of a
    /// foreign reply that a caller in the process supplied are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(verb) = &self.verb {
            write!(f, "verb={verb},")?;
        }
        if let Some(resource) = &self.resource {
            write!(f, "resource={resource},")?;
        }
        if self.skip > 0 {
            write!(f, "nth={},", self.skip + 1)?;
        }
        match self.times {
            1 => {}
            usize::MAX => f.write_str("times=always,")?,
            times => write!(f, "times={times},")?,
        }
        match &self.fault {
            Fault::Reply(status) => fmt_status(f, "status", status),
            Fault::ErrorEvent(status) => fmt_status(f, "error", status),
            Fault::Foreign {
                code,
                media,
                retry_after,
                ..
            } => {
                let key = if *media == PAGE.0 { "page" } else { "text" };
                write!(f, "{key}={code}")?;
                retry_after.map_or(Ok(()), |after| write!(f, ",retry-after={after}"))
            }
            Fault::EmptyStream => f.write_str("empty"),
            Fault::Delay(time) => write!(f, "delay={}ms", time.as_millis()),
            Fault::Hang => f.write_str("hang"),
            Fault::TruncateAfter(bytes) => write!(f, "truncate={bytes}"),
            Fault::StallAfter(bytes) => write!(f, "stall={bytes}"),
            Fault::LoseReply => f.write_str("lose-reply"),
        }
    }
}

fn fmt_status(f: &mut fmt::Formatter<'_>, key: &str, status: &Status) -> fmt::Result {
    write!(f, "{key}={}", status.code)?;
    if let Some(after) = status.retry_after() {
        write!(f, ",retry-after={}", after.as_secs())?;
    }
    write!(f, ",reason={},message={}", status.reason, status.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_whom_it_meets_and_what_happens() {
        let rule: FaultRule = "verb=list, resource=pods,nth=2,times=3,status=429,retry-after=7"
            .parse()
            .unwrap();
        assert_eq!(
            (rule.verb.as_deref(), rule.skip, rule.times),
            (Some("list"), 1, 3)
        );
        let Fault::Reply(status) = &rule.fault else {
            panic!("{rule:?}")
        };
        assert_eq!((status.code, &*status.reason), (429, "TooManyRequests"));
        assert_eq!(status.retry_after().map(|after| after.as_secs()), Some(7));
    }

    #[test]
    fn rules_are_told_as_they_are_read() {
        for text in [
            "verb=watch,resource=pods,times=always,error=410,reason=Expired,message=a, b and c",
            "nth=3,status=500,reason=,message=x",
            "status=503,retry-after=2,reason=ServiceUnavailable,message=busy",
            "text=429,retry-after=1",
            "page=502",
            "verb=watch,empty",
            "times=2,delay=1500ms",
            "hang",
            "truncate=100",
            "stall=0",
            "verb=create,lose-reply",
        ] {
            let rule: FaultRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rule_says_why() {
        for (text, why) in [
            ("", "names no fault"),
            ("verb=list", "names no fault"),
            ("status=200", "code"),
            ("status=x", "number"),
            ("status=429,hang", "two faults"),
            ("delay=soon", "duration"),
            ("nth=-1,hang", "number"),
            ("verbs=list,hang", "\"verbs\" is not known"),
        ] {
            let error = text.parse::<FaultRule>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
