//! The comparison of what a book shows with what a command prints.
//!
//! ```text
//! shown, printed ──masks──▶ lines without what differs in each run ──▶ equal, but for lines `...`
//! ```
//!
//! The masks are general, and all of them are here.

/// Units that follow a number as a word.
const UNITS: [&str; 7] = ["s", "ms", "B", "KB", "MB", "GB", "%"];

/// Compares two outputs.
///
/// # Errors
/// The first line that is shown and was not printed in its place.
pub(super) fn compare(shown: &[String], printed: &[String]) -> Result<(), String> {
    let (shown, printed) = (masked(shown), masked(printed));
    // For each line printed so far: whether the lines shown so far match it.
    let mut reached = vec![false; printed.len() + 1];
    reached[0] = true;
    for line in &shown {
        let mut next = vec![false; printed.len() + 1];
        for at in 0..=printed.len() {
            next[at] = match line.as_str() {
                "..." => reached[at] || (at > 0 && next[at - 1]),
                line => at > 0 && reached[at - 1] && is_shown(line, &printed[at - 1]),
            };
        }
        if !next.contains(&true) {
            return Err(format!(
                "the book shows {line:?}, which was not printed there"
            ));
        }
        reached = next;
    }
    match reached.last() {
        Some(true) => Ok(()),
        _ => Err("more was printed than the book shows".to_owned()),
    }
}

/// Returns whether a line is the shown one; ` ...` at its end stands for the rest.
fn is_shown(shown: &str, printed: &str) -> bool {
    match shown.strip_suffix(" ...") {
        Some(begin) => printed.starts_with(begin),
        None => printed == shown,
    }
}

fn masked(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().map(|line| mask(line));
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// A line with one blank between words, and a mark for each word that differs in each run.
fn mask(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        // A number and its unit as two words.
        if UNITS.contains(&word.trim_matches([',', '.', ';']))
            && let Some(number) = words.last_mut()
            && number.parse::<f64>().is_ok()
        {
            *number = "N".to_owned();
        }
        let inner = word.trim_matches(|c: char| "\"'(),;[]{}".contains(c));
        let at = word.find(inner).unwrap_or(0);
        let (before, after) = (&word[..at], &word[at + inner.len()..]);
        words.push(format!("{before}{}{after}", mask_word(inner)));
    }
    words.join(" ")
}

/// A word whose parts are masked: those between the signs of paths, members of JSON and addresses.
fn mask_word(word: &str) -> String {
    if is_time(word) {
        return "TIME".to_owned();
    }
    if is_uid(word) {
        return "UID".to_owned();
    }
    if is_duration(word) {
        return "DURATION".to_owned();
    }
    if is_version(word) {
        return "VERSION".to_owned();
    }
    if let Some((host, port)) = word.rsplit_once("127.0.0.1:") {
        let end = port
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(port.len());
        return format!("{host}127.0.0.1:PORT{}", &port[end..]);
    }
    if let Some((before, number)) = word.split_once('@')
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        return format!("{before}@VERSION");
    }
    // The members of an object in JSON.
    if word.contains('"') && word.contains(',') {
        let members: Vec<String> = word.split(',').map(mask_word).collect();
        return members.join(",");
    }
    if word.contains('"') && word.contains(':') {
        return mask_member(word);
    }
    word.to_owned()
}

/// `"name":value` of JSON: the values of these names differ in each run.
fn mask_member(word: &str) -> String {
    const NAMES: [&str; 6] = [
        "time",
        "uid",
        "resourceVersion",
        "oldResourceVersion",
        "seconds",
        "creationTimestamp",
    ];
    let Some((name, value)) = word.split_once(':') else {
        return word.to_owned();
    };
    let plain = name.trim_matches(|c: char| "\"{[".contains(c));
    if NAMES.contains(&plain) {
        let end = value.trim_end_matches(['}', ']']).len();
        return format!("{name}:MASKED{}", &value[end..]);
    }
    format!("{name}:{value}")
}

/// A time of the day or of RFC 3339.
fn is_time(word: &str) -> bool {
    let clock = word
        .rsplit('T')
        .next()
        .unwrap_or(word)
        .trim_end_matches('Z');
    let parts: Vec<&str> = clock.split(':').collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// 8-4-4-4-12 digits of base 16.
fn is_uid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// An age or a duration: `12s`, `3m4s`, `1.5ms`.
fn is_duration(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if number.len() == rest.len() {
            return false;
        }
        let units = ["ms", "µs", "ns", "s", "m", "h", "d"];
        let Some(after) = units.iter().find_map(|unit| number.strip_prefix(unit)) else {
            return false;
        };
        rest = after;
    }
    !word.is_empty()
}

/// `1.2.3`, with or without `v` in front and words after it.
fn is_version(word: &str) -> bool {
    let word = word.strip_prefix('v').unwrap_or(word);
    let plain = word.split(['-', '+']).next().unwrap_or(word);
    let parts: Vec<&str> = plain.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

#[test]
fn what_differs_in_each_run_is_masked() {
    for (line, expected) in [
        ("a   b", "a b"),
        ("node-1 Ready 12s", "node-1 Ready DURATION"),
        ("AGE 3m4s 1.5ms 0s", "AGE DURATION DURATION DURATION"),
        ("web-5s s 5", "web-5s s 5"),
        ("in 0.1 s, 3 pods", "in N s, 3 pods"),
        ("12:04:07.113 Pod/a", "TIME Pod/a"),
        ("at 2026-11-27T10:00:01.1Z.", "at 2026-11-27T10:00:01.1Z."),
        ("(2026-11-27T10:00:01Z)", "(TIME)"),
        ("https://127.0.0.1:4711/x", "https://127.0.0.1:PORT/x"),
        ("v1.37.0 1.2.3-a+b 1.2", "VERSION VERSION 1.2"),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "UID"),
        ("pods a/b @4711", "pods a/b @VERSION"),
        (
            r#"{"event":"add","uid":"x","time":"2026-11-27T10:00:01Z","name":"a"}"#,
            r#"{"event":"add","uid":MASKED,"time":MASKED,"name":"a"}"#,
        ),
    ] {
        assert_eq!(mask(line), expected, "{line}");
    }
}

#[test]
fn three_dots_stand_for_any_number_of_lines() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (shown, printed, is_right) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("a", "a\nb", false),
        ("", "", true),
        ("", "a", false),
        ("...", "", true),
        ("...", "a\nb", true),
        ("...\nb", "a\na\nb", true),
        ("a\n...\nb\n...", "a\nb\nx", true),
        ("a\n...\nb", "a\nb\nx", false),
        ("a\n...\nb", "a\nb\nb", true),
        ("a\n", "a\n\n", true),
        ("a ...", "a b", true),
        ("a ...", "b a", false),
    ] {
        let found = compare(&lines(shown), &lines(printed));
        assert_eq!(found.is_ok(), is_right, "{shown:?} {printed:?}: {found:?}");
    }
}
