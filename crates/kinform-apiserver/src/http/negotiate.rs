//! Content negotiation: chooses the form of a reply.
//!
//! ```text
//! Accept ──clauses by weight, then in order──▶ the first that the server supports ──▶ Form | 406
//! ```
//!
//! Objects are JSON, YAML or protobuf, and either complete, their metadata alone
//! (`as=PartialObjectMetadata`) or a table (`as=Table`). Custom resources have protobuf only for
//! their metadata, tables have no protobuf, and watches have no YAML. As upstream does, the server
//! skips the clauses that it does not support, so that clients fall back in the same way. Failures
//! are encoded as the client prefers, independently of the object's form.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/negotiation`.

use http::HeaderMap;
use http::header::ACCEPT;
use kinform_api::{Status, reason};

use super::query::Query;
use super::yaml;
use crate::protobuf;

/// The encoding and the look of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) encoding: Encoding,
    pub(crate) look: Look,
}

/// The encoding of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

/// The part of an object that a reply shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The whole object.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A row of a `Table`.
    Table(TableLook),
}

/// The parameters of a requested table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableLook {
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    pub(crate) api_version: &'static str,
    pub(crate) include: Include,
}

/// The part of its object that a row includes, next to the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

const PLAIN: Form = Form {
    encoding: Encoding::Json,
    look: Look::Whole,
};
const AVAILABLE: [&str; 5] = [
    "application/json",
    yaml::MEDIA_TYPE,
    protobuf::MEDIA_TYPE,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

impl Encoding {
    /// The media type of an object or a list.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => yaml::MEDIA_TYPE,
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// The media type of a watch.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// Chooses the form of a reply with built-in or custom objects.
///
/// # Errors
/// 406 if the server supports none of the requested forms.
pub(crate) fn form(headers: &HeaderMap, is_custom: bool) -> Result<Form, Status> {
    choose(headers, is_custom, |_| true)
}

/// Chooses the form of a watch, which is never YAML.
///
/// # Errors
/// 406 if the server supports none of the requested forms, or if the client prefers YAML.
pub(crate) fn stream_form(headers: &HeaderMap, is_custom: bool) -> Result<Form, Status> {
    let form = choose(headers, is_custom, |_| true)?;
    match form.encoding {
        Encoding::Yaml => Err(not_acceptable(&AVAILABLE[3..])),
        Encoding::Json | Encoding::Protobuf => Ok(form),
    }
}

/// Chooses the form of a reply that is not stored, such as a review. It cannot be a table.
///
/// # Errors
/// 406 if the server supports none of the requested forms.
pub(crate) fn answer_form(headers: &HeaderMap) -> Result<Form, Status> {
    choose(headers, false, |look| !matches!(look, Look::Table(_)))
}

fn choose(
    headers: &HeaderMap,
    is_custom: bool,
    has_look: impl Fn(Look) -> bool,
) -> Result<Form, Status> {
    let mut known = false;
    let producible = |clause: &Clause| {
        known = true;
        let is_binary = clause.encoding == Encoding::Protobuf;
        clause.look.is_some_and(|look| {
            let has_encoding = match look {
                Look::Whole => !(is_custom && is_binary),
                Look::Metadata => true,
                Look::Table(_) => !is_binary,
            };
            has_encoding && has_look(look)
        })
    };
    let (asked, best) = best(headers, producible);
    match best.and_then(|clause| Some((clause.encoding, clause.look?))) {
        Some((encoding, look)) => Ok(Form { encoding, look }),
        None if !asked => Ok(PLAIN),
        // Upstream's router checks the media type alone, before any other check.
        None if known || is_custom => Err(not_acceptable(&AVAILABLE[..3])),
        None => Err(Status::not_acceptable(&AVAILABLE)),
    }
}

fn not_acceptable(accepted: &[&str]) -> Status {
    let accepted = accepted.join(", ");
    let message = format!("only the following media types are accepted: {accepted}");
    Status::failure(406, reason::NOT_ACCEPTABLE, message)
}

impl Form {
    /// Returns the form with the request's `includeObject` option for the rows of a table.
    ///
    /// # Errors
    /// 400 for an unknown word.
    pub(crate) fn including(self, query: &Query) -> Result<Self, Status> {
        let Look::Table(table) = self.look else {
            return Ok(self);
        };
        let include = match query.text("includeObject") {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::None,
            other => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: \
                     {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        let look = Look::Table(TableLook { include, ..table });
        Ok(Self { look, ..self })
    }
}

/// Returns the encoding for a failure, by the first clause without parameters such as `as`.
pub(crate) fn error_encoding(headers: &HeaderMap) -> Encoding {
    let (_, best) = best(headers, |clause| clause.is_plain);
    best.map(|clause| clause.encoding).unwrap_or_default()
}

/// A clause with a media type that the server knows.
#[derive(Clone, Copy, Debug)]
struct Clause {
    /// The weight, in thousandths.
    weight: u16,
    encoding: Encoding,
    /// `None` if the server does not support this look.
    look: Option<Look>,
    is_plain: bool,
}

/// Returns whether the client sent any clause, and the heaviest acceptable one. Among equals the
/// first wins.
fn best(headers: &HeaderMap, mut will_do: impl FnMut(&Clause) -> bool) -> (bool, Option<Clause>) {
    let (mut asked, mut best) = (false, None::<Clause>);
    for header in headers.get_all(ACCEPT) {
        for clause in header.to_str().unwrap_or_default().split(',') {
            if clause.trim().is_empty() {
                continue;
            }
            asked = true;
            let read = read_clause(clause).filter(&mut will_do);
            if let Some(clause) = read
                && best.is_none_or(|best| clause.weight > best.weight)
            {
                best = Some(clause);
            }
        }
    }
    (asked, best)
}

fn read_clause(clause: &str) -> Option<Clause> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match &*parts.next()?.to_ascii_lowercase() {
        "application/json" | "application/*" | "*/*" => Encoding::Json,
        yaml::MEDIA_TYPE => Encoding::Yaml,
        protobuf::MEDIA_TYPE => Encoding::Protobuf,
        _ => return None,
    };
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
    let look = match wanted {
        "" => Some(Look::Whole),
        "PartialObjectMetadata" | "PartialObjectMetadataList" if known => Some(Look::Metadata),
        "Table" if known => Some(Look::Table(TableLook {
            api_version: match version {
                "v1" => "meta.k8s.io/v1",
                _ => "meta.k8s.io/v1beta1",
            },
            include: Include::default(),
        })),
        _ => None,
    };
    (weight > 0).then_some(Clause {
        weight,
        encoding,
        look,
        is_plain: wanted.is_empty(),
    })
}

/// Returns the weight of one clause of `Accept`, in thousandths.
pub(crate) fn weight(clause: &str) -> u16 {
    let mut parts = clause.split(';').map(str::trim);
    let said = parts.find_map(|part| part.strip_prefix("q="));
    let said = said.map_or(Ok(1.0), str::parse::<f32>);
    said.map_or(0, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u16)
}

/// Returns whether the client accepts gzip.
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

    const METADATA: Form = Form {
        encoding: Encoding::Json,
        look: Look::Metadata,
    };
    const PROTOBUF: Form = Form {
        encoding: Encoding::Protobuf,
        look: Look::Whole,
    };
    const PROTOBUF_METADATA: Form = Form {
        encoding: Encoding::Protobuf,
        look: Look::Metadata,
    };

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        headers
    }

    #[test]
    fn the_first_clause_that_can_be_produced_wins() {
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let binary = "application/vnd.kubernetes.protobuf";
        let binary_partial = format!("{binary};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
        let fallback = format!("{partial},application/json");
        let light = format!("{partial};q=0.5,application/json");
        let both = format!("{binary},application/json");
        let heavy = format!("{binary};q=0.1,application/json;q=0.2");
        let metadata = format!("{binary_partial},{partial},application/json");
        for (accept, built_in, custom) in [
            ("", Some(PLAIN), Some(PLAIN)),
            ("*/*", Some(PLAIN), Some(PLAIN)),
            ("application/json;stream=watch", Some(PLAIN), Some(PLAIN)),
            (&both, Some(PROTOBUF), Some(PLAIN)),
            (&heavy, Some(PLAIN), Some(PLAIN)),
            (binary, Some(PROTOBUF), None),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                Some(PROTOBUF),
                None,
            ),
            (
                &binary_partial,
                Some(PROTOBUF_METADATA),
                Some(PROTOBUF_METADATA),
            ),
            (&metadata, Some(PROTOBUF_METADATA), Some(PROTOBUF_METADATA)),
            (
                "application/json;as=Nope,application/json",
                Some(PLAIN),
                Some(PLAIN),
            ),
            (partial, Some(METADATA), Some(METADATA)),
            (&light, Some(PLAIN), Some(PLAIN)),
            (&fallback, Some(METADATA), Some(METADATA)),
            ("application/json;as=Nope;v=v1;g=meta.k8s.io", None, None),
            ("application/x-nope", None, None),
        ] {
            let headers = headers(accept);
            assert_eq!(form(&headers, false).ok(), built_in, "{accept}");
            assert_eq!(form(&headers, true).ok(), custom, "{accept}");
        }
    }

    #[test]
    fn yaml_is_for_what_ends() {
        let yaml = Form {
            encoding: Encoding::Yaml,
            look: Look::Whole,
        };
        let alone = headers("application/yaml");
        assert_eq!(form(&alone, false).ok(), Some(yaml));
        assert_eq!(form(&alone, true).ok(), Some(yaml));
        let refused = stream_form(&alone, false).unwrap_err().message;
        assert!(refused.ends_with("stream=watch"), "{refused}");
        let first = headers("application/yaml,application/json");
        assert!(stream_form(&first, false).is_err());
        let second = headers("application/json,application/yaml");
        assert_eq!(stream_form(&second, false).ok(), Some(PLAIN));
    }

    #[test]
    fn tables_are_for_what_is_stored_and_never_protobuf() {
        // kubectl: what get asks for
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
            application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let table = |api_version, include| Form {
            encoding: Encoding::Json,
            look: Look::Table(TableLook {
                api_version,
                include,
            }),
        };
        let asked = headers(kubectl);
        let form_v1 = form(&asked, true).unwrap();
        assert_eq!(form_v1, table("meta.k8s.io/v1", Include::Metadata));
        assert_eq!(answer_form(&asked).ok(), Some(PLAIN));
        let beta = headers("application/json;as=Table;v=v1beta1;g=meta.k8s.io");
        let form_beta = form(&beta, false).unwrap();
        let query = Query::parse(Some("includeObject=Object"));
        let whole = table("meta.k8s.io/v1beta1", Include::Object);
        assert_eq!(form_beta.including(&query).ok(), Some(whole));
        let wrong = Query::parse(Some("includeObject=Nope"));
        assert_eq!(form_beta.including(&wrong).unwrap_err().code, 400);
        assert_eq!(PLAIN.including(&wrong).ok(), Some(PLAIN));
        let binary = headers("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io");
        assert_eq!(form(&binary, false).unwrap_err().code, 406);
        assert_eq!(answer_form(&beta).unwrap_err().code, 406);
    }

    #[test]
    fn failures_are_told_in_the_encoding_that_is_liked_best() {
        for (accept, want) in [
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Encoding::Protobuf,
            ),
            (
                "application/json,application/vnd.kubernetes.protobuf",
                Encoding::Json,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Encoding::Json,
            ),
            ("application/x-nope", Encoding::Json),
        ] {
            assert_eq!(error_encoding(&headers(accept)), want, "{accept}");
        }
        let router = form(&headers("application/x-nope"), false)
            .unwrap_err()
            .message;
        assert!(router.starts_with("406: Not Acceptable"), "{router}");
        let handler = form(&headers("application/json;as=Nope"), false)
            .unwrap_err()
            .message;
        assert!(handler.starts_with("only the following"), "{handler}");
    }
}
