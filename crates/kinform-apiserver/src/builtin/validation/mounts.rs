//! Checks of the volumes that containers mount, as file systems and as devices.
//!
//! ```text
//! :mounts  -> a mount names a volume of its pod, and no other mount or device has its path
//! :devices -> the same of devices, whose volumes are claims
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/core/validation/validation.go` (`ValidateVolumeMounts`,
//! `ValidateVolumeDevices`).

use std::collections::HashSet;

use kinform_api::FieldError;
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site};
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":devices" => devices,
        ":mounts" => mounts,
        _ => return None,
    })
}

fn spec<'a>(site: &Site<'a>) -> &'a Value {
    site.scope.around("PodSpec").unwrap_or(&Value::Null)
}

/// Texts of a member in the items of another list of the container.
fn texts<'a>(site: &Site<'a>, list: &str, member: &str) -> HashSet<&'a str> {
    let items = site.scope.value.get(list).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    items.map(|item| text(item, &[member])).collect()
}

fn mounts(site: &Site<'_>, errors: &mut Errors<'_>) {
    let volumes = errors.names_in(at(spec(site), &["volumes"]));
    let devices = texts(site, "volumeDevices", "name");
    let device_paths = texts(site, "volumeDevices", "devicePath");
    let mut paths: HashSet<&str> = HashSet::new();
    for (place, mount) in site.items().iter().enumerate() {
        let field = |name: &str| format!("{}[{place}].{name}", site.path());
        let (name, path) = (text(mount, &["name"]), text(mount, &["mountPath"]));
        if name.is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(field("name"), name));
        }
        if path.is_empty() {
            errors.push(FieldError::required(field("mountPath"), ""));
        }
        let mut wrong = |member: &str, value: &str, detail: &str| {
            errors.push(FieldError::invalid(field(member), value, detail));
        };
        if !paths.insert(path) {
            wrong("mountPath", path, "must be unique");
        }
        if devices.contains(name) {
            wrong("name", name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            let detail = "must not already exist as a path in volumeDevices";
            wrong("mountPath", path, detail);
        }
        inner_path(site, (mount, "subPath"), errors);
        if !text(mount, &["subPath"]).is_empty() && !text(mount, &["subPathExpr"]).is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            let path = text(mount, &["subPathExpr"]);
            errors.push(FieldError::invalid(field("subPathExpr"), path, detail));
        }
        inner_path(site, (mount, "subPathExpr"), errors);
        propagation(site, mount, errors);
    }
}

/// A path in a volume. The error names no index, as upstream's does not.
fn inner_path(site: &Site<'_>, (mount, name): (&Value, &str), errors: &mut Errors<'_>) {
    let path = text(mount, &[name]);
    let field = format!("{}.{name}", site.path());
    if path.starts_with('/') {
        let detail = "must be a relative path";
        errors.push(FieldError::invalid(field.clone(), path, detail));
    }
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field, path, "must not contain '..'"));
    }
}

fn propagation(site: &Site<'_>, mount: &Value, errors: &mut Errors<'_>) {
    const KNOWN: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let Some(mode) = mount.get("mountPropagation").and_then(Value::as_str) else {
        return;
    };
    let field = format!("{}.mountPropagation", site.path());
    let privileged = ["securityContext", "privileged"];
    let is_privileged = at(site.scope.value, &privileged) == Some(&Value::Bool(true));
    if !KNOWN.contains(&mode) {
        errors.push(FieldError::not_supported(field, mode, &KNOWN));
    } else if mode == "Bidirectional" && !is_privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(field, detail));
    }
}

fn devices(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.items().is_empty() {
        return;
    }
    let volumes = errors.names_in(at(spec(site), &["volumes"]));
    let claims = errors.claims_in(at(spec(site), &["volumes"]));
    let mounts = texts(site, "volumeMounts", "name");
    let mount_paths = texts(site, "volumeMounts", "mountPath");
    let (mut names, mut paths): (HashSet<&str>, HashSet<&str>) = Default::default();
    for (place, device) in site.items().iter().enumerate() {
        let field = |name: &str| format!("{}[{place}].{name}", site.path());
        let (name, path) = (text(device, &["name"]), text(device, &["devicePath"]));
        if name.is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        } else if !names.insert(name) {
            errors.push(FieldError::invalid(field("name"), name, "must be unique"));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(field("name"), name));
        } else if !claims.contains(name) {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            errors.push(FieldError::invalid(field("name"), name, detail));
        }
        if path.is_empty() {
            errors.push(FieldError::required(field("devicePath"), ""));
        } else if paths.contains(path) {
            let detail = "must be unique";
            errors.push(FieldError::invalid(field("devicePath"), path, detail));
        }
        if path.split('/').any(|part| part == "..") {
            let detail = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid(field("devicePath"), path, detail));
        } else {
            paths.insert(path);
        }
        if mounts.contains(name) {
            let detail = "must not already exist in volumeMounts";
            errors.push(FieldError::invalid(field("name"), name, detail));
        }
        if mount_paths.contains(path) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(field("devicePath"), path, detail));
        }
    }
}
