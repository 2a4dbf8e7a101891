//! Schedules of CronJobs, in the dialect that the server accepts.
//!
//! ```text
//! "*/5 0-3 * JAN mon,TUE" | "@hourly" | "@every 1h30m", time zone ─▶ Schedule ─▶ the next time after one
//! ```
//!
//! A time fits if the clock of the zone shows it: a time that a change of the clock leaves out is
//! skipped, one that comes twice fits twice. Days of the month and of the week must both fit if one of
//! them is `*`, else one suffices. Sunday is 0, never 7; there are no seconds, `L`, `W` or `#`: no crate
//! of the registry reads exactly this.
//!
//! Upstream counterpart: `robfig/cron` (`ParseStandard`, `SpecSchedule.Next`).

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

/// BOUND: the years in which the next time is looked for.
const YEARS: i16 = 5;

/// A schedule.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    Fields(Box<Fields>),
    Every(SignedDuration),
}

/// The values that fit, one bit each.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// One of the days, of the month or of the week, is `*`.
    any_day: bool,
    zone: TimeZone,
}

/// The bounds and names of a field.
struct Field {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field {
        least: 0,
        most: 59,
        names: &[],
    },
    Field {
        least: 0,
        most: 23,
        names: &[],
    },
    Field {
        least: 1,
        most: 31,
        names: &[],
    },
    Field {
        least: 1,
        most: 12,
        names: &MONTHS,
    },
    Field {
        least: 0,
        most: 6,
        names: &DAYS,
    },
];

impl Schedule {
    /// # Errors
    /// The text is no schedule; the error says why.
    pub(super) fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        if text.contains("TZ") {
            return Err("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".into());
        }
        if let Some(period) = text.strip_prefix("@every ") {
            let period: SignedDuration = period
                .parse()
                .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
            let seconds = period.as_secs().max(1);
            return Ok(Self::Every(SignedDuration::from_secs(seconds)));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => return Err(format!("unrecognized descriptor: {text}")),
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let (found, list) = (fields.len(), fields.join(" "));
            return Err(format!(
                "expected exactly 5 fields, found {found}: [{list}]"
            ));
        };
        let [of_minutes, of_hours, of_days, of_months, of_weekdays] = &FIELDS;
        let (days, any_day) = of_days.parse(days)?;
        let (weekdays, any_weekday) = of_weekdays.parse(weekdays)?;
        Ok(Self::Fields(Box::new(Fields {
            minutes: of_minutes.parse(minutes)?.0,
            hours: of_hours.parse(hours)?.0,
            days,
            months: of_months.parse(months)?.0,
            weekdays,
            any_day: any_day || any_weekday,
            zone,
        })))
    }

    /// The first time after another; `None` if there is none within five years.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Fields(fields) => fields.next(after),
            Self::Every(period) => {
                let second = Timestamp::from_second(after.as_second()).ok()?;
                second.checked_add(*period).ok()
            }
        }
    }
}

