//! Finds the positions of tokens in a rule's text.
//!
//! ```text
//! text -> [(token, place)]; the nth token like one -> its place
//! ```
//!
//! The lexer is only as complete as positions need: names, signs and quoted text.
//!
//! Upstream: `cel-go:parser/gen/CEL.g4`.

/// Signs of two letters.
const PAIRS: [&str; 8] = ["==", "!=", "<=", ">=", "&&", "||", "?.", "[?"];

/// A rule's tokens with their places.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<(String, usize)>);

impl Tokens {
    /// Splits a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            let rest = &text[at..];
            let length = if letter.is_ascii_alphabetic() || letter == '_' {
                let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
                match rest[end..].chars().next() {
                    // `r'..'` and `b".."`: the prefix belongs to the text.
                    Some(quote @ ('"' | '\'')) if end <= 2 => end + quoted(&rest[end..], quote),
                    _ => end,
                }
            } else if letter == '"' || letter == '\'' {
                quoted(rest, letter)
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else {
                let pair = PAIRS.iter().find(|pair| rest.starts_with(**pair));
                pair.map_or(letter.len_utf8(), |pair| pair.len())
            };
            let token = &rest[..length];
            if !token.starts_with(char::is_whitespace) && !token.starts_with("//") {
                tokens.push((token.to_owned(), at));
            }
            at += length;
        }
        Self(tokens)
    }

    /// Returns the position of the nth such token, counted from one, or 0 if there is no such
    /// token.
    pub(crate) fn nth(&self, token: &str, n: usize) -> usize {
        let mut like = self.0.iter().filter(|(other, _)| other == token);
        like.nth(n.saturating_sub(1)).map_or(0, |(_, place)| *place)
    }

    /// Returns the last token of this kind before a place, or the place.
    pub(crate) fn before(&self, place: usize, token: &str) -> usize {
        let found = self
            .0
            .iter()
            .rev()
            .find(|(other, at)| *at < place && other == token);
        found.map_or(place, |(_, at)| *at)
    }

    /// Returns the first token of this kind after a place, or the place.
    pub(crate) fn after(&self, place: usize, token: &str) -> usize {
        let found = self
            .0
            .iter()
            .find(|(other, at)| *at > place && other == token);
        found.map_or(place, |(_, at)| *at)
    }

    /// Returns the place of the token after the one at a place, or the place.
    pub(crate) fn next(&self, place: usize) -> usize {
        let found = self.0.iter().find(|(_, at)| *at > place);
        found.map_or(place, |(_, at)| *at)
    }
}

/// The length of a quoted text with its quotes.
fn quoted(text: &str, quote: char) -> usize {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let (open, end) = if text.starts_with(&triple) {
        (3, triple.as_str())
    } else {
        (1, &triple[..1])
    };
    let mut at = open;
    while at < text.len() {
        if text[at..].starts_with('\\') {
            at += 1;
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        } else if text[at..].starts_with(end) {
            return at + end.len();
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the deepest nesting of brackets in a text plus its operators, which bound the parser's
/// depth.
pub(crate) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut chained) = (0_usize, 0, 0);
    for (token, _) in Tokens::of(text).0 {
        match token.as_str() {
            "(" | "[" | "{" | "[?" => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "!" | "-" | "?" => chained += 1,
            _ => {}
        }
    }
    deepest + chained
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_where_they_stand() {
        let tokens = Tokens::of("self.a == 'b.c' && self.all(x, x >= 1) // self");
        assert_eq!(tokens.nth("self", 2), 19);
        assert_eq!(tokens.nth("==", 1), 7);
        assert_eq!(tokens.nth(".", 2), 23);
        assert_eq!(tokens.after(tokens.nth("all", 1), "("), 27);
        assert_eq!(tokens.nth("self", 3), 0);
        assert_eq!(tokens.before(5, "."), 4);
        assert_eq!(tokens.next(7), 10);
    }

    #[test]
    fn broken_texts_do_no_harm() {
        for text in ["'", "'\\", "\"\"\"", "ä'ö\\", "r'", "((((", "[?"] {
            let _ = Tokens::of(text);
        }
        assert_eq!(depth(&"(".repeat(1000)), 1000);
        assert_eq!(depth(&"!".repeat(1000)), 1000);
    }
}
