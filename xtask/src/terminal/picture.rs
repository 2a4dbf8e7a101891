//! A screen of tmux as a picture.
//!
//! ```text
//! tmux capture-pane -e ─▶ runs of letters of one style ─▶ SVG: a text element a run
//! ```
//!
//! Each run begins at its column and has the width of its letters, so that columns are straight with
//! any font. A letter counts as one column, and sequences that are no styles are skipped.
//!
//! Upstream counterpart: none.

use std::fmt::Write as _;

/// Pixels of a letter and of a line.
const LETTER: f64 = 8.0;
const LINE: f64 = 18.0;
/// Pixels around the screen.
const MARGIN: f64 = 12.0;
/// Pixels from the top of a line to the feet of its letters.
const FOOT: f64 = 13.5;
const PAPER: &str = "#16191f";
const INK: &str = "#d5d9e0";
/// The 16 colours of a terminal.
const COLOURS: [&str; 16] = [
    "#3b4048", "#f07178", "#8bc67a", "#e6b860", "#6aa6f0", "#c792ea", "#5cc4cf", "#d5d9e0",
    "#6b7280", "#ff8b92", "#a5d997", "#ffd580", "#8fc1ff", "#ddb0ff", "#7fe0ea", "#ffffff",
];

/// The style of a letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    colour: Option<usize>,
    is_bold: bool,
    is_faint: bool,
    is_reversed: bool,
}

/// Letters of one style in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    column: usize,
    text: String,
    style: Style,
}

/// The picture of a screen of this size.
pub(super) fn svg(screen: &str, (width, height): (u16, u16)) -> String {
    let across = f64::from(width) * LETTER + 2.0 * MARGIN;
    let down = f64::from(height) * LINE + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across} {down}\" width=\"{across}\" \
         height=\"{down}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"13\" fill=\"{INK}\">\n<rect width=\"{across}\" height=\"{down}\" rx=\"8\" \
         fill=\"{PAPER}\"/>\n"
    );
    let mut style = Style::default();
    for (row, line) in screen.lines().enumerate() {
        for run in runs(line, &mut style) {
            draw(&mut svg, row, &run);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The runs of a line. The style goes on in the next one.
fn runs(line: &str, style: &mut Style) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut column = 0;
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\u{1b}[") {
            let end = sequence.find(|it: char| ('@'..='~').contains(&it));
            let end = end.unwrap_or(sequence.len());
            if sequence[end..].starts_with('m') {
                style.read(&sequence[..end]);
            }
            rest = sequence.get(end + 1..).unwrap_or_default();
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        if letter.is_control() {
            continue;
        }
        match runs.last_mut().filter(|run| run.style == *style) {
            Some(run) => run.text.push(letter),
            None => runs.push(Run {
                column,
                text: letter.to_string(),
                style: *style,
            }),
        }
        column += 1;
    }
    runs
}

impl Style {
    /// Applies the numbers of a sequence.
    fn read(&mut self, numbers: &str) {
        let mut numbers = numbers.split([';', ':']).map(|it| it.parse().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_faint = true,
                7 => self.is_reversed = true,
                22 => (self.is_bold, self.is_faint) = (false, false),
                27 => self.is_reversed = false,
                30..=37 => self.colour = Some(number - 30),
                90..=97 => self.colour = Some(number - 82),
                38 => {
                    let is_indexed = numbers.next() == Some(5);
                    // Three numbers are a colour that is none of the 16.
                    let index = numbers.nth(if is_indexed { 0 } else { 2 });
                    self.colour = index.filter(|it| is_indexed && *it < COLOURS.len());
                }
                39 => self.colour = None,
                _ => {}
            }
        }
    }
}

fn draw(svg: &mut String, row: usize, run: &Run) {
    let Run {
        column,
        text,
        style,
    } = run;
    let ink = style.colour.map_or(INK, |colour| COLOURS[colour]);
    let (x, y) = (MARGIN + *column as f64 * LETTER, MARGIN + row as f64 * LINE);
    let width = text.chars().count() as f64 * LETTER;
    if style.is_reversed {
        _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{LINE}\" fill=\"{ink}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    // Spaces at the ends have no ink, and would have to be kept.
    let before = text.chars().take_while(|letter| *letter == ' ').count();
    let text = text.trim();
    let x = x + before as f64 * LETTER;
    let width = text.chars().count() as f64 * LETTER;
    let mut more = String::new();
    match (style.is_reversed, style.colour) {
        (true, _) => _ = write!(more, " fill=\"{PAPER}\""),
        (false, Some(_)) => _ = write!(more, " fill=\"{ink}\""),
        (false, None) => {}
    }
    if style.is_bold {
        more.push_str(" font-weight=\"bold\"");
    }
    if style.is_faint {
        more.push_str(" opacity=\"0.65\"");
    }
    _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" \
         xml:space=\"preserve\"{more}>{}</text>",
        y + FOOT,
        escaped(text)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_runs_of_one_style() {
        let mut style = Style::default();
        let line = "a\u{1b}[1mb\u{1b}[0m c\u{1b}[38;5;2md\u{1b}[39;7me\u{1b}[K";
        let told: Vec<String> = runs(line, &mut style)
            .iter()
            .map(|run| format!("{} {:?} {:?}", run.column, run.text, run.style.colour))
            .collect();
        assert_eq!(
            told,
            [
                "0 \"a\" None",
                "1 \"b\" None",
                "2 \" c\" None",
                "4 \"d\" Some(2)",
                "5 \"e\" None"
            ]
        );
        assert!(style.is_reversed && !style.is_bold);
        for (numbers, colour) in [
            ("31", Some(1)),
            ("92", Some(10)),
            ("38;5;200", None),
            ("38;2;1;2;3", None),
        ] {
            style = Style::default();
            style.read(numbers);
            assert_eq!((style.colour, style.is_bold), (colour, false), "{numbers}");
        }
    }

    #[test]
    fn a_picture_has_each_text_at_its_column() {
        let svg = svg(
            "  \u{1b}[32ma <b> & c\u{1b}[0m\n\u{1b}[7m> x\u{1b}[0m",
            (20, 2),
        );
        for part in [
            "viewBox=\"0 0 184 60\"",
            "<text x=\"28\" y=\"25.5\" textLength=\"72\"",
            " fill=\"#8bc67a\">a &lt;b> &amp; c</text>",
            "<rect x=\"12\" y=\"30\" width=\"24\" height=\"18\" fill=\"#d5d9e0\"/>",
            " fill=\"#16191f\">> x</text>",
        ] {
            assert!(svg.contains(part), "{part}:\n{svg}");
        }
    }
}
