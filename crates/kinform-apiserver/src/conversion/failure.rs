//! Refusals of requests whose objects could not be converted.
//!
//! ```text
//! Broken { key, revision, why } ──▶ Status: of a get, a list, a write
//! ```
//!
//! They are those of a real server, which converts what it reads from its storage.
//!
//! Upstream: `apiserver:pkg/storage/{errors.go,etcd3/corrupt_obj_deleter.go}`.

use kinform_api::{Status, StatusCause, StatusDetails};

use crate::resource::ResourceInfo;
use crate::storage::mirror::Broken;

/// The refusal of a read or a delete of one object.
pub(crate) fn not_read(resource: &ResourceInfo, broken: &Broken) -> Box<Status> {
    Box::new(Status::internal_error(&corrupt(resource, "", broken)))
}

/// The refusal of a write.
pub(crate) fn not_written(why: &str) -> Box<Status> {
    Box::new(Status::failure(500, "", why))
}

/// The refusal of a list.
pub(crate) fn not_listed(resource: &ResourceInfo, broken: &Broken) -> Status {
    let prefix = "/registry";
    let corrupt = corrupt(resource, prefix, broken);
    let of = resource.group_resource();
    let message = format!("failed to read one or more {of} from the storage: {corrupt}");
    let cause = StatusCause {
        reason: "UnexpectedServerResponse".to_owned(),
        message: corrupt,
        field: key(resource, prefix, broken),
    };
    let details = StatusDetails {
        name: "list".to_owned(),
        group: resource.group.clone(),
        kind: resource.plural.clone(),
        causes: vec![cause],
        ..StatusDetails::default()
    };
    Status::failure(500, "StorageReadError", message).with_details(details)
}

fn key(resource: &ResourceInfo, prefix: &str, broken: &Broken) -> String {
    let (group, plural) = (&resource.group, &resource.plural);
    format!("{prefix}/{group}/{plural}/{}", broken.key)
}

fn corrupt(resource: &ResourceInfo, prefix: &str, broken: &Broken) -> String {
    let key = key(resource, prefix, broken);
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: object not decodable revision={}: {}",
        broken.revision, broken.why
    )
}
