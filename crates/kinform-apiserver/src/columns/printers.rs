//! Cells that are not the value at a path.
//!
//! ```text
//! object + argument + now -> cell
//! ```
//!
//! Each function does the same as upstream's printer of the kind does for one column.
//!
//! Upstream: `kubernetes/kubernetes:pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age, at, cluster, collect, condition, human, items, number, or_none, pods, text, text_or,
};

/// Makes a cell.
pub(super) type Printer = fn(&Value, &str, Timestamp) -> Value;

const PRINTERS: [(&str, Printer); 54] = [
    ("api_available", |o, _, _| cluster::api_available(o)),
    ("api_service", |o, _, _| cluster::api_service(o)),
    ("claim_state", |o, _, _| cluster::claim_state(o)),
    ("migrated", |o, _, _| cluster::migrated(o)),
    ("migration_status", |o, _, _| cluster::migration_status(o)),
    ("param_kind", |o, _, _| cluster::param_kind(o)),
    ("param_ref", |o, _, _| cluster::param_ref(o)),
    ("parent_ref", |o, _, _| cluster::parent_ref(o)),
    ("pod_certificate", |o, _, _| cluster::pod_certificate(o)),
    ("seconds", |o, path, _| cluster::seconds(o, path)),
    ("signing_status", |o, _, _| cluster::signing_status(o)),
    ("access_modes", |o, part, _| access_modes(o, part)),
    ("claim_capacity", |o, _, _| {
        claim(o, |o| {
            Value::from(text_or(o, "status.capacity.storage", ""))
        })
    }),
    ("claim_modes", |o, _, _| {
        claim(o, |o| access_modes(o, "status"))
    }),
    ("condition", |o, kind, _| {
        Value::from(condition(o, kind).unwrap_or("?"))
    }),
    ("controller", |o, _, _| controller(o)),
    ("definition_versions", |o, _, _| definition_versions(o)),
    ("endpoints", |o, _, _| endpoints(o)),
    ("established", |o, _, _| {
        Value::from(condition(o, "Established") == Some("True"))
    }),
    ("event_count", |o, _, _| event_count(o)),
    ("event_field", |o, _, _| {
        Value::from(text(involved(o), "fieldPath"))
    }),
    ("event_first", |o, _, now| Value::from(first_seen(o, now))),
    ("event_last", |o, _, now| last_seen(o, now)),
    ("event_message", |o, _, _| {
        Value::from(of_either(o, "message", "note").trim())
    }),
    ("event_object", |o, _, _| event_object(o)),
    ("event_source", |o, _, _| event_source(o)),
    ("ingress_address", |o, _, _| Value::from(balancer(o))),
    ("ingress_hosts", |o, _, _| ingress_hosts(o)),
    ("ingress_parameters", |o, _, _| ingress_parameters(o)),
    ("ingress_ports", |o, _, _| {
        Value::from(if items(o, "spec.tls").next().is_some() {
            "80, 443"
        } else {
            "80"
        })
    }),
    ("job_completions", |o, _, _| job_completions(o)),
    ("job_duration", |o, _, now| job_duration(o, now)),
    ("job_status", |o, _, _| job_status(o)),
    ("node_address", |o, kind, _| node_address(o, kind)),
    ("node_info", |o, name, _| {
        let found = at(o, "status.nodeInfo").map_or("", |info| text(info, name));
        Value::from(if found.is_empty() { "<unknown>" } else { found })
    }),
    ("node_kernel", |o, _, _| node_kernel(o)),
    ("node_roles", |o, _, _| node_roles(o)),
    ("node_status", |o, _, _| node_status(o)),
    ("phase", |o, _, _| {
        let is_going = at(o, "metadata.deletionTimestamp").is_some();
        Value::from(if is_going {
            "Terminating"
        } else {
            text(o, "status.phase")
        })
    }),
    ("pod_gates", |o, _, _| pods::gates(o)),
    ("pod_ready", |o, _, _| pods::ready(o)),
    ("pod_restarts", |o, _, now| pods::restarts(o, now)),
    ("pod_status", |o, _, _| pods::status(o)),
    ("quota", |o, which, _| quota(o, which)),
    ("ready_replicas", |o, _, _| {
        let (ready, wanted) = (
            number(o, "status.readyReplicas"),
            number(o, "spec.replicas"),
        );
        Value::from(format!("{ready}/{wanted}"))
    }),
    ("role_ref", |o, _, _| {
        Value::from(format!(
            "{}/{}",
            text(o, "roleRef.kind"),
            text(o, "roleRef.name")
        ))
    }),
    ("scale_metrics", |o, _, _| scale_metrics(o)),
    ("scale_target", |o, _, _| {
        let target = "spec.scaleTargetRef";
        let of = |name: &str| text(o, &format!("{target}.{name}")).to_owned();
        Value::from(format!("{}/{}", of("kind"), of("name")))
    }),
    ("service_external", |o, _, _| service_external(o)),
    ("service_ports", |o, _, _| service_ports(o)),
    ("slice_endpoints", |o, _, _| {
        let mut found = Vec::new();
        collect(o, "endpoints.*.addresses.*", &mut found);
        few_or_unset(&found)
    }),
    ("slice_ports", |o, _, _| slice_ports(o)),
    ("subjects", |o, kind, _| subjects(o, kind)),
    ("volume_claim", |o, _, _| {
        let Some(claim) = at(o, "spec.claimRef") else {
            return Value::from("");
        };
        Value::from(format!(
            "{}/{}",
            text(claim, "namespace"),
            text(claim, "name")
        ))
    }),
];

