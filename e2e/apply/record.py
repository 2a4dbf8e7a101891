"""Records stories of server-side apply and of field owners from a real API server, as golden data.

usage: record.py HOST PORT TOKEN OUT.jsonl.gz

Each story works on objects of its own, in the namespace `apply`; replies go into the file in order. The test
that reads the file sends the same requests to the embedded server and compares the replies.
"""
import gzip
import http.client
import json
import ssl
import sys
import time

HOST, PORT, TOKEN, OUT = sys.argv[1:5]
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
NS = "/api/v1/namespaces/apply"
APPS = "/apis/apps/v1/namespaces/apply"
BIN = "/apis/apply.example.com/v1/namespaces/apply/bins"
rows = []


def call(method, path, body=None, content_type=JSON, agent="golden/1"):
    connection = http.client.HTTPSConnection(HOST, int(PORT), context=ssl._create_unverified_context(), timeout=60)
    headers = {"Accept": JSON, "Authorization": "Bearer " + TOKEN, "User-Agent": agent}
    if body is not None:
        headers["Content-Type"] = content_type
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
    connection.request(method, path, body=body, headers=headers)
    reply = connection.getresponse()
    return reply.status, reply.read().decode(), reply.headers.get_all("Warning") or []


def row(name, method, path, body=None, content_type=JSON, note=""):
    status, text, warnings = call(method, path, body, content_type)
    line = {"file": f"apply/{name}.json", "method": method, "path": path, "accept": JSON, "status": status,
            "note": note, "body": text}
    if body is not None:
        line["contentType"] = content_type
        line["request"] = body if isinstance(body, str) else json.dumps(body)
    if warnings:
        line["warnings"] = warnings
    rows.append(line)
    print(status, name, text[:160].replace("\n", " ") if status >= 300 else "")
    return json.loads(text) if text.startswith("{") else text


class Thing:
    """One object, and what is done to it."""

    def __init__(self, story, base, kind, name, version="v1"):
        self.story, self.path, self.step = story, f"{base}/{name}", 0
        self.base, self.head = base, {"apiVersion": version, "kind": kind, "metadata": {"name": name}}

    def say(self, what):
        body = json.loads(json.dumps(self.head))
        for key, value in what.items():
            if key == "metadata":
                body["metadata"].update(value)
            else:
                body[key] = value
        return body

    def row(self, note, method, path, body=None, content_type=JSON):
        self.step += 1
        return row(f"{self.story}-{self.step:02}", method, path, body, content_type, note)

    def apply(self, by, what, note="", query="", part=""):
        body = what if isinstance(what, str) else self.say(what)
        return self.row(note, "PATCH", f"{self.path}{part}?fieldManager={by}{query}", body, APPLY)

    def patch(self, by, what, note="", content_type=MERGE, part="", query=""):
        by = f"?fieldManager={by}{query}" if by else ""
        return self.row(note, "PATCH", f"{self.path}{part}{by}", what, content_type)

    def create(self, by, what, note=""):
        return self.row(note, "POST", f"{self.base}?fieldManager={by}", self.say(what))

    def put(self, by, what, note="", part=""):
        return self.row(note, "PUT", f"{self.path}{part}?fieldManager={by}", self.say(what))

    def get(self, part=""):
        return self.row("", "GET", f"{self.path}{part}")


def pod(containers, **spec):
    return {"containers": containers, **spec}


def deployment(containers=None, **spec):
    template = {"metadata": {"labels": {"a": "b"}}}
    if containers is not None:
        template["spec"] = {"containers": containers}
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}}


