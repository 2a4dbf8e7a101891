//! Masks the parts of answers that no two servers have in common.
//!
//! ```text
//! value, text ──▶ the same with versions, uids, times and tokens as "#"
//! ```
//!
//! A member stays, only its content is masked: its presence is compared.

use serde_json::Value;

/// Members whose content is a server's own.
const OWN: [&str; 16] = [
    "clusterIP",
    "clusterIPs",
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "hash",
    "healthCheckNodePort",
    "lastTransitionTime",
    "lastUpdateTime",
    "nodePort",
    "resourceVersion",
    "serverAddress",
    "startTime",
    "storageVersionHash",
    "time",
    "uid",
];

/// Masks a value in place.
pub(crate) fn value(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // Compared by tests of its own: the owners depend on the client's name.
            members.remove("managedFields");
            for (name, member) in members.iter_mut() {
                if OWN.contains(&name.as_str()) && *member != "" && !member.is_null() {
                    *member = "#".into();
                } else {
                    self::value(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::String(text) => *text = self::text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks uids and numbers of more than two digits in a text.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-')
                .len();
        if word == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (head, tail) = rest.split_at(word);
        let is_number = head.len() > 2 && head.bytes().all(|byte| byte.is_ascii_digit());
        let is_uid = head.len() == 36
            && head.bytes().filter(|byte| *byte == b'-').count() == 4
            && head
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        out.push_str(if is_number || is_uid { "#" } else { head });
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn versions_uids_and_times_are_masked_and_names_are_not() {
        let mut value = json!({"metadata": {"name": "pod-12345", "uid": "x", "resourceVersion": "17",
            "managedFields": []}, "message": "at 1234 of 0d7a1cbe-6a5e-4a7e-9f51-0c7ff0a3b6a5 in 42"});
        super::value(&mut value);
        let wanted = json!({"metadata": {"name": "pod-12345", "uid": "#", "resourceVersion": "#"},
            "message": "at # of # in 42"});
        assert_eq!(value, wanted);
    }
}
