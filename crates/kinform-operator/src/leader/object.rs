//! A Lease on the wire: read for the election, written without losing what others put into it.
//!
//! ```text
//! JSON ──read──▶ Stored { Lease for the election, the whole object }
//! the whole object + NewRecord + renewTime ──updated──▶ JSON
//! ```
//!
//! Only fields of the election are replaced: labels, annotations, strategy, preferred holder and
//! fields that do not exist yet survive.
//!
//! Upstream counterpart: `client-go:tools/leaderelection/resourcelock/leaselock.go`, which replaces
//! the whole spec.

use std::collections::BTreeMap;

use kinform_api::mutant;
use kinform_core::election::{AcquireTime, Lease, NewRecord, Record};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::last_writes::ANNOTATION;

/// Labels that this process wants on its lease.
pub(super) type Labels = BTreeMap<String, String>;

/// A lease as it was read.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) lease: Lease,
    object: Map<String, Value>,
}

impl Stored {
    /// Reads a lease of the server.
    ///
    /// # Errors
    /// It is no lease, in words.
    pub(super) fn read(object: Value) -> Result<Self, String> {
        let read = Readable::deserialize(&object)
            .map_err(|error| format!("the answer is no Lease: {error}"))?;
        let Value::Object(mut object) = object else {
            return Err("the answer is no Lease: it is no object".to_owned());
        };
        if read.metadata.uid.is_empty() || read.metadata.resource_version.is_empty() {
            return Err("the answer is no Lease: it has no uid or no version".to_owned());
        }
        // The server keeps its own list if an update has no managedFields.
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        let spec = read.spec;
        let record = Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquire_time: spec.acquire_time.unwrap_or_default(),
            renew_time: spec.renew_time.unwrap_or_default(),
        };
        let lease = Lease {
            uid: read.metadata.uid,
            version: read.metadata.resource_version.into(),
            record,
            preferred_holder: spec.preferred_holder.unwrap_or_default(),
        };
        Ok(Self { lease, object })
    }

    /// An annotation of the object.
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][name].as_str()
    }

    /// The body of an update: this object, at its version, with this record and these labels, and
    /// with the last writes of the term if it is released.
    pub(super) fn updated(
        &self,
        record: &NewRecord,
        renew_time: &str,
        labels: &Labels,
        last_writes: Option<&str>,
    ) -> Vec<u8> {
        let mut object = self.object.clone();
        if mutant!("L12") {
            object.remove("metadata");
            let metadata = member(&mut object, "metadata");
            metadata.insert("name".to_owned(), self.object["metadata"]["name"].clone());
            metadata.insert("uid".to_owned(), self.lease.uid.as_str().into());
            let version = self.lease.version.as_str();
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        write_spec(member(&mut object, "spec"), record, renew_time);
        let metadata = member(&mut object, "metadata");
        write_labels(metadata, labels);
        write_annotation(metadata, last_writes);
        Value::Object(object).to_string().into_bytes()
    }
}

/// The body of a create.
pub(super) fn created(
    namespace: &str,
    name: &str,
    record: &NewRecord,
    renew_time: &str,
    labels: &Labels,
) -> Vec<u8> {
    let mut metadata = Map::new();
    metadata.insert("namespace".to_owned(), namespace.into());
    metadata.insert("name".to_owned(), name.into());
    write_labels(&mut metadata, labels);
    let mut spec = Map::new();
    write_spec(&mut spec, record, renew_time);
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    });
    object.to_string().into_bytes()
}

fn write_spec(spec: &mut Map<String, Value>, record: &NewRecord, renew_time: &str) {
    let acquire_time = match &record.acquire_time {
        AcquireTime::Now => renew_time,
        AcquireTime::Kept(text) => text,
    };
    // Empty, and not absent, as upstream's release: the coordinator of elections in Kubernetes 1.37
    // ends its API server where a lease has no holder at all.
    spec.insert("holderIdentity".to_owned(), record.holder.as_str().into());
    // An empty text is no time.
    for (field, text) in [("acquireTime", acquire_time), ("renewTime", renew_time)] {
        if text.is_empty() {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), text.into());
        }
    }
    spec.insert(
        "leaseDurationSeconds".to_owned(),
        record.duration_seconds.into(),
    );
    spec.insert("leaseTransitions".to_owned(), record.transitions.into());
}

fn write_labels(metadata: &mut Map<String, Value>, labels: &Labels) {
    if labels.is_empty() {
        return;
    }
    let all = member(metadata, "labels");
    for (key, value) in labels {
        all.insert(key.clone(), value.as_str().into());
    }
}

/// Sets the annotation of the last writes, or removes it.
fn write_annotation(metadata: &mut Map<String, Value>, last_writes: Option<&str>) {
    if let Some(text) = last_writes {
        let all = member(metadata, "annotations");
        all.insert(ANNOTATION.to_owned(), text.into());
    } else if let Some(Value::Object(all)) = metadata.get_mut("annotations") {
        all.remove(ANNOTATION);
    }
}

/// The object under `name`; made where it is missing, or is no object.
fn member<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = object.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made one")
}

