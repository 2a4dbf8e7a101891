//! The two text formats of a scrape.
//!
//! ```text
//! Accept → OpenMetrics 1.0 | classic text 0.0.4 ← the same lines, counters named otherwise
//! ```
//!
//! prometheus-client writes OpenMetrics. The classic format has the same samples, but the type line
//! of a counter names the samples (`x_total`), and there is no end mark.
//!
//! Upstream counterpart: `prometheus/common:expfmt`.

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Classic,
    OpenMetrics,
}

impl Format {
    /// The format that a scraper asks for: OpenMetrics if it names that before the classic text, or
    /// with a higher weight.
    pub(crate) fn negotiate(accept: &str) -> Self {
        let weight_of = |wanted: &str| {
            accept.split(',').find_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                if !parts.next()?.eq_ignore_ascii_case(wanted) {
                    return None;
                }
                let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
                Some(weight.unwrap_or(1.0))
            })
        };
        let classic = weight_of("text/plain").unwrap_or(0.0);
        match weight_of("application/openmetrics-text") {
            Some(weight) if weight > 0.0 && weight >= classic => Self::OpenMetrics,
            _ => Self::Classic,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Makes the classic text of an OpenMetrics text.
pub(crate) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 1024);
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let Some(help) = line.strip_prefix("# HELP ") else {
            push(&mut text, &described(line));
            continue;
        };
        // The type follows: it decides the name in both lines.
        let (name, words) = help.split_once(' ').unwrap_or((help, ""));
        let kind = lines.peek().and_then(|next| kind_of(next, name));
        let suffix = suffix(kind.unwrap_or_default());
        push(&mut text, &format!("# HELP {name}{suffix} {words}"));
    }
    text
}

/// The type that a line states for this name.
fn kind_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.strip_prefix("# TYPE ")?.strip_prefix(name)?;
    rest.strip_prefix(' ')
}

/// The end of the samples' name, which the classic format states in the describing lines.
fn suffix(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

/// A line that is no help: a type that the classic format has, or a sample without its exemplar.
fn described(line: &str) -> String {
    let Some((name, kind)) = line
        .strip_prefix("# TYPE ")
        .and_then(|rest| rest.split_once(' '))
    else {
        let exemplar = line.rfind(" # {").filter(|_| !line.starts_with('#'));
        let is_exemplar =
            |at: &usize| line[..*at].contains('}') && line.ends_with(|c: char| c != '"');
        let end = exemplar.filter(is_exemplar).unwrap_or(line.len());
        return line[..end].to_owned();
    };
    let classic = match kind {
        "info" | "stateset" => "gauge",
        "gaugehistogram" => "histogram",
        "unknown" => "untyped",
        kind => kind,
    };
    format!("# TYPE {name}{} {classic}", suffix(kind))
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            ("", Format::Classic),
            ("*/*", Format::Classic),
            ("text/plain", Format::Classic),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "text/plain;q=0.5, application/openmetrics-text;q=0.1",
                Format::Classic,
            ),
            ("application/openmetrics-text;q=0", Format::Classic),
            (prometheus_3, Format::OpenMetrics),
        ] {
            assert_eq!(Format::negotiate(accept), expected, "{accept}");
        }
    }

    #[test]
    fn counters_are_named_with_their_suffix_and_nothing_else_changes() {
        let openmetrics = "# HELP a Adds.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n\
            # HELP b_seconds Time.\n# TYPE b_seconds gauge\nb_seconds 0.5\n# EOF\n";
        let expected = "# HELP a_total Adds.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n\
            # HELP b_seconds Time.\n# TYPE b_seconds gauge\nb_seconds 0.5\n";
        assert_eq!(classic(openmetrics), expected);
        for (openmetrics, expected) in [
            (
                "# HELP b B.\n# TYPE b info\nb_info{v=\"1\"} 1\n",
                "# HELP b_info B.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n",
            ),
            ("# TYPE s stateset\n", "# TYPE s gauge\n"),
            ("# TYPE u unknown\n", "# TYPE u untyped\n"),
            (
                "a_total{x=\"y\"} 1 # {id=\"7\"} 1.0\n",
                "a_total{x=\"y\"} 1\n",
            ),
        ] {
            assert_eq!(classic(openmetrics), expected);
        }
    }
}
