//! Defaults of built-in types, and the initial state of new objects.
//!
//! ```text
//! rules.txt -> Rules, once       Type + value -> the value with its defaults
//! ```
//!
//! A rule belongs to a type and holds wherever the type occurs: a container's in pods, in templates
//! and in templates of templates. Rules that set a value are data; rules that compute one are named
//! in the data and stand in `functions.rs`. Defaults never change a member that is set, so applying
//! them twice changes nothing.
//!
//! BOUND: values are as deep as the parser allowed (128), and so is this recursion.
//!
//! Complexity: linear in the value; types that lead to no rule are not entered.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/*/v1/{defaults,zz_generated.defaults}.go`, and
//! `PrepareForCreate` of the strategies.

pub(crate) mod functions;
pub(crate) mod pod_status;
mod rule;
mod table;

use kinform_schema::{Container, Type};
use serde_json::Value;

use self::rule::{Action, Rule};
use self::table::table;
use crate::budget::Meter;
use crate::object::metadata::is_unset as is_absent;

/// Input of a function, apart from the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    pub(crate) at: jiff::Timestamp,
    /// The uid of the new object.
    pub(crate) uid: &'a str,
}

/// Sets absent members in a value of a type. Each takes its size from the meter; the value is
/// incomplete once that is spent.
pub(crate) fn apply(of: &'static Type, value: &mut Value, meter: &Meter) {
    if !table().leads_to_rules(of) || !value.is_object() || !meter.step(1) {
        return;
    }
    for rule in table().of(of) {
        carry_out(rule, value, (None, meter));
    }
    for field in of.fields() {
        let Some(message) = field.message() else {
            continue;
        };
        if field.is_inline() {
            apply(message, value, meter);
            continue;
        }
        let Some(member) = value.get_mut(field.name()) else {
            continue;
        };
        match (field.container(), member) {
            (Container::Single, member) => apply(message, member, meter),
            (Container::List, Value::Array(items)) => {
                let items = items.iter_mut();
                items.for_each(|item| apply(message, item, meter));
            }
            (Container::Map, Value::Object(entries)) => {
                let entries = entries.values_mut();
                entries.for_each(|entry| apply(message, entry, meter));
            }
            _ => {}
        }
    }
}

/// Applies the defaults of admission to a pod that is created or updated.
pub(super) fn admit_pod(pod: &mut Value) {
    functions::default_tolerations(pod);
}

/// Sets the state that a new object of a kind begins in.
pub(super) fn begin(of: &'static Type, value: &mut Value, now: Now<'_>) {
    // A new object's own rules set a few members, not one an item.
    let meter = Meter::endless();
    for rule in table().of_new(of) {
        carry_out(rule, value, (Some(now), &meter));
    }
}

/// Keeps the counters that a type maintains itself.
pub(super) fn keep(of: &Type, new: &mut Value, old: &Value) {
    match of.name() {
        "DaemonSet" => functions::count_template(new, old),
        "Pod" => functions::keep_priority(new, old),
        _ => {}
    }
}

fn carry_out(rule: &Rule, value: &mut Value, (now, meter): (Option<Now<'_>>, &Meter)) {
    if !rule
        .conditions
        .iter()
        .all(|condition| condition.holds(value))
    {
        return;
    }
    match &rule.action {
        Action::Put(path, default) => put(value, (path, default), is_absent, meter),
        Action::PutUnlessThere(path, default) => put(value, (path, default), Value::is_null, meter),
        Action::PutOverZero(path, default) => {
            let is_zero = |value: &Value| is_absent(value) || *value == 0;
            put(value, (path, default), is_zero, meter);
        }
        // BOUND: a function adds a few fixed members, or copies entries of the same value.
        Action::Call(function) => function(value),
        Action::CallNow(function) => {
            if let Some(now) = now {
                function(value, now);
            }
        }
    }
}

/// `rbac.authorization.k8s.io/v1 Subject` -> the type's package and name.
pub(super) fn find_type(text: &'static str) -> Option<(&'static str, &'static str)> {
    let (group_version, name) = text.split_once(' ')?;
    let (group, version) = group_version.split_once('/')?;
    let place = match group {
        "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apis/apiregistration".to_owned(),
        "flowcontrol.apiserver.k8s.io" => "k8s.io/api/flowcontrol".to_owned(),
        _ => format!("k8s.io/api/{}", group.split('.').next()?),
    };
    let found = kinform_schema::named_type(&format!("{place}/{version}"), name)?;
    Some((found.package(), found.name()))
}

/// Sets a member that is absent, and parents that are.
fn put(
    value: &mut Value,
    (path, default): (&[String], &Value),
    is_absent: fn(&Value) -> bool,
    meter: &Meter,
) {
    let [parents @ .., last] = path else {
        return;
    };
    let mut at = value;
    for name in parents {
        let Some(object) = at.as_object_mut() else {
            return;
        };
        at = object.entry(name.as_str()).or_insert(Value::Null);
        if at.is_null() {
            *at = Value::Object(serde_json::Map::new());
        }
    }
    if let Some(object) = at.as_object_mut() {
        let member = object.entry(last.as_str()).or_insert(Value::Null);
        if is_absent(member) && meter.take_member(last, default) {
            *member = default.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: (&str, &str, &str), mut given: Value, expected: &Value) {
        let of = kinform_schema::builtin(kind.0, kind.1, kind.2).unwrap();
        apply(of, &mut given, &Meter::endless());
        assert_eq!(&given, expected);
        let once = given.clone();
        apply(of, &mut given, &Meter::endless());
        assert_eq!(given, once, "defaults on defaults change something");
    }

    #[test]
    fn every_rule_belongs_to_a_type_of_the_table() {
        assert_eq!(table::unknown_types(), Vec::<String>::new());
        assert!(table().len() > 70, "{}", table().len());
    }

    #[test]
    fn what_is_absent_is_set_and_what_is_set_stays() {
        check(
            ("apps", "v1", "Deployment"),
            json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"}}}),
            &json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"},
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}}),
        );
        check(
            ("apps", "v1", "Deployment"),
            json!({"spec": {"strategy": {}, "template": {"spec": {"containers": [{"image": "x",
                "livenessProbe": {"httpGet": {"port": 1}}}]}}}}),
            &json!({"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {"spec": {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                    "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
                    "securityContext": {}, "containers": [{"image": "x",
                        "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File", "livenessProbe": {"timeoutSeconds": 1,
                            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                            "httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}}}]}}}}),
        );
    }

    #[test]
    fn values_of_another_shape_are_left_alone() {
        let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
        for given in [
            json!(null),
            json!([]),
            json!({"spec": 1}),
            json!({"spec": {"containers": {"a": 1}, "volumes": [1, null, []]}}),
        ] {
            apply(of, &mut given.clone(), &Meter::endless());
        }
    }
}
