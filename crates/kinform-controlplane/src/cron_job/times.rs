//! The times at which a CronJob should have started jobs.
//!
//! ```text
//! schedule + time of the last start (or creation) + now ─▶ the last time that was missed, how many were
//! ```
//!
//! The number of missed times is estimated by the distance of the first two: their list may be long.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/cronjob/utils.go` (`mostRecentScheduleTime`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::schedule::Schedule;

/// A margin for clocks that differ.
const MARGIN: SignedDuration = SignedDuration::from_millis(100);
/// BOUND: missed times that are not remarkable.
const MANY: i64 = 100;

/// The number of times that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    None,
    Few,
    Many,
}

/// The last time at which a job should have started, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) time: Option<Timestamp>,
    pub(super) missed: Missed,
}

const NEVER: &str = "time difference between two schedules is less than 1 second";

/// The last time after `earliest` at which a job should have started.
///
/// # Errors
/// The schedule has no times, such as the 31st of February.
pub(super) fn most_recent(
    schedule: &Schedule,
    earliest: Timestamp,
    now: Timestamp,
) -> Result<Recent, &'static str> {
    let first = schedule.next(earliest).ok_or(NEVER)?;
    let none = Missed::None;
    if now < first {
        return Ok(Recent {
            time: None,
            missed: none,
        });
    }
    let second = schedule.next(first).ok_or(NEVER)?;
    if now < second {
        return Ok(Recent {
            time: Some(first),
            missed: none,
        });
    }
    let between = (second.as_second() - first.as_second()).max(1);
    let missed = (now.as_second() - first.as_second()) / between + 1;
    // One step back: the distances need not be equal.
    let back = SignedDuration::from_secs((missed - 2).saturating_mul(between));
    let mut time = None;
    let mut candidate = first
        .checked_add(back)
        .ok()
        .and_then(|from| schedule.next(from));
    while let Some(fits) = candidate.filter(|candidate| *candidate <= now) {
        time = Some(fits);
        candidate = schedule.next(fits);
    }
    let missed = match missed {
        missed if missed > MANY => Missed::Many,
        _ => Missed::Few,
    };
    Ok(Recent { time, missed })
}

/// The time until the next start.
pub(super) fn until_next(
    schedule: &Schedule,
    earliest: Timestamp,
    now: Timestamp,
) -> Option<Duration> {
    let from = match most_recent(schedule, earliest, now) {
        Ok(Recent {
            time: Some(time), ..
        }) => time,
        Ok(Recent {
            missed: Missed::None,
            ..
        }) => earliest,
        Ok(_) | Err(_) => now,
    };
    let next = schedule.next(from)?.checked_add(MARGIN).ok()?;
    Some(Duration::try_from(now.duration_until(next)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-0{time}Z").parse().unwrap()
    }

    fn parse(schedule: &str) -> Schedule {
        Schedule::parse(schedule, TimeZone::UTC).unwrap()
    }

    // kubernetes: TestMostRecentScheduleTime
    #[test]
    fn the_last_missed_time_is_found() {
        let check =
            |schedule: &str, earliest: &str, now: &str, time: Option<&str>, missed: Missed| {
                let recent = most_recent(&parse(schedule), at(earliest), at(now));
                let expected = Recent {
                    time: time.map(at),
                    missed,
                };
                assert_eq!(recent, Ok(expected), "{schedule} {earliest} {now}");
            };
        check("0 * * * *", "1T10:00:00", "1T10:59:59", None, Missed::None);
        check(
            "0 * * * *",
            "1T10:00:00",
            "1T11:00:00",
            Some("1T11:00:00"),
            Missed::None,
        );
        check(
            "0 * * * *",
            "1T10:00:00",
            "1T12:00:10",
            Some("1T12:00:00"),
            Missed::Few,
        );
        check(
            "0 * * * *",
            "1T10:00:00",
            "5T13:30:00",
            Some("5T13:00:00"),
            Missed::Few,
        );
        check(
            "0 * * * *",
            "1T10:00:00",
            "5T15:30:00",
            Some("5T15:00:00"),
            Missed::Many,
        );
        // kubernetes#118940: distances that are not equal.
        check(
            "30 6-16/4 * * 1-5",
            "1T10:30:00",
            "2T07:00:00",
            Some("2T06:30:00"),
            Missed::Few,
        );
        check(
            "@every 1h",
            "1T10:20:30",
            "1T12:30:00",
            Some("1T12:20:30"),
            Missed::Few,
        );
    }

    #[test]
    fn a_day_that_never_comes_is_an_error() {
        let never = parse("0 0 31 2 *");
        assert_eq!(
            most_recent(&never, at("1T00:00:00"), at("2T00:00:00")),
            Err(NEVER)
        );
        assert_eq!(until_next(&never, at("1T00:00:00"), at("2T00:00:00")), None);
    }

    // kubernetes: TestNextScheduleTimeDuration
    #[test]
    fn the_next_start_is_a_little_after_its_time() {
        let check = |earliest: &str, now: &str, millis: u64| {
            let left = until_next(&parse("0 * * * *"), at(earliest), at(now));
            assert_eq!(
                left,
                Some(Duration::from_millis(millis)),
                "{earliest} {now}"
            );
        };
        check("1T10:00:00", "1T10:59:00", 60_100);
        check("1T10:00:00", "1T11:00:00", 3_600_100);
        check("1T10:00:00", "3T11:30:00", 1_800_100);
    }
}