/// Returns the function of this name.
pub(super) fn find(name: &str) -> Option<Printer> {
    let found = PRINTERS.iter().find(|(known, _)| *known == name);
    found.map(|(_, printer)| *printer)
}

fn access_modes(object: &Value, part: &str) -> Value {
    let mut modes = Vec::new();
    collect(object, &format!("{part}.accessModes.*"), &mut modes);
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |name: &str| modes.iter().any(|mode| mode == name);
    let short: Vec<&str> = known
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(_, it)| *it)
        .collect();
    Value::from(short.join(","))
}

/// Returns a property of a claim, which is empty until the claim has a volume.
fn claim(object: &Value, of: fn(&Value) -> Value) -> Value {
    if text(object, "spec.volumeName").is_empty() {
        return Value::from("");
    }
    of(object)
}

fn controller(object: &Value) -> Value {
    let mut owners = items(object, "metadata.ownerReferences");
    let owner = owners.find(|owner| owner["controller"] == true);
    Value::from(owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = text(owner, "kind").to_lowercase();
            let name = text(owner, "name");
            match text(owner, "apiVersion").split_once('/') {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        },
    ))
}

fn definition_versions(object: &Value) -> Value {
    let served = items(object, "spec.versions").filter(|version| version["served"] == true);
    let shown: Vec<String> = served
        .map(|version| match version["storage"] == true {
            true => format!("{}(storage)", text(version, "name")),
            false => text(version, "name").to_owned(),
        })
        .collect();
    Value::from(shown.join(","))
}

/// Returns the first three texts and the number of further ones.
fn few(found: &[String]) -> Value {
    let mut shown = or_none(found.iter().take(3).cloned().collect::<Vec<_>>().join(","));
    if found.len() > 3 {
        shown.push_str(&format!(" + {} more...", found.len() - 3));
    }
    Value::from(shown)
}

fn endpoints(object: &Value) -> Value {
    let mut found = Vec::new();
    for subset in items(object, "subsets") {
        let addresses = || items(subset, "addresses").map(|address| text(address, "ip"));
        let mut ports = items(subset, "ports").peekable();
        if ports.peek().is_none() {
            found.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, "port");
            found.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    few(&found)
}

fn slice_ports(object: &Value) -> Value {
    let ports = items(object, "ports").map(|port| match text(port, "name") {
        "" => text_or(port, "port", ""),
        name => text_or(port, "port", name),
    });
    few_or_unset(&ports.collect::<Vec<String>>())
}

/// Like `few`, in the words of endpoint slices.
fn few_or_unset(found: &[String]) -> Value {
    match found.iter().all(String::is_empty) {
        true => Value::from("<unset>"),
        false => few(found),
    }
}

/// The object that an event is about, in either version.
fn involved(event: &Value) -> &Value {
    event.get("involvedObject").unwrap_or(&event["regarding"])
}

fn of_either<'a>(event: &'a Value, name: &str, other: &str) -> &'a str {
    Some(text(event, name))
        .filter(|found| !found.is_empty())
        .unwrap_or_else(|| text(event, other))
}