def maps():
    t = Thing("map", NS + "/configmaps", "ConfigMap", "map")
    t.apply("one", {"data": {"a": "1", "b": "1"}, "metadata": {"labels": {"x": "1"}}}, "creates")
    t.apply("two", {"data": {"a": "1"}}, "shares a field")
    t.apply("one", {"data": {"b": "1"}}, "gives a shared field up: it stays")
    t.apply("two", {"data": {}}, "gives it up, too: it goes")
    t.apply("two", {"data": {"b": "2"}}, "conflict")
    t.apply("two", {"data": {"b": "2"}}, "forced", "&force=true")
    t.apply("one", {"data": {"b": "2"}}, "the loser agrees")
    t.patch("three", {"data": {"b": "3", "c": "3"}}, "an update takes without asking")
    t.apply("one", {"data": {"b": "2"}}, "conflict with an update")
    t.apply("one", {"data": {"b": "3"}}, "agrees with the update")
    t.patch("three", {"data": {"b": None}}, "an update removes what an applier owns")
    t.apply("one", {"data": {"b": "3"}}, "says it again")
    t.patch("three", {"data": {"b": "3"}}, "an update that changes nothing")
    t.patch("", {"data": {"d": "4"}}, "by the user agent")
    t.apply("one", {}, "says nothing")
    t.apply("one", {"data": None}, "null")
    t.apply("one", {"data": {"e": None}}, "null in a map")
    t.apply("one", {"immutable": False}, "a zero")
    t.apply("dry", {"data": {"dry": "1"}}, "dry run", "&dryRun=All")
    t.get()


def refusals():
    t = Thing("refused", NS + "/configmaps", "ConfigMap", "refused")
    t.apply("", {"data": {"a": "1"}}, "no manager")
    t.apply("x" * 129, {"data": {"a": "1"}}, "a long name")
    t.apply("a%01b", {"data": {"a": "1"}}, "a name that cannot be printed")
    t.apply("one", {"metadata": {"managedFields": []}}, "owners given, none")
    t.apply("one", {"metadata": {"managedFields": [{"manager": "x"}]}}, "owners given")
    t.apply("one", {"metadata": {"uid": "84325342-5133-4c51-922c-22efdd07eece"}}, "a uid of nothing")
    t.apply("one", {"metadata": {"resourceVersion": "5"}}, "a version of nothing")
    t.apply("one", {"metadata": {"name": "other"}}, "another name")
    t.apply("one", {"metadata": {"namespace": "other"}}, "another namespace")
    t.apply("one", "data: {a: '1'}", "no kind")
    t.apply("one", "apiVersion: v1\nkind: Secret\nmetadata: {name: refused}", "another kind")
    t.apply("one", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: refused}", "another group")
    t.apply("one", "apiVersion: v1\nkind: ConfigMap\ndata: {a: '1'}", "no name")
    t.apply("one", "just text", "no map")
    t.apply("one", "[1]", "a list")
    t.apply("one", "{a", "malformed")
    t.apply("one", "", "nothing")
    t.apply("one", {"nope": 1}, "an unknown field")
    t.apply("one", {"data": {"a": 1}}, "a wrong type")
    t.apply("one", {"data": [1]}, "a list for a map")
    t.apply("one", {"data": "x"}, "text for a map")
    t.apply("one", {"metadata": {"creationTimestamp": "never"}}, "not a time")
    t.apply("one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused}\ndata: {a: '1'}\ndata: {b: '1'}", "twice", "&fieldValidation=Strict")
    t.row("force on another type", "PATCH", f"{t.path}?force=true", {"data": {"a": "1"}}, MERGE)
    t.row("a long name", "POST", f"{NS}/configmaps?fieldManager={'x' * 129}", t.say({}))
    t.row("a version that is no more", "PATCH", f"{t.path}/status?fieldManager=one", t.say({}), APPLY)
    t.apply("one", {"data": {"a": "1"}}, "creates")
    t.apply("one", {"metadata": {"resourceVersion": "5"}}, "an old version")
    t.apply("one", {"metadata": {"uid": "84325342-5133-4c51-922c-22efdd07eece"}}, "another uid")
    t.apply("one", {"metadata": {"name": "refused", "labels": {"a": "!"}}}, "an invalid label")
    t.apply("one", {"metadata": {"finalizers": ["a.b/c", "a.b/c"]}}, "an item twice")
    t = Thing("refused-pod", NS + "/pods", "Pod", "refused")
    t.apply("one", {"spec": pod([{"name": "c", "image": "i"}, {"name": "c", "image": "j"}])}, "a key twice")
    t.apply("one", {"spec": pod([{"name": "c", "image": "i", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}])}, "twice by default")
    t.apply("one", {"spec": pod(["c"])}, "text for an item")
    t.apply("one", {"spec": pod([None])}, "null for an item")
    t.apply("one", {"spec": pod([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "x"}}}])}, "no quantity")


