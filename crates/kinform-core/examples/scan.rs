//! Measures the way from a list of pods to objects: the cost of `wire` and `object` alone.
//!
//! ```text
//! seed → pods of about 8 KB (40% managedFields) as one list → 64 KB chunks → split → objects
//! ```
//!
//! `cargo run --release -p kinform-core --example scan [PODS] [ROUNDS]` prints, for each stage, the
//! best and the median of the rounds in CPU time of this thread (Linux; else wall time), and how
//! much memory an object takes. The text is synthetic, in the field order of an API server.

use std::fmt::Write as _;
use std::time::Instant;

use kinform_core::wire::item::Item;
use kinform_core::wire::list::ListPart;
use kinform_core::{Encoding, ListReader, Object, Projection};

const CHUNK: usize = 64 << 10;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let pods = numbers.next().unwrap_or(10_000);
    let rounds = numbers.next().unwrap_or(9);
    let body = list(pods, 7);
    let projection = Projection::new();
    say(&format!(
        "{pods} pods, {} bytes each, chunks of {CHUNK}",
        body.len() / pods
    ));

    measure("split + heads", rounds, &body, || {
        let mut bytes = 0;
        split(&body, |item| bytes += item.bytes().len());
        bytes
    });
    let items = {
        let mut items = Vec::new();
        split(&body, |item| items.push(item.bytes().to_vec()));
        items
    };
    measure("objects, dropped", rounds, &body, || {
        items
            .iter()
            .filter_map(|item| Object::from_json(item, &projection).ok())
            .count()
    });
    drop(items);
    measure("split + objects, dropped", rounds, &body, || {
        let mut found = 0;
        split(&body, |item| {
            found += usize::from(Object::from_item(item, &projection).is_ok())
        });
        found
    });
    let before = resident_bytes();
    let objects = keep(&body, &projection, pods);
    let after = resident_bytes();
    let heap: usize = objects.iter().map(Object::heap_size).sum();
    say(&format!(
        "memory: {} bytes/object requested, {} resident",
        heap / objects.len(),
        after.saturating_sub(before) as usize / objects.len()
    ));
    drop(objects);
    measure("split + objects, kept", rounds, &body, || {
        keep(&body, &projection, pods).len()
    });
}

fn keep(body: &[u8], projection: &Projection, pods: usize) -> Vec<Object> {
    let mut objects = Vec::with_capacity(pods);
    split(body, |item| {
        objects.extend(Object::from_item(item, projection))
    });
    objects
}

fn split(body: &[u8], mut item: impl FnMut(&Item<'_>)) {
    let mut splitter = ListReader::new(Encoding::Json);
    for chunk in body.chunks(CHUNK) {
        let fed = splitter.feed(chunk, &mut |part| {
            if let ListPart::Item(found) = part {
                item(&found);
            }
        });
        fed.expect("the list is well formed");
    }
    splitter.finish().expect("the list is whole");
}

fn measure(what: &str, rounds: usize, body: &[u8], mut work: impl FnMut() -> usize) {
    let mut seconds: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let start = cpu_seconds();
            std::hint::black_box(work());
            cpu_seconds() - start
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| body.len() as f64 / seconds / 1e6;
    let median = seconds[seconds.len() / 2];
    say(&format!(
        "{what:>26}: {:6.0} MB/s median, {:6.0} best; {:.2} s for 848 MB",
        rate(median),
        rate(seconds[0]),
        848e6 / (rate(median) * 1e6)
    ));
}

#[expect(clippy::print_stdout, reason = "an example's output")]
fn say(line: &str) {
    println!("{line}");
}

/// CPU time of this thread where the system tells it.
fn cpu_seconds() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(
        || START.get_or_init(Instant::now).elapsed().as_secs_f64(),
        |n| n / 1e9,
    )
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        << 10
}

/// Reproducible numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn hex(&mut self, digits: usize) -> String {
        let mut text = String::new();
        while text.len() < digits {
            let _ = write!(text, "{:016x}", self.next());
        }
        text.truncate(digits);
        text
    }

    fn uid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|digits| self.hex(digits)).join("-")
    }
}

fn list(pods: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed | 1);
    let mut body = String::from(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"123456789"},"items":["#,
    );
    for index in 0..pods {
        if index > 0 {
            body.push(',');
        }
        pod(&mut body, index, &mut numbers);
    }
    body.push_str("]}\n");
    body.into_bytes()
}

