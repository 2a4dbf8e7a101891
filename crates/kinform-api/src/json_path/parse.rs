//! Parses the text of a path.
//!
//! ```text
//! .a['b.c'][0,-1][1:2][?(@.x=="y")]..z ──▶ [Step]
//! ```
//!
//! BOUND: 64 steps. A filter has neither a filter nor `..` in it, so no recursion is deeper than one
//! filter.

use serde_json::Value;

use super::{Filter, Operand, Step, Test};

pub(super) const MAX_STEPS: usize = 64;

/// Limits the steps that a path may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Anywhere,
    /// BOUND: a filter contains neither a filter nor `..`, which would be evaluated again for each
    /// item of each item.
    Members,
}

/// Parses a path; `None` if it is not supported.
pub(super) fn steps(path: &str, reach: Reach) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return None;
        }
        let (step, after) = step(rest, reach)?;
        steps.push(step);
        rest = after;
    }
    Some(steps)
}

/// Parses the first step of a path. Returns it with the rest.
fn step(path: &str, reach: Reach) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix("..") {
        if reach == Reach::Members {
            return None;
        }
        // A member without its dot, or a bracket, must follow.
        let member = rest.find(|letter: char| letter != '.')? == 0 && !rest.starts_with('[');
        let after = if member { &path[1..] } else { rest };
        return Some((Step::Deep, after));
    }
    if let Some(rest) = path.strip_prefix('.') {
        // `.[0]` is the same as `[0]`.
        if rest.starts_with('[') {
            return step(rest, reach);
        }
        let (name, after) = member(rest)?;
        let step = match name.as_str() {
            "*" => Step::Every,
            _ => Step::Member(name),
        };
        return Some((step, after));
    }
    let inside = path.strip_prefix('[')?;
    let end = closing(inside)?;
    let (inside, rest) = (inside[..end].trim(), &inside[end + 1..]);
    let step = match inside.strip_prefix('?') {
        _ if inside == "*" => Step::Every,
        Some(_) if reach == Reach::Members => return None,
        Some(filter) => Step::Where(filter_of(filter.trim())?),
        None => {
            let parts: Option<Vec<Vec<Step>>> = split(inside)?
                .into_iter()
                .map(|part| bracket(part.trim()))
                .collect();
            match parts?.as_mut_slice() {
                [path] if path.len() == 1 => path.remove(0),
                paths => Step::Union(paths.iter_mut().map(std::mem::take).collect()),
            }
        }
    };
    Some((step, rest))
}

/// The name at the beginning of a path, in which a backslash hides dots.
fn member(path: &str) -> Option<(String, &str)> {
    let (mut name, mut letters) = (String::new(), path.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return (!name.is_empty()).then(|| (name, &path[at..])),
            '\\' => name.push(letters.next()?.1),
            letter => name.push(letter),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

/// Returns the position where the bracket that is open at the beginning closes.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut quote, mut is_hidden) = (1, None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if std::mem::take(&mut is_hidden) => {}
            (_, '\\') => is_hidden = true,
            (Some(ending), letter) if letter == ending => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => open += 1,
            (None, ']') => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// Splits a text at the commas outside of quotes.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut quote) = (Vec::new(), 0, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(ending), letter) if letter == ending => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ',') => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    (quote.is_none() && parts.len() <= MAX_STEPS).then_some(parts)
}

/// A part between brackets: `0`, `1:2`, `'metadata.name'`, `"a.b/c"`.
fn bracket(text: &str) -> Option<Vec<Step>> {
    // Single quotes hold a path, in which a backslash hides dots; double quotes hold one name.
    if let Some(inside) = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')) {
        return dotted(inside);
    }
    if let Some(name) = unquoted(text) {
        return Some(vec![Step::Member(name)]);
    }
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let parts: Vec<&str> = text.split(':').collect();
    let step = match parts.as_slice() {
        [at] => Step::Item(at.parse().ok()?),
        [from, to] => Step::Slice {
            from: number(from)?,
            to: number(to)?,
            by: 1,
        },
        [from, to, by] => Step::Slice {
            from: number(from)?,
            to: number(to)?,
            by: usize::try_from(number(by)?.unwrap_or(1))
                .ok()
                .filter(|by| *by > 0)?,
        },
        _ => return None,
    };
    Some(vec![step])
}

/// Members between dots, without brackets.
fn dotted(text: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), text);
    loop {
        let (name, after) = member(rest)?;
        steps.push(Step::Member(name));
        if after.is_empty() || steps.len() == MAX_STEPS {
            return after.is_empty().then_some(steps);
        }
        rest = after.strip_prefix('.')?;
    }
}

/// A filter with its parentheses: `(@.type=="Ready")`.
fn filter_of(text: &str) -> Option<Filter> {
    const TESTS: [(&str, Test); 6] = [
        ("==", Test::Equal),
        ("!=", Test::NotEqual),
        ("<=", Test::LessOrEqual),
        (">=", Test::GreaterOrEqual),
        ("<", Test::Less),
        (">", Test::Greater),
    ];
    let text = text.strip_prefix('(')?.strip_suffix(')')?;
    // The first test outside of quotes.
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(ending), letter) if letter == ending => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            _ => {}
        }
        let here = TESTS.iter().find(|(word, _)| text[at..].starts_with(word));
        if let (None, Some((word, test))) = (quote, here) {
            let right = operand(text[at + word.len()..].trim())?;
            return Some(Filter {
                left: operand(text[..at].trim())?,
                test: Some((*test, right)),
            });
        }
    }
    let left = operand(text.trim())?;
    Some(Filter { left, test: None })
}

fn operand(text: &str) -> Option<Operand> {
    if let Some(path) = text.strip_prefix('@') {
        return steps(path, Reach::Members).map(Operand::Path);
    }
    let literal = match unquoted(text) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(text).ok()?,
    };
    Some(Operand::Literal(literal))
}

/// Returns the text between quotes. A backslash escapes the next letter.
fn unquoted(text: &str) -> Option<String> {
    let inside = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    let inside = inside('"').or_else(|| inside('\''))?;
    let (mut plain, mut letters) = (String::new(), inside.chars());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => letters.next()?,
            letter => letter,
        });
    }
    Some(plain)
}
