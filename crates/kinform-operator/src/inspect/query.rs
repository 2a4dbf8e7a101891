//! The query of a request.
//!
//! ```text
//! ?cache=pods&name=a%2Fb ─▶ names and values
//! ```
//!
//! BOUND: 16 parameters; a head has at most 64 KiB.
//! Upstream counterpart: Go's `net/url`.

/// BOUND: parameters that are read.
const PARAMETERS: usize = 16;

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Self {
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let parameter = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        };
        Self(pairs.take(PARAMETERS).map(parameter).collect())
    }

    /// The value of a parameter, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name)?;
        Some(&*found.1).filter(|value| !value.is_empty())
    }

    /// The same, owned.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }
}

/// Bytes that are no UTF-8 become U+FFFD.
fn decode(text: &str) -> String {
    let digit = |at: usize| {
        let byte = text.as_bytes().get(at)?;
        (*byte as char).to_digit(16).map(|digit| digit as u8)
    };
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.as_bytes().get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(high << 4 | low);
                at += 2;
            }
            (b'+', ..) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some(
            "cache=pods+%231&q=a%2fb%C3%A4&empty=&odd=%zz%&bad=%ff",
        ));
        for (name, value) in [
            ("cache", Some("pods #1")),
            ("q", Some("a/bä")),
            ("empty", None),
            ("missing", None),
            ("odd", Some("%zz%")),
            ("bad", Some("\u{fffd}")),
        ] {
            assert_eq!(query.get(name), value, "{name}");
        }
        assert_eq!(Query::parse(None).get("a"), None);
    }
}