impl Field {
    /// The values that fit, and whether all do by `*`.
    fn parse(&self, text: &str) -> Result<(u64, bool), String> {
        let (mut bits, mut any) = (0, false);
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (of_part, is_any) = self.part(part)?;
            bits |= of_part;
            any |= is_any;
        }
        Ok((bits, any))
    }

    /// `value`, `first-last`, `*` or `?`, each with a `/step`.
    fn part(&self, part: &str) -> Result<(u64, bool), String> {
        let (range, step) = match part.split_once('/') {
            Some((_, step)) if step.contains('/') => {
                return Err(format!("too many slashes: {part}"));
            }
            Some((range, step)) => (range, Some(number(step)?)),
            None => (part, None),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (low, Some(high)),
            None => (range, None),
        };
        let is_any = matches!(low, "*" | "?");
        let (first, last) = match high {
            _ if is_any => (self.least, self.most),
            Some(high) if high.contains('-') => return Err(format!("too many hyphens: {part}")),
            Some(high) => (self.value(low)?, self.value(high)?),
            None if step.is_some() => (self.value(low)?, self.most),
            None => (self.value(low)?, self.value(low)?),
        };
        let step = step.unwrap_or(1);
        if first < self.least || last > self.most || first > last {
            return Err(format!(
                "range ({first}-{last}) outside of {}-{}: {part}",
                self.least, self.most
            ));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
        let places = usize::try_from(step).unwrap_or(usize::MAX);
        let bits = (first..=last)
            .step_by(places)
            .fold(0, |bits, value| bits | 1u64 << value);
        Ok((bits, is_any && step == 1))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let name = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        match name.and_then(|place| u32::try_from(place).ok()) {
            Some(place) => Ok(place + self.least),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|error| format!("failed to parse int from {text}: {error}"))
}

impl Fields {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let minute = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minute * 60)
            .ok()?
            .to_zoned(self.zone.clone());
        let last_year = at.year().saturating_add(YEARS);
        while at.year() <= last_year {
            at = match self.until_fit(&at) {
                None => return Some(at.timestamp()),
                Some(later) => later?,
            };
        }
        None
    }

    /// The next time that may fit; `None` if this one does.
    fn until_fit(&self, at: &Zoned) -> Option<Option<Zoned>> {
        let has = |bits: u64, value: i8| bits & (1u64 << value.unsigned_abs()) != 0;
        if !has(self.months, at.month()) {
            let month = at
                .first_of_month()
                .and_then(|first| first.checked_add(1.month()));
            return Some(month.and_then(|month| month.start_of_day()).ok());
        }
        let of_month = has(self.days, at.day());
        let of_week = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        let is_day = match self.any_day {
            true => of_month && of_week,
            false => of_month || of_week,
        };
        if !is_day {
            return Some(at.tomorrow().and_then(|day| day.start_of_day()).ok());
        }
        if !has(self.hours, at.hour()) {
            let rest = 60 - i64::from(at.minute());
            return Some(at.checked_add(SignedDuration::from_mins(rest)).ok());
        }
        if !has(self.minutes, at.minute()) {
            return Some(at.checked_add(SignedDuration::from_mins(1)).ok());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: &str, after: &str) -> Option<String> {
        let schedule = Schedule::parse(schedule, TimeZone::get(zone).unwrap()).unwrap();
        Some(schedule.next(after.parse().unwrap())?.to_string())
    }

    // robfig/cron: TestNext
    #[test]
    fn the_next_time_fits_all_fields() {
        let check = |schedule: &str, after: &str, expected: &str| {
            let expected = Some(expected).filter(|time| !time.is_empty());
            assert_eq!(
                next(schedule, "UTC", after).as_deref(),
                expected,
                "{schedule} {after}"
            );
        };
        check("* * * * *", "2026-07-09T14:45:00Z", "2026-07-09T14:46:00Z");
        check(
            "* * * * *",
            "2026-07-09T14:45:59.9Z",
            "2026-07-09T14:46:00Z",
        );
        check(
            "0/15 * * * *",
            "2026-07-09T14:45:00Z",
            "2026-07-09T15:00:00Z",
        );
        check(
            "20-35/15 * * * *",
            "2026-07-09T14:45:00Z",
            "2026-07-09T15:20:00Z",
        );
        check(
            "30 6-16/4 * * 1-5",
            "2026-07-10T14:45:00Z",
            "2026-07-13T06:30:00Z",
        );
        check(
            "0 0 * Feb Mon",
            "2026-07-09T23:35:00Z",
            "2027-02-01T00:00:00Z",
        );
        check("0 0 29 2 *", "2026-07-09T23:35:00Z", "2028-02-29T00:00:00Z");
        check("0 0 31 2 *", "2026-07-09T23:35:00Z", "");
        check(
            "59 23 31 DEC *",
            "2026-12-31T23:59:00Z",
            "2027-12-31T23:59:00Z",
        );
        check("@hourly", "2026-07-09T14:45:00Z", "2026-07-09T15:00:00Z");
        check("@weekly", "2026-07-09T14:45:00Z", "2026-07-12T00:00:00Z");
        check("@yearly", "2026-07-09T14:45:00Z", "2027-01-01T00:00:00Z");
        check(
            "@every 90m",
            "2026-07-09T14:45:10.5Z",
            "2026-07-09T16:15:10Z",
        );
    }

    // robfig/cron: TestActivation
    #[test]
    fn one_of_two_days_suffices_unless_the_other_is_every_day() {
        let fits = |schedule: &str, day: &str| {
            let before: Timestamp = format!("{day}T00:00:00Z").parse().unwrap();
            let before = before - SignedDuration::from_secs(1);
            let next = next(schedule, "UTC", &before.to_string()).unwrap();
            next.starts_with(day)
        };
        // 2012-07-15 was a Sunday, 2012-06-15 a Friday.
        assert!(fits("0 0 1,15 * Sun", "2012-06-15"));
        assert!(fits("0 0 1,15 * Sun", "2012-07-08"));
        assert!(!fits("0 0 * * Mon", "2012-07-15"));
        assert!(!fits("0 0 1,15 * *", "2012-07-09"));
        assert!(fits("0 0 1,15 * *", "2012-07-15"));
        assert!(fits("0 0 */10 * Sun", "2012-07-15"));
        assert!(fits("0 0 */10 * Sun", "2012-07-11"));
    }

    // robfig/cron: TestNext, the part about changes of the clock
    #[test]
    fn times_are_those_of_the_zone() {
        let check = |schedule: &str, zone: &str, after: &str, expected: &str| {
            let found = next(schedule, zone, after).unwrap();
            assert_eq!(found, expected, "{schedule} {zone} {after}");
        };
        let york = "America/New_York";
        check(
            "0 9 * * *",
            york,
            "2026-01-05T00:00:00Z",
            "2026-01-05T14:00:00Z",
        );
        check(
            "0 9 * * *",
            york,
            "2026-07-05T00:00:00Z",
            "2026-07-05T13:00:00Z",
        );
        // 02:30 does not exist on March 8, and 01:30 comes twice on November 1.
        check(
            "30 2 * * *",
            york,
            "2026-03-08T05:00:00Z",
            "2026-03-09T06:30:00Z",
        );
        check(
            "30 1 * * *",
            york,
            "2026-11-01T04:00:00Z",
            "2026-11-01T05:30:00Z",
        );
        check(
            "30 1 * * *",
            york,
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:30:00Z",
        );
        check(
            "0 * * * *",
            york,
            "2026-03-08T06:00:00Z",
            "2026-03-08T07:00:00Z",
        );
        // Midnight does not exist there on that day.
        check(
            "0 0 * * *",
            "Africa/Cairo",
            "2026-04-22T23:00:00Z",
            "2026-04-24T21:00:00Z",
        );
        // Half an hour.
        check(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:00:00Z",
            "2026-04-04T15:45:00Z",
        );
        check(
            "0 12 * * *",
            "Asia/Kathmandu",
            "2026-01-01T00:00:00Z",
            "2026-01-01T06:15:00Z",
        );
    }

    // robfig/cron: TestErrors, TestRange
    #[test]
    fn what_is_no_schedule_is_refused() {
        for bad in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-3 * * * *",
            "*/0 * * * *",
            "1/2/3 * * * *",
            "1-2-3 * * * *",
            "x * * * *",
            "-1 * * * *",
            "@never",
            "@every soon",
            "TZ=UTC * * * * *",
            "CRON_TZ=UTC * * * * *",
        ] {
            assert!(Schedule::parse(bad, TimeZone::UTC).is_err(), "{bad}");
        }
    }
}
