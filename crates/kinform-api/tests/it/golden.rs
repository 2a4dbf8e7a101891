//! Recorded answers of a real API server: each `Status` reads and writes back byte for byte,
//! and our constructors and parsers say what the server said.
//!
//! ```text
//! testdata/golden/*.jsonl.gz ──▶ (request, status, body) ──▶ our Status, compared as bytes
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use kinform_api::selector::{FieldSelector, LabelSelector};
use kinform_api::{
    FieldError, GroupKind, GroupResource, INITIAL_EVENTS_END, ResourceVersion, ShownValue, Status,
    StatusDetails, WatchEventKind, WatchOptions, reason,
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Exchange {
    file: String,
    path: String,
    status: u16,
    #[serde(default)]
    body: String,
}

/// All recordings, by their names; read once, since most of a test's time goes into that.
static RECORDED: LazyLock<BTreeMap<String, Exchange>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut all = BTreeMap::new();
    for file in files.filter(|p| p.extension().is_some_and(|e| e == "gz")) {
        for line in BufReader::new(GzDecoder::new(File::open(file).unwrap())).lines() {
            let exchange: Exchange = serde_json::from_str(&line.unwrap()).unwrap();
            all.insert(exchange.file.clone(), exchange);
        }
    }
    all
});

/// The recorded `Status` of a file.
fn status(file: &str) -> Status {
    let exchange = RECORDED
        .get(file)
        .unwrap_or_else(|| panic!("{file} is not recorded"));
    // The one indented answer is no line, but read all the same.
    let text = status_text(&exchange.body).unwrap_or(&exchange.body);
    Status::from_slice(text.as_bytes()).unwrap()
}