#[derive(Deserialize)]
struct Readable {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Metadata {
    uid: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    lease_transitions: Option<i32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    preferred_holder: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from a real API server; two fields and a label of others were added.
    fn recorded() -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "ledger", "namespace": "bank",
                "uid": "873017c1-386c-4a9a-be69-24def467ab27", "resourceVersion": "424",
                "creationTimestamp": "2026-11-21T00:20:49Z",
                "labels": { "team": "a", "app": "old" },
                "managedFields": [{
                    "manager": "golden", "operation": "Update",
                    "apiVersion": "coordination.k8s.io/v1", "time": "2026-11-21T00:20:49Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": { "f:spec": { "f:acquireTime": {}, "f:holderIdentity": {} } },
                }],
            },
            "spec": {
                "holderIdentity": "a_1", "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-20T10:00:00.123456Z",
                "renewTime": "2026-11-20T10:00:10.000001Z", "leaseTransitions": 3,
                "preferredHolder": "b_2", "strategy": "OldestEmulationVersion",
            },
        })
    }

    fn value(body: &[u8]) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    // client-go: TestLeaseSpecToLeaderElectionRecordRoundTrip, TestLeaseConversion
    #[test]
    fn a_record_of_a_real_server_survives_the_way_there_and_back() {
        let stored = Stored::read(recorded()).unwrap();
        let expected = Record {
            holder: "a_1".to_owned(),
            duration_seconds: 15,
            transitions: 3,
            acquire_time: "2026-11-20T10:00:00.123456Z".to_owned(),
            renew_time: "2026-11-20T10:00:10.000001Z".to_owned(),
        };
        assert_eq!(stored.lease.record, expected);
        assert_eq!(stored.lease.version.as_str(), "424");
        let record = NewRecord {
            holder: expected.holder,
            duration_seconds: expected.duration_seconds,
            transitions: expected.transitions,
            acquire_time: AcquireTime::Kept(expected.acquire_time),
        };
        let body = stored.updated(&record, &expected.renew_time, &Labels::new(), None);
        let mut same = recorded();
        let metadata = same["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        assert_eq!(value(&body), same);
    }

    // client-go: TestUpdateWithNilLabelsOnLease, TestUpdateWithNilLabelsOnLeaseLock, TestLabelUpdate
    #[test]
    fn labels_are_merged_ours_win_and_foreign_ones_stay() {
        let ours = Labels::from([("app".to_owned(), "new".to_owned())]);
        let record = NewRecord {
            holder: "c".to_owned(),
            duration_seconds: 15,
            transitions: 4,
            acquire_time: AcquireTime::Now,
        };
        let stored = Stored::read(recorded()).unwrap();
        let labels = |body: &[u8]| value(body)["metadata"]["labels"].clone();
        let both = json!({ "team": "a", "app": "new" });
        assert_eq!(labels(&stored.updated(&record, "t", &ours, None)), both);
        let kept = json!({ "team": "a", "app": "old" });
        assert_eq!(
            labels(&stored.updated(&record, "t", &Labels::new(), None)),
            kept
        );
        let mut bare = recorded();
        bare["metadata"]["labels"].take();
        let stored = Stored::read(bare).unwrap();
        let only = json!({ "app": "new" });
        assert_eq!(labels(&stored.updated(&record, "t", &ours, None)), only);
        let body = created("bank", "ledger", &record, "t", &ours);
        assert_eq!(labels(&body), only);
        assert_eq!(value(&body)["spec"]["acquireTime"], "t");
    }

    #[test]
    fn a_released_lease_has_no_holder_and_keeps_the_rest() {
        let record = NewRecord {
            holder: String::new(),
            duration_seconds: 1,
            transitions: 3,
            acquire_time: AcquireTime::Now,
        };
        let stored = Stored::read(recorded()).unwrap();
        let body = value(&stored.updated(&record, "t", &Labels::new(), None));
        let spec = json!({
            "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3,
            "acquireTime": "t", "renewTime": "t", "preferredHolder": "b_2", "strategy": "OldestEmulationVersion",
        });
        assert_eq!(body["spec"], spec);
        let read = Stored::read(body).unwrap();
        assert_eq!(read.lease.record.holder, "");
        assert_eq!(read.lease.preferred_holder, "b_2");
    }

    #[test]
    fn last_writes_are_on_a_released_lease_and_gone_from_the_next_record() {
        let record = NewRecord {
            holder: String::new(),
            duration_seconds: 1,
            transitions: 3,
            acquire_time: AcquireTime::Now,
        };
        let mut lease = recorded();
        lease["metadata"]["annotations"] = json!({ "team": "a" });
        let stored = Stored::read(lease).unwrap();
        let body = value(&stored.updated(&record, "t", &Labels::new(), Some("writes")));
        let annotations = json!({ "team": "a", ANNOTATION: "writes" });
        assert_eq!(body["metadata"]["annotations"], annotations);
        let stored = Stored::read(body).unwrap();
        assert_eq!(stored.annotation(ANNOTATION), Some("writes"));
        let body = value(&stored.updated(&record, "u", &Labels::new(), None));
        assert_eq!(body["metadata"]["annotations"], json!({ "team": "a" }));
    }

    #[test]
    fn an_answer_that_is_no_lease_is_named() {
        let mut text = recorded();
        text["spec"]["leaseTransitions"] = "three".into();
        let mut nameless = recorded();
        nameless["metadata"]["uid"].take();
        let mut unversioned = recorded();
        unversioned["metadata"]["resourceVersion"] = "".into();
        for bad in [json!([]), json!({}), text, nameless, unversioned] {
            let error = Stored::read(bad.clone()).expect_err(&bad.to_string());
            assert!(error.starts_with("the answer is no Lease: "), "{error}");
        }
        let mut empty = recorded();
        empty["spec"] = json!({});
        assert_eq!(Stored::read(empty).unwrap().lease.record, Record::default());
    }
}