def deployments():
    c = lambda name="c", **more: {"name": name, "image": "i", **more}
    t = Thing("deployment", APPS + "/deployments", "Deployment", "one", "apps/v1")
    t.apply("one", deployment([c(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 8080, "name": "x"}],
                                env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], args=["a", "b"])], replicas=3), "creates")
    t.apply("two", deployment([c("d"), c(env=[{"name": "B", "value": "2"}, {"name": "C", "value": "3"}])]), "adds a container and a variable")
    t.apply("two", deployment([c("d", ports=[{"containerPort": 1}])]), "leaves the other's container")
    t.apply("one", deployment([c(env=[{"name": "B", "value": "2"}])], replicas=3), "drops ports, a variable and arguments")
    t.apply("two", deployment([{"name": "c", "image": "j"}]), "conflict in a container")
    t.apply("two", deployment([c()], replicas=4, minReadySeconds=5), "conflict in a number")
    t.patch("scaler", {"spec": {"replicas": 5}}, "an update scales")
    t.apply("one", deployment([c()]), "gives the number up")
    t.put("scaler", {"spec": {"replicas": 6}}, "put through scale: refused kind", "/scale")
    t.row("through scale", "PUT", f"{t.path}/scale?fieldManager=scaler",
          {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one", "namespace": "apply"}, "spec": {"replicas": 6}})
    t.get()
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one", "namespace": "apply"}}
    t.row("apply on scale: conflict", "PATCH", f"{t.path}/scale?fieldManager=hpa", {**scale, "spec": {"replicas": 7}}, APPLY)
    t.row("apply on scale: forced", "PATCH", f"{t.path}/scale?fieldManager=hpa&force=true", {**scale, "spec": {"replicas": 7}}, APPLY)
    t.get()
    t.apply("one", deployment([c()], replicas=7), "shares it with scale")
    t.apply("one", deployment([c()], replicas=8), "conflicts with scale")
    t.apply("one", deployment([c()]), "leaves it to scale")
    t.row("patch on scale", "PATCH", f"{t.path}/scale?fieldManager=patcher", {"spec": {"replicas": 9}}, MERGE)
    t.get()
    t.row("the same again", "PATCH", f"{t.path}/scale?fieldManager=patcher", {"spec": {"replicas": 9}}, MERGE)
    t.get()
    condition = {"type": "Ready", "status": "True", "reason": "x", "message": "m"}
    t.apply("status", {"status": {"observedGeneration": 1, "conditions": [condition]}}, "status", part="/status")
    t.apply("status", {"status": {"conditions": [condition]}, "spec": {"replicas": 1}}, "status does not write spec", part="/status")
    t.patch("other", {"status": {"conditions": [{"type": "Other", "status": "False"}]}}, "replaces conditions", part="/status")
    t.patch("other", {"status": {"conditions": [{"type": "More", "status": "False"}]}}, "merges conditions", STRATEGIC, part="/status")
    t.apply("status", {"status": {"conditions": [{**condition, "status": "False"}]}}, "status again", part="/status")
    t.apply("one", {**deployment([c()]), "status": {"replicas": 3}}, "status through the object")
    t.put("putter", {**deployment([c()], replicas=1), "metadata": {"labels": {"l": "1"}}}, "put: everything that is not said goes")
    t.apply("one", deployment([c()], strategy={"type": "RollingUpdate"}, paused=True), "a strategy")
    t.patch("smp", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "k"}, c("e")]}}}}, "strategic", STRATEGIC)
    t.patch("jp", [{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["z"]}], "json patch", JSON_PATCH)
    t.get()
    t.apply("nil", {"spec": {"replicas": None, "selector": {"matchLabels": {"a": "b"}}}}, "null for a number", "&force=true")