fn event_object(event: &Value) -> Value {
    let object = involved(event);
    let kind = text(object, "kind").to_lowercase();
    Value::from(match text(object, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    })
}

fn event_source(event: &Value) -> Value {
    let source = event.get("source").unwrap_or(&event["deprecatedSource"]);
    let reporter = of_either(event, "reportingComponent", "reportingController");
    let or = |found: &str, other: &str| if found.is_empty() { other } else { found }.to_owned();
    let component = or(text(source, "component"), reporter);
    let host = or(text(source, "host"), text(event, "reportingInstance"));
    Value::from(if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    })
}

fn event_count(event: &Value) -> Value {
    let series = at(event, "series.count").and_then(Value::as_i64);
    let count = number(event, "count").max(number(event, "deprecatedCount"));
    Value::from(series.unwrap_or(count.max(1)))
}

fn since(time: &str, now: Timestamp) -> String {
    if time.is_empty() {
        "<unknown>".to_owned()
    } else {
        age(time, now)
    }
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = of_either(event, "firstTimestamp", "deprecatedFirstTimestamp");
    since(
        if first.is_empty() {
            text(event, "eventTime")
        } else {
            first
        },
        now,
    )
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    let last = of_either(event, "lastTimestamp", "deprecatedLastTimestamp");
    Value::from(match (at(event, "series"), last) {
        (Some(series), _) => since(text(series, "lastObservedTime"), now),
        (None, "") => first_seen(event, now),
        (None, last) => age(last, now),
    })
}

fn balancer(object: &Value) -> String {
    let entries = items(object, "status.loadBalancer.ingress");
    let entries: Vec<&str> = entries
        .map(|entry| of_either(entry, "ip", "hostname"))
        .collect();
    entries.join(",")
}

fn ingress_hosts(object: &Value) -> Value {
    let mut hosts = Vec::new();
    collect(object, "spec.rules.*.host", &mut hosts);
    hosts.retain(|host| !host.is_empty());
    let shown = if hosts.is_empty() {
        "*".to_owned()
    } else {
        hosts[..hosts.len().min(3)].join(",")
    };
    Value::from(match hosts.len() {
        ..=3 => shown,
        many => format!("{shown} + {} more...", many - 3),
    })
}

fn ingress_parameters(object: &Value) -> Value {
    let Some(parameters) = at(object, "spec.parameters") else {
        return Value::from("<none>");
    };
    let (kind, name) = (text(parameters, "kind"), text(parameters, "name"));
    Value::from(match text(parameters, "apiGroup") {
        "" => format!("{kind}/{name}"),
        group => format!("{kind}.{group}/{name}"),
    })
}

