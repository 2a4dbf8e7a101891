//! The words of `get` and `wait`: types and names.
//!
//! ```text
//! pods,deploy │ pods a b │ pods/a deploy/b ──▶ [Request { kind, names }]
//! ```
//!
//! Upstream counterpart: `cli-runtime:pkg/resource/builder.go` (`ResourceTypeOrNameArgs`).

use crate::exit::Failure;

/// A type, and the names of the objects that are wanted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: String,
    /// Empty for all objects.
    pub(crate) names: Vec<String>,
}

impl Request {
    /// Parses the words of the command line.
    ///
    /// # Errors
    /// `TYPE/NAME` is mixed with other forms, or a part is empty.
    pub(crate) fn parse(words: &[String]) -> Result<Vec<Self>, Failure> {
        let Some((first, names)) = words.split_first() else {
            return Err(Failure::usage("a TYPE is needed"));
        };
        if words.iter().any(|word| word.contains('/')) {
            return words.iter().map(|word| Self::of_word(word)).collect();
        }
        let kinds = first.split(',').map(|kind| match kind {
            "" => Err(Failure::usage(format!("{first:?}: a TYPE is empty"))),
            kind => Ok(Self {
                kind: kind.to_owned(),
                names: names.to_vec(),
            }),
        });
        kinds.collect()
    }

    /// `TYPE/NAME`. An empty name is refused: it may be a variable that is not set.
    fn of_word(word: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::usage(format!(
                "{word:?}: TYPE/NAME expected, with both, as a word has that form"
            ))
        };
        let (kind, name) = word.split_once('/').ok_or_else(wrong)?;
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        Ok(Self {
            kind: kind.to_owned(),
            names: vec![name.to_owned()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, expected: Option<&[(&str, &[&str])]>) {
        let parsed = Request::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let parsed = parsed.ok().map(|requests| {
            let parts = requests.into_iter().map(|it| (it.kind, it.names));
            parts.collect::<Vec<_>>()
        });
        let expected = expected.map(|requests| {
            let own = |names: &&[&str]| names.iter().map(|it| (*it).to_owned()).collect();
            let parts = requests
                .iter()
                .map(|(kind, names)| ((*kind).to_owned(), own(names)));
            parts.collect::<Vec<(String, Vec<String>)>>()
        });
        assert_eq!(parsed, expected, "{words}");
    }

    // cli-runtime: TestResourceTypeOrNameArgs and its neighbours
    #[test]
    fn words_are_read_as_kubectl_reads_them() {
        check("pods", Some(&[("pods", &[])]));
        check("pods a b", Some(&[("pods", &["a", "b"])]));
        check("pods,deploy", Some(&[("pods", &[]), ("deploy", &[])]));
        check("pods,svc a", Some(&[("pods", &["a"]), ("svc", &["a"])]));
        check("pods/a", Some(&[("pods", &["a"])]));
        check("pods/a svc/b", Some(&[("pods", &["a"]), ("svc", &["b"])]));
        check("pods/", None);
        check("pods/a svc", None);
        check("svc pods/a", None);
        check("pods/a/b", None);
        check("/a", None);
        check("pods,,svc", None);
        check("pods,", None);
    }
}
