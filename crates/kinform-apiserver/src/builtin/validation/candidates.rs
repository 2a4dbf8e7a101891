//! Validation of candidates of a coordinated election.
//!
//! ```text
//! :candidate -> semantic versions, the emulation's not above the binary's, a known strategy
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/coordination/validation`, and `blang/semver`, whose
//! grammar and order versions have.

use kinform_api::{FieldError, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site};
use crate::object::text;

const OLDEST: &str = "OldestEmulationVersion";

pub(super) fn named(name: &str) -> Option<Check> {
    (name == ":candidate").then_some(candidate as Check)
}

fn candidate(site: &Site<'_>, errors: &mut Errors<'_>) {
    let spec = site.value.unwrap_or(&Value::Null);
    let field = |name: &str| format!("{}.{name}", site.path());
    let mut version = |name: &str| match text(spec, &[name]) {
        "" => None,
        given => {
            let parsed = Version::parse(given);
            if parsed.is_none() {
                let detail = "must be a valid semantic version";
                errors.push(FieldError::invalid(field(name), given, detail));
            }
            Some(parsed.unwrap_or_default())
        }
    };
    let emulation = version("emulationVersion");
    let binary = version("binaryVersion");
    let given = text(spec, &["binaryVersion"]);
    match (&binary, &emulation) {
        (None, _) => errors.push(FieldError::required(field("binaryVersion"), "")),
        (Some(binary), Some(emulation)) if binary < emulation => {
            let detail = "must be greater than or equal to `emulationVersion`";
            errors.push(FieldError::invalid(field("binaryVersion"), given, detail));
        }
        _ => {}
    }
    let strategy = text(spec, &["strategy"]);
    if strategy.is_empty() {
        return errors.push(FieldError::required(field("strategy"), ""));
    }
    if strategy == OLDEST && emulation.unwrap_or_default() == Version::default() {
        let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
        errors.push(FieldError::required(field("emulationVersion"), detail));
    }
    // Upstream names the member twice.
    let field = field("strategy.strategy");
    if strategy.contains('/') {
        for detail in names::label_key_errors(strategy) {
            errors.push(FieldError::invalid(&*field, strategy, detail));
        }
    } else if strategy != OLDEST {
        errors.push(FieldError::not_supported(field, strategy, &[OLDEST]));
    }
}

/// A semantic version, in its order; build metadata has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    core: [u64; 3],
    is_release: bool,
    before: Vec<Part>,
}

/// A part of a pre-release: numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Default for Version {
    fn default() -> Self {
        Self {
            core: [0; 3],
            is_release: true,
            before: Vec::new(),
        }
    }
}

impl Version {
    fn parse(given: &str) -> Option<Self> {
        let (rest, build) = match given.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (given, None),
        };
        let is_word = |word: &str| {
            let is_letter = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
            !word.is_empty() && word.bytes().all(is_letter)
        };
        if build.is_some_and(|build| !build.split('.').all(is_word)) {
            return None;
        }
        let (core, before) = match rest.split_once('-') {
            Some((core, before)) => (core, Some(before)),
            None => (rest, None),
        };
        let mut numbers = core.split('.').map(number);
        let core = [numbers.next()??, numbers.next()??, numbers.next()??];
        if numbers.next().is_some() {
            return None;
        }
        let part = |word: &str| match word.bytes().all(|c| c.is_ascii_digit()) {
            true => number(word).map(Part::Number),
            false => is_word(word).then(|| Part::Word(word.to_owned())),
        };
        let parts: Option<Vec<Part>> = match before {
            Some(all) => all.split('.').map(part).collect(),
            None => Some(Vec::new()),
        };
        Some(Self {
            core,
            is_release: before.is_none(),
            before: parts?,
        })
    }
}

/// A number without leading zeros.
fn number(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|c| c.is_ascii_digit());
    let has_zeros = digits.len() > 1 && digits.starts_with('0');
    digits.parse().ok().filter(|_| is_plain && !has_zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_grammar_and_the_order_of_semantic_versioning() {
        let rising = [
            "0.0.1",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0",
            "1.2.0",
            "1.10.0",
        ];
        for pair in rising.windows(2) {
            assert!(
                Version::parse(pair[0]).unwrap() < Version::parse(pair[1]).unwrap(),
                "{pair:?}"
            );
        }
        assert_eq!(Version::parse("1.0.0+a"), Version::parse("1.0.0+b-c.01"));
        let wrong = [
            "",
            "1",
            "1.2",
            "v1.2.3",
            "1.2.3.4",
            "1.02.3",
            "1.2.x",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "1.2.3-a..b",
            "1.2.3-ä",
            "1.2.99999999999999999999",
            "+1.2.3",
            " 1.2.3",
        ];
        for version in wrong {
            assert_eq!(Version::parse(version), None, "{version}");
        }
    }
}