fn job_completions(object: &Value) -> Value {
    let done = number(object, "status.succeeded");
    let wanted = at(object, "spec.completions").and_then(Value::as_i64);
    Value::from(match (wanted, number(object, "spec.parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, many @ 2..) => format!("{done}/1 of {many}"),
        (None, _) => format!("{done}/1"),
    })
}

fn job_duration(object: &Value, now: Timestamp) -> Value {
    let time = |path: &str| text(object, path).parse::<Timestamp>().ok();
    let Some(start) = time("status.startTime") else {
        return Value::from("");
    };
    let end = time("status.completionTime").unwrap_or(now);
    Value::from(human(end.as_second() - start.as_second()))
}

fn job_status(object: &Value) -> Value {
    let is = |kind: &str| condition(object, kind) == Some("True");
    let known = [
        (is("Complete"), "Complete"),
        (is("Failed"), "Failed"),
        (
            at(object, "metadata.deletionTimestamp").is_some(),
            "Terminating",
        ),
        (is("Suspended"), "Suspended"),
        (is("FailureTarget"), "FailureTarget"),
        (is("SuccessCriteriaMet"), "SuccessCriteriaMet"),
    ];
    let found = known.iter().find(|(is, _)| *is);
    Value::from(found.map_or("Running", |(_, name)| name))
}

fn node_address(object: &Value, kind: &str) -> Value {
    let mut addresses = items(object, "status.addresses");
    let found = addresses.find(|it| text(it, "type") == kind);
    Value::from(found.map_or("<none>", |it| text(it, "address")))
}

fn node_kernel(object: &Value) -> Value {
    let of = |name| at(object, "status.nodeInfo").map_or("", |info| text(info, name));
    Value::from(match (of("kernelVersion"), of("architecture")) {
        ("", _) => "<unknown>".to_owned(),
        (kernel, "") => kernel.to_owned(),
        (kernel, machine) => format!("{kernel} ({machine})"),
    })
}

fn node_roles(object: &Value) -> Value {
    let labels = at(object, "metadata.labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(
            |(name, value)| match name.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if name == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    Value::from(or_none(roles.join(",")))
}

fn node_status(object: &Value) -> Value {
    let ready = match condition(object, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    Value::from(match object["spec"]["unschedulable"] == true {
        true => format!("{ready},SchedulingDisabled"),
        false => ready.to_owned(),
    })
}

fn quota(object: &Value, which: &str) -> Value {
    let hard = at(object, "status.hard").and_then(Value::as_object);
    let used = &object["status"]["used"];
    let is_limit = |name: &str| name.starts_with("limits.");
    let shown = hard
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_limit(name) == (which == "limits"))
        .map(|(name, hard)| {
            let used = used.get(name).and_then(Value::as_str).unwrap_or("0");
            format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
        });
    Value::from(shown.collect::<Vec<_>>().join(", "))
}

/// Returns the metrics of an autoscaler: the current value and the target of each.
fn scale_metrics(object: &Value) -> Value {
    let current: Vec<&Value> = items(object, "status.currentMetrics").collect();
    let shown = items(object, "spec.metrics")
        .enumerate()
        .map(|(place, metric)| {
            let kind = text(metric, "type");
            let member = match kind {
                "ContainerResource" => "containerResource",
                "External" => "external",
                "Object" => "object",
                "Pods" => "pods",
                _ => "resource",
            };
            let now = |field: &str| {
                let path = format!("{member}.current.{field}");
                current.get(place).and_then(|metric| at(metric, &path))
            };
            let as_text = |value: Option<&Value>, or: &str| match value {
                Some(Value::String(text)) => text.clone(),
                Some(value) => format!("{value}%"),
                None => or.to_owned(),
            };
            let target = |field: &str| at(metric, &format!("{member}.target.{field}"));
            let of = |field: &str| {
                let wanted = as_text(target(field), "<auto>");
                format!("{}/{wanted}", as_text(now(field), "<unknown>"))
            };
            let averages = target("averageValue").is_some();
            let name = at(metric, member).map_or("", |it| text(it, "name"));
            match (kind, averages) {
                ("Resource" | "ContainerResource", true) => {
                    format!("{name}: {}", of("averageValue"))
                }
                ("Resource" | "ContainerResource", false) => {
                    format!("{name}: {}", of("averageUtilization"))
                }
                ("Pods", _) => of("averageValue"),
                ("External" | "Object", true) => format!("{} (avg)", of("averageValue")),
                ("External" | "Object", false) => of("value"),
                _ => "<unknown type>".to_owned(),
            }
        });
    let shown: Vec<String> = shown.collect();
    Value::from(match shown.len() {
        0..=2 => or_none(shown.join(", ")),
        many => format!("{} + {} more...", shown[..2].join(", "), many - 2),
    })
}

fn service_external(object: &Value) -> Value {
    let mut external = Vec::new();
    collect(object, "spec.externalIPs.*", &mut external);
    Value::from(match text(object, "spec.type") {
        "ExternalName" => text(object, "spec.externalName").to_owned(),
        "LoadBalancer" => {
            let balancer = balancer(object);
            if !balancer.is_empty() {
                external.insert(0, balancer);
            }
            if external.is_empty() {
                "<pending>".to_owned()
            } else {
                external.join(",")
            }
        }
        _ => or_none(external.join(",")),
    })
}

fn service_ports(object: &Value) -> Value {
    let shown = items(object, "spec.ports").map(|port| {
        let (number_shown, protocol) = (number(port, "port"), text(port, "protocol"));
        match number(port, "nodePort") {
            0 => format!("{number_shown}/{protocol}"),
            node => format!("{number_shown}:{node}/{protocol}"),
        }
    });
    Value::from(or_none(shown.collect::<Vec<_>>().join(",")))
}

fn subjects(object: &Value, kind: &str) -> Value {
    let of_kind = items(object, "subjects").filter(|subject| text(subject, "kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name").to_owned(),
    });
    Value::from(names.collect::<Vec<_>>().join(", "))
}
