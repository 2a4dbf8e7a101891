//! Openings and phrases that the house style avoids.
//!
//! ```text
//! "What it does." ──▶ opens with What        "it is told so many" ──▶ "is told", "so many"
//! ```
//!
//! Code in backquotes and in fences is masked before. A phrase is found across the end of a line.

/// A place in a text, and its fault.
pub(super) type Fault = (usize, String);

/// Question words that open no comment.
const OPENINGS: [&str; 8] = [
    "What", "Who", "Whom", "Whose", "Which", "Whether", "Where", "How",
];

/// Phrases, with their replacements.
const PHRASES: [(&str, &str); 9] = [
    ("is told", "name the actor: is reported, receives"),
    ("are told", "name the actor: are reported, receive"),
    ("so many", "N, a number of"),
    ("himself", "itself"),
    ("let go", "released, dropped"),
    ("set apart", "quarantined"),
    ("returns nothing", "returns `None`, or an empty list"),
    ("gives none", "gives `None`, or an empty list"),
    ("or none", "if there is one"),
];

/// The offsets and faults in a text; openings are looked for in documentation alone.
pub(super) fn check(text: &str, is_doc: bool) -> Vec<Fault> {
    let text = mask_code(text);
    let mut found = Vec::new();
    if is_doc {
        let start = text.len() - text.trim_start().len();
        let first = text[start..].trim_start_matches(['*', '[', '_', '"', '(']);
        let word = first.split(|c: char| !c.is_alphanumeric()).next();
        if let Some(opening) = word.filter(|word| OPENINGS.contains(word)) {
            found.push((
                start,
                format!("opens with {opening}: begin with a noun or a verb"),
            ));
        }
    }
    let folded = text.to_ascii_lowercase().replace(['\n', '\t'], " ");
    for (phrase, instead) in PHRASES {
        for at in whole(&folded, phrase) {
            found.push((at, format!("{phrase:?}: {instead}")));
        }
    }
    found.sort();
    found
}

/// The offsets of a phrase as words of its own.
fn whole<'t>(text: &'t str, phrase: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    text.match_indices(phrase)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = text[..*at].chars().next_back();
            let after = text[at + phrase.len()..].chars().next();
            !is_word(before) && !is_word(after)
        })
}

/// Replaces code in fences and backquotes by as many spaces.
pub(super) fn mask_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_fence = false;
    let mut in_quotes = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        if in_fence || is_fence {
            out.extend(line.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
            continue;
        }
        if line.trim().is_empty() {
            in_quotes = false; // no code goes on after a paragraph
        }
        for c in line.chars() {
            let is_quote = c == '`';
            in_quotes ^= is_quote;
            match c {
                '\n' => out.push(c),
                c if in_quotes || is_quote => out.extend(std::iter::repeat_n(' ', c.len_utf8())),
                c => out.push(c),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, is_doc: bool, expected: &[&str]) {
        let found: Vec<String> = check(text, is_doc).into_iter().map(|(_, m)| m).collect();
        let starts = found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
        assert!(starts && found.len() == expected.len(), "{text}: {found:?}");
    }

    #[test]
    fn a_question_word_opens_no_documentation() {
        check_text("What it does.", true, &["opens with What"]);
        check_text("*Who* asks.", true, &["opens with Who"]);
        check_text("Whole lists, shown.", true, &[]);
        check_text("Returns whether it is.", true, &[]);
        check_text("What it does.", false, &[]);
        check_text("`What` is a type.", true, &[]);
    }

    #[test]
    fn phrases_are_found_as_words_and_across_lines() {
        check_text(
            "A handler is\ntold so many.",
            true,
            &["\"is told\"", "\"so many\""],
        );
        check_text("Or none, then.", false, &["\"or none\""]);
        check_text("of none; so many-sided; this toldness", false, &[]);
        check_text("It is `is told` here.", false, &[]);
        check_text("```text\nso many\n```\nlet go", false, &["\"let go\""]);
    }

    #[test]
    fn masked_text_keeps_its_length() {
        for text in ["a `ä` b", "```\nä\n```\nx", "`open\n\nso `x`"] {
            assert_eq!(mask_code(text).len(), text.len(), "{text}");
        }
        assert_eq!(mask_code("`open\n\nso many"), "     \n\nso many");
    }
}
