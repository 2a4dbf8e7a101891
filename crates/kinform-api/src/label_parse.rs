//! The grammar of label selectors, with upstream's messages.
//!
//! ```text
//! "a in (b,c),!d" ──lex──▶ [a] [in] [(] [b] [,] [c] [)] [,] [!] [d] ──parse──▶ requirements
//! ```
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = key | "!" key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ]
//!             | key ( "in" | "notin" ) "(" [ value ] { "," [ value ] } ")"
//! ```
//!
//! `in` and `notin` are keywords only in an operator's position. One pass, no recursion; tokens are
//! slices of the text. A NUL ends the text, as in upstream's lexer.
//! Upstream: `apimachinery:pkg/labels/selector.go` (`Lexer`, `Parser`).

use std::str::FromStr;

use crate::error::{Error, Noun};
use crate::field_error::FieldError;
use crate::label_selector::{LabelOperator, LabelSelector, Requirement};
use crate::names::label_key_errors;

impl FromStr for LabelSelector {
    type Err = Error;

    /// Parses a selector.
    ///
    /// # Errors
    /// The text is not a selector; the message is upstream's.
    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(Self::new(parse(text)?))
    }
}

/// The requirements in a text, in its order.
fn parse(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser {
        rest: text.split('\0').next().unwrap_or_default(),
    };
    parser
        .selector()
        .map_err(|message| Error::new(Noun::LabelSelector, message))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    End,
    Word(&'a str),
    Open,
    Close,
    Comma,
    Not,
    /// `=`, `==`, `!=`, `>` or `<`.
    Operator(LabelOperator, &'a str),
}

impl<'a> Token<'a> {
    /// As upstream's messages show it.
    fn shown(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Word(text) | Token::Operator(_, text) => text,
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Not => {}
                other => {
                    let shown = other.shown();
                    return Err(format!(
                        "found '{shown}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Comma => {}
                other => {
                    let shown = other.shown();
                    return Err(format!("found '{shown}', expected: ',' or 'end of string'"));
                }
            }
            let after = self.peek();
            if !matches!(after, Token::Word(_) | Token::Not) {
                return Err(format!(
                    "found '{}', expected: identifier after ','",
                    after.shown()
                ));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.shown())),
        };
        let wrong = label_key_errors(key);
        if !wrong.is_empty() {
            return Err(FieldError::invalid("<nil>", key, wrong.join("; ")).to_string());
        }
        if negated {
            return make(key, LabelOperator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return make(key, LabelOperator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        make(key, operator, values)
    }

    fn operator(&mut self) -> Result<LabelOperator, String> {
        match self.next() {
            Token::Operator(operator, _) => Ok(operator),
            Token::Word("in") => Ok(LabelOperator::In),
            Token::Word("notin") => Ok(LabelOperator::NotIn),
            other => {
                let shown = other.shown();
                Err(format!(
                    "found '{shown}', expected: in, notin, =, ==, !=, gt, lt"
                ))
            }
        }
    }

    fn exact_value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.shown())),
        }
    }

    /// Values in parentheses. An empty place between commas is the empty value.
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.shown())),
        }
        match self.peek() {
            Token::Word(_) | Token::Comma => self.value_list(),
            Token::Close => {
                self.next();
                Ok(vec![""])
            }
            other => Err(format!(
                "found '{}', expected: ',', ')' or identifier",
                other.shown()
            )),
        }
    }

    fn value_list(&mut self) -> Result<Vec<&'a str>, String> {
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => break,
                        other => {
                            let shown = other.shown();
                            return Err(format!("found '{shown}', expected: ',' or ')'"));
                        }
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.push("");
                    }
                    match self.peek() {
                        Token::Close => {
                            values.push("");
                            break;
                        }
                        Token::Comma => {
                            self.next();
                            values.push("");
                        }
                        _ => {}
                    }
                }
                other => {
                    let shown = other.shown();
                    return Err(format!("found '{shown}', expected: ',', or identifier"));
                }
            }
        }
        self.next();
        Ok(values)
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
        const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '>', '<'];
        let text = self.rest.trim_start_matches(SPACE);
        if text.is_empty() {
            self.rest = text;
            return Token::End;
        }
        if text.starts_with(SYMBOLS) {
            let (token, length) = symbol(text);
            self.rest = &text[length..];
            return token;
        }
        let end = text.find(|c| SPACE.contains(&c) || SYMBOLS.contains(&c));
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.rest = rest;
        Token::Word(word)
    }
}