/// The `Status` of a body: the body itself, or the object of an ERROR line.
fn status_text(body: &str) -> Option<&str> {
    let body = body.trim_end();
    let object = body
        .strip_prefix(r#"{"type":"ERROR","object":"#)
        .and_then(|b| b.strip_suffix('}'));
    let text = object.unwrap_or(body);
    text.starts_with(r#"{"kind":"Status""#).then_some(text)
}

#[test]
fn every_recorded_status_reads_and_writes_back_byte_for_byte() {
    let mut seen = 0;
    for exchange in RECORDED.values() {
        let Some(text) = status_text(&exchange.body) else {
            continue;
        };
        let status = Status::from_slice(text.as_bytes()).unwrap();
        let written = String::from_utf8(status.to_json()).unwrap();
        assert_eq!(written, text, "{}", exchange.file);
        if exchange.status >= 400 {
            assert_eq!(status.code, exchange.status, "{}", exchange.file);
        }
        seen += 1;
    }
    assert!(seen > 90, "only {seen} recordings hold a Status");
}

#[test]
fn text_that_is_not_a_status_is_none() {
    for file in ["error/404-group.json", "error/404-path.json"] {
        assert_eq!(
            Status::from_slice(RECORDED[file].body.as_bytes()),
            None,
            "{file}"
        );
    }
}

#[test]
fn constructors_say_what_the_server_said() {
    for (file, ours) in constructed() {
        assert_eq!(ours, status(file), "{file}");
    }
}

/// The replies that a server made of our constructors would send, by recording.
fn constructed() -> Vec<(&'static str, Status)> {
    [
        reads(),
        refusals(),
        writes(),
        invalid_objects(),
        list_options(),
    ]
    .concat()
}

fn core(resource: &str) -> GroupResource {
    GroupResource::new("", resource)
}

/// Reads of objects, resources or versions that do not exist, not yet, or not any more.
fn reads() -> Vec<(&'static str, Status)> {
    let pods = core("pods");
    vec![
        (
            "error/400-timeout.json",
            Status::bad_request(
                "invalid timeout specified in the request URL - time: invalid duration \"abc\"",
            ),
        ),
        ("error/404-object.json", Status::not_found(&pods, "nope")),
        ("error/404-resource.json", Status::no_such_resource()),
        (
            "error/404-namespace-create.json",
            Status::not_found(&core("namespaces"), "none"),
        ),
        (
            "error/504-future-rv.json",
            Status::too_large_resource_version(99_999_999, 801),
        ),
        (
            "error/future-sie.jsonl",
            Status::too_large_resource_version(99_999_999, 1166),
        ),
        (
            "error/410-watch-old-cache.jsonl",
            Status::too_old_resource_version(2, 803),
        ),
        (
            "restart/watch-resume.jsonl",
            Status::too_old_resource_version(1166, 1169),
        ),
        (
            "error/410-watch-events.jsonl",
            Status::expired("The resourceVersion for the provided watch is too old."),
        ),
        (
            "crd/list-while-establishing-1.json",
            Status::too_many_requests("storage is (re)initializing", 1),
        ),
    ]
}

/// Requests without permission, or in a form that the server does not speak.
fn refusals() -> Vec<(&'static str, Status)> {
    let pods = core("pods");
    let media = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ];
    let streams = [
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ];
    vec![
        ("error/401-wrong-token.json", Status::unauthorized()),
        (
            "error/403-anonymous.json",
            Status::access_denied("system:anonymous", "list", &pods, "", None),
        ),
        (
            "error/403-list.json",
            Status::access_denied("limited", "list", &pods, "", None),
        ),
        (
            "error/403-watch.json",
            Status::access_denied("limited", "watch", &pods, "", None),
        ),
        (
            "error/403-create.json",
            Status::access_denied("limited", "create", &pods, "", Some("shop")),
        ),
        (
            "error/403-get.json",
            Status::access_denied("limited", "get", &core("secrets"), "x", Some("shop")),
        ),
        ("error/405-method.json", Status::method_not_allowed()),
        (
            "error/406-accept.json",
            Status::not_acceptable(&[&media[..], &streams[..]].concat()),
        ),
        (
            "error/415-content-type.json",
            Status::unsupported_media_type(&media),
        ),
        (
            "error/413-too-large.json",
            Status::request_entity_too_large(3_145_728),
        ),
    ]
}

/// Writes that conflict with an object that exists, or that the server does not accept.
fn writes() -> Vec<(&'static str, Status)> {
    let maps = core("configmaps");
    let uid = "cc594f51-2c66-4faa-ab06-0f3ee2daba4e";
    vec![
        (
            "error/403-namespace-terminating.json",
            Status::namespace_terminating(&maps, "x", "dying"),
        ),
        (
            "write/create-exists.json",
            Status::already_exists(&maps, "w"),
        ),
        ("write/update-conflict.json", Status::modified(&maps, "w")),
        (
            "write/patch-json-test-fails.json",
            Status::failure(
                422,
                reason::INVALID,
                "the server rejected our request due to an error in our request",
            )
            .with_details(StatusDetails::default()),
        ),
        (
            "kinds/configmap.delete.json",
            Status::success(StatusDetails {
                name: "x".into(),
                kind: "configmaps".into(),
                uid: uid.into(),
                ..StatusDetails::default()
            }),
        ),
    ]
}

/// Writes of invalid objects.
fn invalid_objects() -> Vec<(&'static str, Status)> {
    let config_map = GroupKind::new("", "ConfigMap");
    vec![
        (
            "error/422-no-name.json",
            Status::invalid(
                &config_map,
                "",
                &[FieldError::required(
                    "metadata.name",
                    "name or generateName is required",
                )],
            ),
        ),
        (
            "error/422-too-large-object.json",
            Status::invalid(&config_map, "x", &[FieldError::too_long("[]", 1_048_576)]),
        ),
        (
            "crd/invalid.json",
            Status::invalid(
                &GroupKind::new("apiextensions.k8s.io", "CustomResourceDefinition"),
                "wrong.stable.example.com",
                &[FieldError::invalid(
                    "metadata.name",
                    "wrong.stable.example.com",
                    "must be spec.names.plural+\".\"+spec.group",
                )],
            ),
        ),
        (
            "kinds/controllerrevision.meta-patch.json",
            Status::invalid(
                &GroupKind::new("apps", "ControllerRevision"),
                "x",
                &[FieldError::invalid(
                    "data",
                    ShownValue::raw("{\"a\":1}"),
                    "field is immutable",
                )],
            ),
        ),
    ]
}

/// Invalid combinations of options of a list or a watch.
fn list_options() -> Vec<(&'static str, Status)> {
    let field = "resourceVersionMatch";
    let forbidden = |detail: &str| FieldError::forbidden(field, detail);
    let without = forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
    let on_list = FieldError::forbidden(
        "sendInitialEvents",
        "sendInitialEvents is forbidden for list",
    );
    let unknown = FieldError::not_supported(field, "Maybe", &["Exact", "NotOlderThan", ""]);
    let zero = forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    let needs =
        forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    let on_watch = forbidden(
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    );
    vec![
        (
            "error/422-match-without-rv.json",
            Status::invalid_list_options(std::slice::from_ref(&without)),
        ),
        (
            "error/422-match-unknown.json",
            Status::invalid_list_options(&[unknown]),
        ),
        (
            "error/422-exact-zero.json",
            Status::invalid_list_options(&[zero]),
        ),
        (
            "error/422-sie-list.json",
            Status::invalid_list_options(&[without, on_list]),
        ),
        (
            "error/422-sie-no-match.json",
            Status::invalid_list_options(&[needs]),
        ),
        (
            "error/422-watch-match.json",
            Status::invalid_list_options(&[on_watch]),
        ),
    ]
}

#[test]
fn selectors_fail_with_the_servers_words() {
    let message = |file: &str| status(file).message;
    let labels = "a in (b".parse::<LabelSelector>().unwrap_err();
    assert_eq!(labels.to_string(), message("error/400-label-selector.json"));
    let fields = "abc".parse::<FieldSelector>().unwrap_err();
    assert_eq!(
        fields.to_string(),
        message("error/400-field-selector-syntax.json")
    );
}

#[test]
fn questions_answer_what_the_recordings_mean() {
    assert!(status("error/410-watch-old-cache.jsonl").is_expired());
    assert!(status("error/410-watch-events.jsonl").is_expired());
    assert!(status("error/504-future-rv-exact.json").is_too_large_resource_version());
    assert_eq!(
        status("error/504-future-rv.json")
            .retry_after()
            .unwrap()
            .as_secs(),
        1
    );
    assert!(status("error/403-list.json").is_forbidden());
    assert!(status("error/401-wrong-token.json").is_unauthorized());
    assert!(status("error/404-object.json").is_not_found());
    assert!(status("write/update-conflict.json").is_conflict());
    assert!(status("write/create-exists.json").is_already_exists());
    assert!(!status("write/create-exists.json").is_conflict());
    assert!(status("error/405-method.json").is_method_not_allowed());
    assert!(status("error/406-accept.json").is_not_acceptable());
    assert!(status("crd/list-while-establishing-1.json").is_too_many_requests());
    assert!(status("error/watch-rv-garbage.json").is_internal_error());
    assert!(status("kinds/configmap.delete.json").is_success());
}

#[test]
fn recorded_selectors_and_queries_are_ours() {
    let mut label_selectors = 0;
    for exchange in RECORDED.values().filter(|e| e.status == 200) {
        let query = exchange.path.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "labelSelector" => {
                    let parsed: LabelSelector = value.parse().unwrap();
                    assert_eq!(parsed.to_string().parse::<LabelSelector>().unwrap(), parsed);
                    label_selectors += 1;
                }
                "fieldSelector" => {
                    let parsed: FieldSelector = value.parse().unwrap();
                    assert_eq!(parsed.to_string().parse::<FieldSelector>().unwrap(), parsed);
                }
                _ => {}
            }
        }
    }
    assert!(label_selectors > 0);
    let options = WatchOptions {
        resource_version: Some("1".into()),
        ..WatchOptions::default()
    };
    assert_eq!(options.to_query(), "resourceVersion=1&watch=true");
}

#[test]
fn recorded_watches_speak_words_that_we_know_and_end_their_initial_events() {
    let (mut events, mut ends) = (0, 0);
    for exchange in RECORDED.values() {
        if !exchange.file.starts_with("watch/") || !exchange.body.starts_with("{\"type\"") {
            continue;
        }
        for line in exchange.body.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let kind: WatchEventKind = event["type"].as_str().unwrap().parse().unwrap();
            let metadata = &event["object"]["metadata"];
            ends += usize::from(metadata["annotations"][INITIAL_EVENTS_END] == "true");
            if let (false, Some(version)) = (
                kind == WatchEventKind::Error,
                metadata["resourceVersion"].as_str(),
            ) {
                let version = ResourceVersion::from(version);
                assert_eq!(version.parsed().unwrap().to_string(), version.as_str());
            }
            events += 1;
        }
    }
    assert!(events > 50 && ends > 0, "{events} events, {ends} ends");
}
