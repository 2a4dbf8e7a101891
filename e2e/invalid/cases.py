"""Cases that chance would not find: (name, method, path, body, content type). A body may be text, or a change of a stored object."""
from objects import NS, SELECTOR, SMALL, TEMPLATE, WEBHOOK, of

PODS, SERVICES, DEPLOYMENTS = NS + "/pods", NS + "/services", of("apps/v1", "deployments")
MERGE, PATCH, STRATEGIC, YAML = "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json", "application/yaml"
CASES = []


def create(name, path, body, query=""):
    if isinstance(body, dict):
        body = dict(body, metadata=dict({"name": "case"}, **body.get("metadata", {})))
    CASES.append((name, "POST", path + "?dryRun=All" + query, body))


def pod(title, spec=None, container=None, **metadata):
    containers = [dict(SMALL["containers"][0], **(container or {}))]
    create("pod-" + title, PODS, {"metadata": metadata, "spec": {"containers": containers, **(spec or {})}})


def service(title, **spec):
    create("service-" + title, SERVICES, {"spec": dict({"ports": [{"port": 80}]}, **spec)})


def deployment(name, template=None, **spec):
    create("deployment-" + name, DEPLOYMENTS, {"spec": dict({"selector": {"matchLabels": {"app": "a"}}, "template": template or TEMPLATE}, **spec)})


def with_pod(spec):
    return {"metadata": TEMPLATE["metadata"], "spec": spec}


pod("no-containers", {"containers": []})
pod("two-names", {"containers": [SMALL["containers"][0], SMALL["containers"][0]]})
pod("init-takes-name", {"initContainers": SMALL["containers"]})
pod("bad-container-name", container={"name": "A_b"})
pod("mount-of-nothing", container={"volumeMounts": [{"name": "gone", "mountPath": "/x"}]})
pod("mount-twice", {"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]})
pod("volume-of-two-kinds", {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]})
pod("volume-twice", {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]})
pod("bad-port", container={"ports": [{"containerPort": 70000}]})
pod("no-port", container={"ports": [{"name": "http"}]})
pod("bad-port-name", container={"ports": [{"name": "TOO_long_for_a_port", "containerPort": 1}]})
pod("bad-protocol", container={"ports": [{"containerPort": 1, "protocol": "ICMP"}]})
pod("request-over-limit", container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})
pod("negative-request", container={"resources": {"requests": {"memory": "-1Gi"}}})
pod("unknown-resource", container={"resources": {"requests": {"gpu": "1"}}})
pod("bad-quantity", container={"resources": {"requests": {"cpu": "1 core"}}})
pod("bad-suffix", container={"resources": {"requests": {"cpu": "1kk"}}})
pod("env-without-name", container={"env": [{"value": "x"}]})
pod("env-of-two", container={"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})
pod("env-of-unknown-field", container={"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]})
pod("probe-of-nothing", container={"livenessProbe": {}})
pod("probe-of-two", container={"livenessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}})
pod("probe-twice-alive", container={"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}})
pod("bad-policy", {"restartPolicy": "Maybe"})
pod("bad-dns", {"dnsPolicy": "Maybe"})
pod("bad-pull-policy", container={"imagePullPolicy": "Maybe"})
pod("bad-toleration", {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]})
pod("bad-spread", {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}]})
pod("bad-host-alias", {"hostAliases": [{"ip": "x", "hostnames": ["a"]}]})
pod("bad-node-name", {"nodeName": "A B"})
pod("bad-label", labels={"a b": "c"})
pod("bad-label-value", labels={"a": "b c"})
pod("bad-annotation", annotations={"a b": "c"})
pod("large-annotation", annotations={"a": "x" * 262145})
pod("finalizer-without-domain", finalizers=["hold"])
pod("owner-without-uid", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}])
pod("two-controllers", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"])
pod("owner-event", ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u"}])
pod("bad-prefix", name="", generateName="A_")
pod("version-on-create", resourceVersion="1")
pod("other-namespace", namespace="default")
service("no-ports", ports=[])
service("two-without-names", ports=[{"port": 80}, {"port": 81}])
service("two-of-one-name", ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}])
service("bad-port", ports=[{"port": 0}])
service("bad-target", ports=[{"port": 80, "targetPort": "a--b"}])
service("node-port-on-cluster", ports=[{"port": 80, "nodePort": 30000}])
service("node-port-out-of-range", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
service("bad-address", clusterIP="x")
service("external-without-name", type="ExternalName")
service("bad-type", type="Maybe")
service("bad-affinity", sessionAffinity="Maybe")
service("long-affinity", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}})
service("local-on-cluster", externalTrafficPolicy="Local")
create("service-bad-name", SERVICES, {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 80}]}})
deployment("misses-its-pods", selector={"matchLabels": {"app": "b"}})
deployment("no-selector", selector=None)
deployment("empty-selector", selector={})
deployment("bad-operator", selector={"matchExpressions": [{"key": "a", "operator": "Maybe"}]})
deployment("in-nothing", selector={"matchExpressions": [{"key": "app", "operator": "In"}]})
deployment("negative", replicas=-1)
deployment("restarts-never", with_pod(dict(SMALL, restartPolicy="Never")))
deployment("rolling-recreate", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})
deployment("never-rolls", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
deployment("bad-percent", strategy={"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "200%"}})
deployment("bad-strategy", strategy={"type": "Maybe"})
deployment("short-deadline", minReadySeconds=10, progressDeadlineSeconds=5)
deployment("no-template", template={})
create("job-restarts-always", of("batch/v1", "jobs"), {"spec": {"template": {"spec": SMALL}}})
create("job-indexed-without-completions", of("batch/v1", "jobs"), {"spec": {"completionMode": "Indexed", "parallelism": 1, "template": {"spec": dict(SMALL, restartPolicy="Never")}}})
for name, schedule in (("words", "now and then"), ("range", "60 * * * *"), ("step", "*/0 * * * *"), ("empty", "")):
    create("cronjob-" + name, of("batch/v1", "cronjobs"), {"spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": dict(SMALL, restartPolicy="Never")}}}}})
