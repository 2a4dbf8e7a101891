//! In which form a client wants its reply.
//!
//! ```text
//! Accept ──clauses in order──▶ the first that we can produce ──▶ Form | 406
//! ```
//!
//! JSON is the only encoding; objects are given whole or as their metadata alone
//! (`as=PartialObjectMetadata`). Clauses that ask for more (tables, protobuf) are passed over, as
//! upstream passes over what it cannot produce, so that clients fall back as they do there.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/negotiation`.

use http::HeaderMap;
use http::header::ACCEPT;
use kinform_api::Status;

/// What an object looks like in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The whole object.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

const AVAILABLE: [&str; 2] = ["application/json", "application/json;stream=watch"];

/// Chooses a form.
pub(crate) fn form(headers: &HeaderMap) -> Result<Form, Status> {
    let mut asked = false;
    let mut best: Option<(u16, Form)> = None;
    for header in headers.get_all(ACCEPT) {
        for clause in header.to_str().unwrap_or_default().split(',') {
            if clause.trim().is_empty() {
                continue;
            }
            asked = true;
            let Some((weight, form)) = read_clause(clause) else {
                continue;
            };
            // Clauses of the same weight count in the order of their appearance.
            if best.is_none_or(|(highest, _)| weight > highest) {
                best = Some((weight, form));
            }
        }
    }
    match best {
        Some((_, form)) => Ok(form),
        None if asked => Err(Status::not_acceptable(&AVAILABLE)),
        None => Ok(Form::Whole),
    }
}

/// The weight in thousandths and the form of a clause that we can produce.
fn read_clause(clause: &str) -> Option<(u16, Form)> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    if !matches!(&*media, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut weight, mut wanted, mut group, mut version) = (1000, "", "meta.k8s.io", "v1");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim_matches('"');
        match name {
            "q" => weight = (value.parse::<f32>().ok()?.clamp(0.0, 1.0) * 1000.0) as u16,
            "as" => wanted = value,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    let known = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
    let form = match wanted {
        "" => Form::Whole,
        "PartialObjectMetadata" | "PartialObjectMetadataList" if known => Form::Metadata,
        _ => return None,
    };
    (weight > 0).then_some((weight, form))
}

/// Whether the client takes gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(http::header::ACCEPT_ENCODING)
        .iter()
        .any(|header| {
            header
                .to_str()
                .unwrap_or_default()
                .split(',')
                .any(|coding| {
                    let mut parts = coding.split(';').map(str::trim);
                    parts
                        .next()
                        .is_some_and(|name| name.eq_ignore_ascii_case("gzip"))
                        && !parts.any(|part| part == "q=0")
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_produced_wins() {
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        for (accept, want) in [
            ("", Some(Form::Whole)),
            ("*/*", Some(Form::Whole)),
            ("application/json;stream=watch", Some(Form::Whole)),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                Some(Form::Whole),
            ),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Some(Form::Whole),
            ),
            (partial, Some(Form::Metadata)),
            (
                &format!("{partial};q=0.5,application/json"),
                Some(Form::Whole),
            ),
            (&format!("{partial},application/json"), Some(Form::Metadata)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", None),
            ("application/x-nope", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(form(&headers).ok(), want, "{accept}");
        }
    }
}