def pods():
    t = Thing("pod", NS + "/pods", "Pod", "pod")
    toleration = lambda key: {"key": key, "operator": "Exists"}
    spec = pod([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}},
                 "securityContext": {"runAsUser": 1}, "livenessProbe": {"httpGet": {"path": "/", "port": 80}}}],
               tolerations=[toleration("x")], nodeSelector={"a": "b"}, imagePullSecrets=[{"name": "s"}],
               volumes=[{"name": "v", "emptyDir": {}}],
               topologySpreadConstraints=[{"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
               hostAliases=[{"ip": "10.0.0.1", "hostnames": ["h"]}])
    t.apply("one", {"metadata": {"finalizers": ["example.com/a", "example.com/b"], "annotations": {"a": "1"},
                                 "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "map", "uid": "u-1"}]},
                    "spec": spec}, "creates")
    t.apply("two", {"metadata": {"finalizers": ["example.com/c", "example.com/b"]}, "spec": pod([{"name": "c", "image": "i"}])}, "a set of two")
    t.apply("one", {"metadata": {"finalizers": ["example.com/c"]}, "spec": spec}, "drops a finalizer, an annotation and an owner")
    t.apply("two", {"metadata": {"finalizers": ["example.com/d", "example.com/c"]}}, "an order")
    t.patch("three", {"metadata": {"finalizers": ["example.com/a"]}}, "an update replaces the set")
    t.apply("kubelet", {"status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]}}, "status", part="/status")
    t.apply("kubelet", {"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}}, "status again", part="/status")
    t.patch("label", {"metadata": {"labels": {"through": "status"}}, "status": {"message": "m"}}, "labels through status", part="/status")
    t.patch("three", {"metadata": {"finalizers": []}}, "lets go")
    t.row("", "DELETE", t.path + "?gracePeriodSeconds=0")


def services():
    t = Thing("service", NS + "/services", "Service", "svc")
    port = lambda number, **more: {"port": number, **more}
    t.apply("one", {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [port(80, name="http"), port(53, name="dns", protocol="UDP")]}}, "creates")
    t.apply("two", {"spec": {"ports": [port(53, name="dns-tcp"), port(80, name="http")]}}, "another protocol")
    t.apply("two", {"spec": {"selector": {"c": "d"}}}, "an atomic map: conflict")
    t.apply("two", {"spec": {"selector": {"c": "d"}}}, "an atomic map: forced", "&force=true")
    t.apply("one", {"spec": {"clusterIP": "None", "ports": [port(80, name="web")]}}, "conflict in a port")
    t.apply("one", {"spec": {"clusterIP": "None"}}, "drops ports")
    t = Thing("secret", NS + "/secrets", "Secret", "sec")
    t.apply("one", {"stringData": {"a": "b"}, "type": "Opaque"}, "text in the clear")
    t.apply("one", {"data": {"a": "Yw=="}}, "bytes")
    t = Thing("account", NS + "/serviceaccounts", "ServiceAccount", "acc")
    t.apply("one", {"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}]}, "lists of references")
    t.apply("two", {"imagePullSecrets": [{"name": "q"}]}, "another list of references")
    t = Thing("role", "/apis/rbac.authorization.k8s.io/v1/namespaces/apply/roles", "Role", "role", "rbac.authorization.k8s.io/v1")
    t.apply("one", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}, "an atomic list")
    t.apply("two", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}, "conflict")
    t = Thing("hpa", "/apis/autoscaling/v2/namespaces/apply/horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "autoscaling/v2")
    t.apply("one", {"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                             "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}, "creates")
    t = Thing("ingress", "/apis/networking.k8s.io/v1/namespaces/apply/ingresses", "Ingress", "ing", "networking.k8s.io/v1")
    t.apply("one", {"spec": {"rules": [{"host": "h", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}, "creates")
    t = Thing("claim", NS + "/persistentvolumeclaims", "PersistentVolumeClaim", "pvc")
    t.apply("one", {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}, "creates")
    t.apply("status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}, "status", part="/status")
    t = Thing("namespace", "/api/v1/namespaces", "Namespace", "apply-other")
    t.apply("one", {"metadata": {"labels": {"a": "b"}}}, "creates")
    t.apply("one", {}, "says nothing")
    t = Thing("job", "/apis/batch/v1/namespaces/apply/cronjobs", "CronJob", "cron", "batch/v1")
    t.apply("one", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}, "creates")
    t.apply("one", {"spec": {"schedule": "1 * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}, "changes")


def owners():
    t = Thing("owners", NS + "/configmaps", "ConfigMap", "owners")
    t.create("one", {"data": {"a": "1"}, "metadata": {"labels": {"x": "1"}, "finalizers": ["a.b/c"]}}, "creates")
    t.put("two", {"data": {"a": "1", "b": "2"}}, "put")
    t.patch("two", {"data": {"a": "1", "b": "2"}}, "nothing changes")
    t.patch("two", {"metadata": {"managedFields": [{}]}}, "resets")
    t.patch("two", {"data": {"c": "3"}}, "is not tracked any more")
    t.apply("one", {"data": {"a": "1", "d": "4"}}, "until somebody applies")
    t.apply("one", {"data": {"c": "4"}}, "and what was before has an owner")
    t.patch("two", {"metadata": {"managedFields": []}}, "resets")
    t.patch("two", {"metadata": {"managedFields": [{"manager": "made-up", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                                                   "fieldsV1": {"f:data": {"f:a": {}}}}]}}, "owners made up")
    t.patch("two", {"data": {"a": "2"}}, "and overruled")
    t.patch("two", {"metadata": {"managedFields": [{"manager": "bad", "operation": "Nope"}]}}, "owners that are none")
    t.patch("two", {"metadata": {"managedFields": [{"manager": "bad", "operation": "Update", "apiVersion": "v1", "fieldsType": "V7"}]}}, "fields of an unknown type")
    t.patch("two", {"metadata": {"managedFields": [{"manager": "bad", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": 1}}]}}, "fields that are none")
    for number in range(12):
        t.patch(f"m{number:02}", {"data": {f"k{number:02}": "x"}}, "many updaters")
    t = Thing("upgrade", NS + "/configmaps", "ConfigMap", "upgrade")
    last = lambda data: json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "upgrade", "namespace": "apply", "annotations": {}}, "data": data})
    noted = lambda data: {"data": data, "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": last(data)}}}
    t.create("kubectl-client-side-apply", noted({"a": "1", "b": "1"}), "kubectl applied on its side")
    t.apply("other", {"data": {"a": "2"}}, "another manager is in conflict")
    t.apply("kubectl", {"data": {"a": "2", "b": "1"}}, "kubectl takes what it applied")
    t.apply("kubectl", {"data": {"a": "2"}}, "and drops what it owns")
    t.patch("three", {"data": {"b": "3"}}, "an update")
    t.apply("kubectl", {"data": {"a": "2", "b": "4"}}, "is in conflict")
    t.apply("kubectl", {"data": {"a": "3"}, "metadata": {"annotations": {"z": "1"}}}, "annotations of its own")


def custom():
    prop = lambda kind, **more: {"type": kind, **more}
    string, integer = prop("string"), prop("integer")
    spec = {
        "size": integer, "name": prop("string", default="n"), "any": {"x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "labels": prop("object", additionalProperties=string),
        "whole": prop("object", additionalProperties=string, **{"x-kubernetes-map-type": "atomic"}),
        "part": prop("object", properties={"a": string, "b": string}),
        "one": prop("object", properties={"a": string, "b": string}, **{"x-kubernetes-map-type": "atomic"}),
        "list": prop("array", items=string),
        "set": prop("array", items=string, **{"x-kubernetes-list-type": "set"}),
        "ports": prop("array", **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
                      items=prop("object", required=["port"], properties={"port": integer, "protocol": prop("string", default="TCP"), "name": string,
                                                                              "inner": prop("array", **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
                                                                                            items=prop("object", required=["k"], properties={"k": string, "v": string}))})),
        "free": prop("object", **{"x-kubernetes-preserve-unknown-fields": True}, properties={"known": prop("array", items=string, **{"x-kubernetes-list-type": "set"})}),
        "embedded": prop("object", **{"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}),
        "objects": prop("object", additionalProperties=prop("object", properties={"a": string, "b": string})),
        "maybe": prop("string", nullable=True), "replicas": integer,
    }
    schema = prop("object", properties={"spec": prop("object", properties=spec), "status": prop("object", properties={
        "phase": string, "replicas": integer, "conditions": prop("array", **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
                                                                 items=prop("object", required=["type"], properties={"type": string, "status": string}))})})
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bins.apply.example.com"},
                  "spec": {"group": "apply.example.com", "scope": "Namespaced", "names": {"plural": "bins", "kind": "Bin", "singular": "bin", "listKind": "BinList"},
                           "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
                                         "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}]}}
    row("definition-01", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for _ in range(100):
        if call("GET", BIN)[0] == 200:
            break
        time.sleep(0.1)
    time.sleep(2.5)
    t = Thing("bin", BIN, "Bin", "one", "apply.example.com/v1")
    t.apply("one", {"spec": {"size": 1, "any": {"x": [1, {"y": 2}]}, "port": "http", "labels": {"a": "1", "b": "1"}, "whole": {"a": "1"}, "part": {"a": "1"},
                             "one": {"a": "1"}, "list": ["a"], "set": ["a", "b"], "ports": [{"port": 80, "name": "x", "inner": [{"k": "a", "v": "1"}]}],
                             "free": {"x": {"y": 1}, "known": ["a"]}, "objects": {"p": {"a": "1"}},
                             "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"l": "1"}}, "spec": {"a": 1}}}}, "creates")
    t.apply("two", {"spec": {"labels": {"c": "1"}, "part": {"b": "1"}, "set": ["c", "b"], "ports": [{"port": 80, "protocol": "UDP"}, {"port": 80, "inner": [{"k": "b"}]}],
                             "free": {"x": {"z": 1}, "known": ["b"]}, "objects": {"p": {"b": "1"}, "q": {"a": "1"}},
                             "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"m": "1"}}, "spec": {"b": 1}}}}, "adds to each")
    t.apply("two", {"spec": {"whole": {"b": "1"}, "one": {"b": "1"}, "list": ["b"], "port": 80, "any": {"x": 1}}}, "conflicts")
    t.apply("two", {"spec": {"whole": {"b": "1"}, "one": {"b": "1"}, "list": ["b"], "port": 80, "any": {"x": 1}}}, "forced", "&force=true")
    t.apply("one", {"spec": {"size": 1, "labels": {"a": "1"}, "set": ["b"], "objects": {"p": {}}}}, "says less")
    t.apply("two", {"spec": {}}, "says nothing of it")
    t.apply("one", {}, "nothing at all")
    t.apply("one", {"spec": {"ports": [{"port": 2}, {"port": 1}, {"port": 3, "protocol": "UDP"}], "set": ["z", "a"]}}, "order")
    t.apply("two", {"spec": {"ports": [{"port": 3, "protocol": "UDP"}, {"port": 4}, {"port": 2}], "set": ["q", "a", "z"]}}, "another order")
    t.apply("one", {"spec": {"maybe": None, "labels": None, "ports": []}}, "nulls and empty lists")
    t.apply("one", {"spec": {"labels": {}, "part": {}, "set": [], "list": []}}, "empty ones")
    t.apply("two", {"spec": {"labels": {"a": "1"}}}, "into an empty map")
    t.apply("one", {"spec": {"nope": 1}}, "an unknown field")
    t.apply("one", {"spec": {"size": "x"}}, "a wrong type")
    t.apply("one", {"spec": {"ports": [{"name": "x"}]}}, "a key that is absent")
    t.apply("one", {"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}}, "a key twice")
    t.apply("one", {"spec": {"set": ["a", "a"]}}, "an item twice")
    t.apply("one", {"spec": {"set": [["a"]]}}, "a list in a set")
    t.apply("ctl", {"status": {"phase": "x", "replicas": 1, "conditions": [{"type": "A", "status": "True"}]}}, "status", part="/status")
    t.apply("ctl", {"status": {"phase": "x", "conditions": [{"type": "B", "status": "True"}]}, "spec": {"size": 9}}, "status again", part="/status")
    t.patch("other", {"status": {"phase": "y"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}, "patch of status", part="/status")
    t.apply("ctl", {"status": {"phase": "x"}}, "conflict in status", part="/status")
    t.apply("one", {"status": {"phase": "z"}}, "status through the object")
    t.patch("other", {"spec": {"replicas": 2}}, "replicas")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one", "namespace": "apply"}}
    t.row("scale", "PATCH", f"{t.path}/scale?fieldManager=hpa&force=true", {**scale, "spec": {"replicas": 3}}, APPLY)
    t.get()
    t.put("putter", {"spec": {"size": 7}, "metadata": {"resourceVersion": t.get()["metadata"]["resourceVersion"]}}, "put")
    t.create("again", {}, "exists")
    t = Thing("other", BIN, "Bin", "two", "apply.example.com/v1")
    t.create("golden", {"spec": {"labels": {"a": "1"}, "set": ["a"], "ports": [{"port": 1}]}}, "created by an update")
    t.apply("one", {"spec": {"labels": {"a": "1", "b": "1"}, "set": ["b"], "ports": [{"port": 1, "name": "x"}]}}, "shares and adds")
    t.apply("one", {"spec": {}}, "and leaves")
    t.apply("one", {"spec": {"name": "m"}}, "a default's field: conflict")
    call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bins.apply.example.com")


def clean():
    """Takes away what the stories made; nobody else empties a namespace here."""
    for base in sorted({row["path"].split("?")[0].rsplit("/", 1)[0] for row in rows if "/namespaces/apply/" in row["path"]}):
        if base.count("/") in (5, 6):
            status, text, _ = call("GET", base)
            for item in json.loads(text).get("items", []) if status == 200 else []:
                path = f"{base}/{item['metadata']['name']}"
                call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
                call("DELETE", path + "?gracePeriodSeconds=0")
    for name in ("apply", "apply-other"):
        call("DELETE", f"/api/v1/namespaces/{name}")
        call("PUT", f"/api/v1/namespaces/{name}/finalize", {"metadata": {"name": name}, "spec": {"finalizers": []}})


def main():
    status, text, _ = call("POST", "/api/v1/namespaces", {"metadata": {"name": "apply"}})
    if status != 201:
        sys.exit(f"the namespace is not new: {text}")
    for story in (maps, refusals, deployments, pods, services, owners, custom):
        story()
    clean()
    with gzip.GzipFile(OUT, "wb", mtime=0) as out:
        for line in rows:
            out.write((json.dumps(line, sort_keys=True) + "\n").encode())
    print(len(rows), "rows")


main()