fn pod(body: &mut String, index: usize, numbers: &mut Numbers) {
    let app = format!("service-{}", numbers.next() % 400);
    let namespace = format!("team-{}", numbers.next() % 40);
    let hash = numbers.hex(10);
    let name = format!("{app}-{hash}-{}", numbers.hex(5));
    let minute = index % 60;
    let time = format!("2026-11-20T10:{minute:02}:{:02}Z", numbers.next() % 60);
    let version = 1_000_000 + numbers.next() % 100_000_000;
    let _ = write!(
        body,
        r#"{{"metadata":{{"name":"{name}","generateName":"{app}-{hash}-","namespace":"{namespace}","uid":"{}","resourceVersion":"{version}","generation":1,"creationTimestamp":"{time}","labels":{{"app":"{app}","app.kubernetes.io/name":"{app}","app.kubernetes.io/part-of":"shop","pod-template-hash":"{hash}","tier":"backend"}},"annotations":{{"checksum/config":"{}","prometheus.io/port":"9102","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{app}-{hash}","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"managedFields":["#,
        numbers.uid(),
        numbers.hex(64),
        numbers.uid()
    );
    managed_fields(body, &time, numbers);
    body.push_str("]},\"spec\":{\"volumes\":[");
    for (at, volume) in ["config", "secrets", "cache"].iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            body,
            r#"{comma}{{"name":"{volume}","configMap":{{"name":"{app}-{volume}","defaultMode":420}}}}"#
        );
    }
    body.push_str("],\"containers\":[");
    container(body, &app, "main");
    body.push(',');
    container(body, &app, "sidecar");
    let node = numbers.next() % 1000;
    let _ = write!(
        body,
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{app}","serviceAccount":"{app}","nodeName":"node-{node}.example.internal","securityContext":{{"runAsUser":1000,"runAsNonRoot":true,"fsGroup":2000}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":["#
    );
    for (at, kind) in ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .enumerate()
    {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            body,
            r#"{comma}{{"type":"{kind}","status":"True","lastProbeTime":null,"lastTransitionTime":"{time}"}}"#
        );
    }
    let address = format!("10.{}.{}.{}", node % 256, index % 256, numbers.next() % 256);
    let _ = write!(
        body,
        r#"],"hostIP":"10.0.{}.{}","podIP":"{address}","podIPs":[{{"ip":"{address}"}}],"startTime":"{time}","containerStatuses":["#,
        node / 256,
        node % 256
    );
    for (at, container) in ["main", "sidecar"].iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            body,
            r#"{comma}{{"name":"{container}","state":{{"running":{{"startedAt":"{time}"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/shop/{app}-{container}:v1.27.3","imageID":"registry.example.com/shop/{app}-{container}@sha256:{}","containerID":"containerd://{}","started":true}}"#,
            numbers.hex(64),
            numbers.hex(64)
        );
    }
    body.push_str(r#"],"qosClass":"Burstable"}}"#);
}

fn container(body: &mut String, app: &str, name: &str) {
    let _ = write!(
        body,
        r#"{{"name":"{name}","image":"registry.example.com/shop/{app}-{name}:v1.27.3","args":["--config=/etc/{app}/config.yaml","--log-level=info"],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},{{"name":"SERVICE_URL","value":"http://{app}.svc.cluster.local:8080"}},{{"name":"LOG_FORMAT","value":"json"}}],"resources":{{"limits":{{"cpu":"500m","memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"256Mi"}}}},"volumeMounts":[{{"name":"config","readOnly":true,"mountPath":"/etc/{app}"}},{{"name":"cache","mountPath":"/var/cache/{app}"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}"#
    );
}

fn managed_fields(body: &mut String, time: &str, numbers: &mut Numbers) {
    let _ = write!(
        body,
        r#"{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},"f:prometheus.io/port":{{}},"f:prometheus.io/scrape":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}},"f:tier":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"#,
        numbers.uid()
    );
    for (at, name) in ["main", "sidecar"].iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            body,
            r#"{comma}"k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:args":{{}},"f:env":{{".":{{}},"k:{{\"name\":\"POD_NAME\"}}":{{".":{{}},"f:name":{{}},"f:valueFrom":{{".":{{}},"f:fieldRef":{{}}}}}},"k:{{\"name\":\"SERVICE_URL\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:livenessProbe":{{".":{{}},"f:failureThreshold":{{}},"f:httpGet":{{".":{{}},"f:path":{{}},"f:port":{{}},"f:scheme":{{}}}},"f:periodSeconds":{{}},"f:successThreshold":{{}},"f:timeoutSeconds":{{}}}},"f:name":{{}},"f:ports":{{".":{{}},"k:{{\"containerPort\":8080,\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:name":{{}},"f:protocol":{{}}}}}},"f:resources":{{".":{{}},"f:limits":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}},"f:requests":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}}}},"f:terminationMessagePath":{{}},"f:terminationMessagePolicy":{{}},"f:volumeMounts":{{".":{{}},"k:{{\"mountPath\":\"/etc/app\"}}":{{".":{{}},"f:mountPath":{{}},"f:name":{{}},"f:readOnly":{{}}}}}}}}"#
        );
    }
    let _ = write!(
        body,
        r#"}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{".":{{}},"f:fsGroup":{{}},"f:runAsNonRoot":{{}},"f:runAsUser":{{}}}},"f:serviceAccountName":{{}},"f:terminationGracePeriodSeconds":{{}},"f:volumes":{{".":{{}},"k:{{\"name\":\"config\"}}":{{".":{{}},"f:configMap":{{".":{{}},"f:defaultMode":{{}},"f:name":{{}}}},"f:name":{{}}}}}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Initialized\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"10.0.0.1\"}}":{{".":{{}},"f:ip":{{}}}}}},"f:startTime":{{}}}}}},"subresource":"status"}}"#
    );
}