create("cronjob-zone", of("batch/v1", "cronjobs"), {"spec": {"schedule": "* * * * *", "timeZone": "Mars/Base", "jobTemplate": {"spec": {"template": {"spec": dict(SMALL, restartPolicy="Never")}}}}})
create("ingress-nothing", of("networking.k8s.io/v1", "ingresses"), {"spec": {}})
create("ingress-without-type", of("networking.k8s.io/v1", "ingresses"), {"spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": {"service": {"name": "x", "port": {"number": 80}}}}]}}]}})
create("ingress-relative", of("networking.k8s.io/v1", "ingresses"), {"spec": {"rules": [{"http": {"paths": [{"path": "x", "pathType": "Prefix", "backend": {"service": {"name": "x", "port": {"number": 80}}}}]}}]}})
create("ingress-without-port", of("networking.k8s.io/v1", "ingresses"), {"spec": {"defaultBackend": {"service": {"name": "x"}}}})
create("ingress-address", of("networking.k8s.io/v1", "ingresses"), {"spec": {"rules": [{"host": "10.0.0.1"}]}})
create("policy-bad-block", of("networking.k8s.io/v1", "networkpolicies"), {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/8"]}}]}]}})
create("policy-empty-peer", of("networking.k8s.io/v1", "networkpolicies"), {"spec": {"podSelector": {}, "ingress": [{"from": [{}]}]}})
create("pdb-both", of("policy/v1", "poddisruptionbudgets"), {"spec": {"minAvailable": 1, "maxUnavailable": 1}})
create("pdb-percent", of("policy/v1", "poddisruptionbudgets"), {"spec": {"minAvailable": "101%"}})
create("hpa-bounds", of("autoscaling/v2", "horizontalpodautoscalers"), {"spec": {"minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}}})
create("hpa-nothing", of("autoscaling/v2", "horizontalpodautoscalers"), {"spec": {}})
create("role-urls", of("rbac.authorization.k8s.io/v1", "roles"), {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]})
create("binding-kind", of("rbac.authorization.k8s.io/v1", "rolebindings"), {"roleRef": {"kind": "Deployment", "name": "x"}, "subjects": [{"kind": "Robot", "name": "r"}]})
create("pvc-mode", NS + "/persistentvolumeclaims", {"spec": {"accessModes": ["Sometimes"], "resources": {"requests": {"storage": "0"}}}})
create("secret-basic", NS + "/secrets", {"type": "kubernetes.io/basic-auth"})
create("secret-key", NS + "/secrets", {"data": {"a b": "eA=="}})
create("secret-plain", NS + "/secrets", {"data": {"a": "not base64!"}})
create("configmap-key", NS + "/configmaps", {"data": {"a/b": "x", "..": "y"}})
create("configmap-both", NS + "/configmaps", {"data": {"a": "x"}, "binaryData": {"a": "eA=="}})
create("quota-name", NS + "/resourcequotas", {"spec": {"hard": {"things": "1"}}})
create("limit-order", NS + "/limitranges", {"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}})
create("endpoints-loopback", NS + "/endpoints", {"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80}]}]})
create("slice-family", of("discovery.k8s.io/v1", "endpointslices"), {"addressType": "IPv4", "endpoints": [{"addresses": ["::1"]}]})
create("lease-seconds", of("coordination.k8s.io/v1", "leases"), {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}})
create("webhook-name", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"webhooks": [dict(WEBHOOK, name="short")]})
create("webhook-url", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"webhooks": [dict(WEBHOOK, clientConfig={"url": "http://x"})]})
create("webhook-effects", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"webhooks": [dict(WEBHOOK, sideEffects="Unknown")]})
create("namespace-name", "/api/v1/namespaces", {"metadata": {"name": "a.b"}})
create("priority-high", "/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 2000000000})
create("storageclass-mode", "/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "x", "volumeBindingMode": "Later"})
for name, body in (("no-json", "{"), ("empty", ""), ("list", "[]"), ("text", "\"x\""), ("trailing", "{} {}"), ("wrong-kind", {"kind": "Secret", "apiVersion": "v1"}), ("wrong-version", {"kind": "Pod", "apiVersion": "v2"}),
                   ("wrong-group", {"kind": "Pod", "apiVersion": "apps/v1"})):
    create("body-" + name, PODS, body)
for validation in ("Strict", "Warn", "Ignore", "Maybe"):
    create("twice-" + validation, NS + "/configmaps", '{"metadata": {"name": "case"}, "data": {"a": "b", "a": "c"}, "bogus": 1, "data": {"d": "e"}}', "&fieldValidation=" + validation)
    CASES.append(("yaml-" + validation, "POST", NS + "/configmaps?dryRun=All&fieldValidation=" + validation, "metadata:\n  name: case\n  bogus: 1\ndata:\n  a: b\n  a: c\n", YAML))
    CASES.append(("merge-" + validation, "PATCH", NS + "/configmaps/defaults-configmap?dryRun=All&fieldValidation=" + validation, '{"bogus": 1, "data": {"a": "x", "a": "y"}}', MERGE))
    CASES.append(("strategic-" + validation, "PATCH", NS + "/configmaps/defaults-configmap?dryRun=All&fieldValidation=" + validation, '{"bogus": 1, "data": {"a": "x", "a": "y"}}', STRATEGIC))
    CASES.append(("operations-" + validation, "PATCH", NS + "/configmaps/defaults-configmap?dryRun=All&fieldValidation=" + validation, '[{"op": "add", "path": "/bogus", "value": 1}]', PATCH))
    CASES.append(("custom-" + validation, "POST", of("defaults.example.com/v1", "gadgets") + "?dryRun=All&fieldValidation=" + validation,
                  '{"apiVersion": "defaults.example.com/v1", "kind": "Gadget", "metadata": {"name": "case", "odd": 1}, "spec": {"size": "small", "size": "large", "bogus": 1, "extra": {"free": 1}}}'))


def change(name, stored, path, how, query=""):
    CASES.append((name, "PUT", f"{path}/defaults-{stored}?dryRun=All{query}", {"stored": stored, "change": how}))


def at(path, new):
    def put(value):
        *parents, last = path.split(".")
        for name in parents:
            value = value[name]
        value[last] = new
    return put


change("put-stale", "configmap", NS + "/configmaps", at("metadata.resourceVersion", "1"))
change("put-other-uid", "configmap", NS + "/configmaps", at("metadata.uid", "other"))
change("put-other-name", "configmap", NS + "/configmaps", at("metadata.name", "other"))
change("put-without-version", "lease", of("coordination.k8s.io/v1", "leases"), at("metadata.resourceVersion", ""))
change("put-created", "configmap", NS + "/configmaps", at("metadata.creationTimestamp", "2020-01-01T00:00:00Z"))
change("put-fixed", "configmap-fixed", NS + "/configmaps", at("data", {}))
change("put-selector", "deployment-small", DEPLOYMENTS, at("spec.selector.matchLabels", {"app": "b"}))
change("put-address", "service", SERVICES, at("spec.clusterIP", "10.0.0.250"))
change("put-claim", "pvc", NS + "/persistentvolumeclaims", at("spec.accessModes", ["ReadOnlyMany"]))
change("put-image", "pod-small", PODS, at("spec.containers", [dict(SMALL["containers"][0], image="other", terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", imagePullPolicy="IfNotPresent")]))
change("put-host", "pod-small", PODS, at("spec.hostname", "h"))
change("put-role", "rolebinding", of("rbac.authorization.k8s.io/v1", "rolebindings"), at("roleRef.name", "other"))
for name, how, body in (("test-fails", PATCH, '[{"op": "test", "path": "/data/a", "value": "z"}]'), ("no-operation", PATCH, '[{"op": "jump", "path": "/data"}]'), ("no-list", PATCH, '{"op": "add"}'),
                        ("missing", PATCH, '[{"op": "remove", "path": "/data/z"}]'), ("uid", MERGE, '{"metadata": {"uid": "x"}}'), ("wrong-type", MERGE, '{"data": {"a": 1}}'), ("no-object", MERGE, '[]'),
                        ("no-json", MERGE, '{'), ("wrong-type-strategic", STRATEGIC, '{"data": {"a": 1}}'), ("directive", STRATEGIC, '{"data": {"$patch": "maybe"}}'), ("media", "application/x", '{}')):
    CASES.append(("patch-" + name, "PATCH", NS + "/configmaps/defaults-configmap?dryRun=All", body, how))
assert SELECTOR