/// The longest symbol that a text starts with, and its length.
fn symbol(text: &str) -> (Token<'_>, usize) {
    use LabelOperator as Op;
    for (symbol, operator) in [
        ("==", Op::DoubleEquals),
        ("!=", Op::NotEquals),
        ("=", Op::Equals),
        (">", Op::GreaterThan),
        ("<", Op::LessThan),
    ] {
        if text.starts_with(symbol) {
            return (
                Token::Operator(operator, &text[..symbol.len()]),
                symbol.len(),
            );
        }
    }
    let token = match text.as_bytes().first() {
        Some(b'(') => Token::Open,
        Some(b')') => Token::Close,
        Some(b',') => Token::Comma,
        _ => Token::Not,
    };
    (token, 1)
}

fn make(key: &str, operator: LabelOperator, values: Vec<&str>) -> Result<Requirement, String> {
    Requirement::new(key, operator, values).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use crate::label_selector::LabelSelector;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, printed: Result<&str, &str>) {
        let parsed = text.parse::<LabelSelector>();
        let shown = parsed
            .as_ref()
            .map(ToString::to_string)
            .map_err(ToString::to_string);
        assert_eq!(
            shown,
            printed.map(String::from).map_err(String::from),
            "{text:?}"
        );
    }

    #[test]
    fn selectors_parse_as_upstream() {
        // apimachinery: TestSelectorParse, TestSetSelectorParser
        for same in [
            "",
            "x=a,y=b,z=c",
            "x!=a,y=b",
            "x=",
            "x!=",
            "x==a",
            "x>1",
            "x>1,z<5",
            "!x",
            "x",
            "in",
            "notin in (in,notin)",
            "a.b/c in (d)",
            "x in (a)",
        ] {
            check(same, Ok(same));
        }
        check("x= ", Ok("x="));
        check("x=,z= ", Ok("x=,z="));
        check(" x = a , ! y\t", Ok("x=a,!y"));
        check("z,y,x", Ok("x,y,z"));
        check("x in ()", Ok("x in ()"));
        check("x in (,)", Ok("x in ()"));
        check("x in (a,,de)", Ok("x in (,a,de)"));
        check("x in (c,b,a,b)", Ok("x in (a,b,c)"));
        check("x in (a,)", Ok("x in (,a)"));
        check("x in (,,b)", Ok("x in (,b)"));
        check("a\0garbage(((", Ok("a"));
    }

    #[test]
    fn errors_are_upstreams() {
        let requirement = |text: &str| format!("unable to parse requirement: {text}");
        for (text, message) in [
            ("a in (b", requirement("found '', expected: ',' or ')'")),
            ("a in", requirement("found '' expected: '('")),
            ("a in b", requirement("found 'b' expected: '('")),
            (
                "a in (",
                requirement("found '', expected: ',', ')' or identifier"),
            ),
            ("a in (b c)", requirement("found 'c', expected: ',' or ')'")),
            (
                "a in (b,",
                requirement("found '', expected: ',', or identifier"),
            ),
            (
                "a in (=)",
                requirement("found '=', expected: ',', ')' or identifier"),
            ),
            (
                "a in (b,=)",
                requirement("found '=', expected: ',', or identifier"),
            ),
            (
                "x=a||y=b",
                requirement("values[0][x]: Invalid value: \"a||y\": …"),
            ),
            (
                "x==a==b",
                "found '==', expected: ',' or 'end of string'".into(),
            ),
            ("x=a,=b", "found '=', expected: identifier after ','".into()),
            ("!x=a", "found '=', expected: ',' or 'end of string'".into()),
            ("x,", "found '', expected: identifier after ','".into()),
            (
                ",x",
                "found ',', expected: !, identifier, or 'end of string'".into(),
            ),
            (
                "=a",
                "found '=', expected: !, identifier, or 'end of string'".into(),
            ),
            (
                "x a",
                requirement("found 'a', expected: in, notin, =, ==, !=, gt, lt"),
            ),
            (
                "x!",
                requirement("found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ),
            ("!", requirement("found '', expected: identifier")),
            ("!!x", requirement("found '!', expected: identifier")),
            ("x=(", requirement("found '(', expected: identifier")),
            (
                "x>a",
                requirement(
                    "values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
                ),
            ),
            (
                "-x=a",
                requirement("<nil>: Invalid value: \"-x\": name part must consist …"),
            ),
        ] {
            let error = text.parse::<LabelSelector>().unwrap_err().to_string();
            match message.split_once('…') {
                Some((start, _)) => assert!(error.starts_with(start), "{text:?}: {error}"),
                None => assert_eq!(error, message, "{text:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_fails(text in "[abin(),=!<> 1\\-é\0]{0,16}") {
            if let Ok(selector) = text.parse::<LabelSelector>() {
                prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
            }
        }
    }
}
