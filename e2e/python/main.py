"""What a program built on the Python client does, told as a story of checks.

    main.py KUBECONFIG NAMESPACE  ──▶  any API server  ──▶  stdout: a report in JSON, exit code 1 if a check failed

Nothing here knows which server it talks to.
"""

import datetime
import json
import sys
import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.informer import SharedInformer

PATIENCE = 30


def same(what, seen, wanted):
    if seen != wanted:
        raise AssertionError(f"{what}: {seen!r}, and it should be {wanted!r}")


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not in {PATIENCE} s")
        time.sleep(0.05)


def refused(code, call):
    try:
        call()
    except ApiException as error:
        same("the code", error.status, code)
        return json.loads(error.body)
    raise AssertionError(f"it should be refused with {code}")


class Stage:
    def __init__(self, kubeconfig, namespace):
        config.load_kube_config(kubeconfig)
        self.namespace = namespace
        self.core = client.CoreV1Api()
        self.apps = client.AppsV1Api()
        metadata = client.V1ObjectMeta(name=namespace)
        self.core.create_namespace(client.V1Namespace(metadata=metadata))

    def map(self, name, value, labels=None):
        metadata = client.V1ObjectMeta(name=name, labels=labels or {"of": "story"})
        body = client.V1ConfigMap(metadata=metadata, data={"k": value})
        return self.core.create_namespaced_config_map(self.namespace, body)


def creates_typed_objects(s):
    container = client.V1Container(
        name="c", image="i:v1", ports=[client.V1ContainerPort(container_port=80)],
        resources=client.V1ResourceRequirements(requests={"cpu": "1000m"}))
    labels = {"app": "a"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels=labels), template=template)
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name="a"), spec=spec)
    made = s.apps.create_namespaced_deployment(s.namespace, body)
    same("replicas", made.spec.replicas, 1)
    same("the quantity", made.spec.template.spec.containers[0].resources.requests["cpu"], "1")
    read = s.apps.read_namespaced_deployment("a", s.namespace)
    same("the uid", read.metadata.uid, made.metadata.uid)
    scaled = s.apps.patch_namespaced_deployment_scale("a", s.namespace, {"spec": {"replicas": 3}})
    same("the scale", scaled.spec.replicas, 3)
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[container]))
    same("the phase", s.core.create_namespaced_pod(s.namespace, pod).status.phase, "Pending")


def updates_and_meets_conflicts(s):
    made = s.map("update", "1")
    made.data["k"] = "2"
    s.core.replace_namespaced_config_map("update", s.namespace, made)
    made.data["k"] = "3"
    status = refused(409, lambda: s.core.replace_namespaced_config_map("update", s.namespace, made))
    same("the reason", status["reason"], "Conflict")
    patched = s.core.patch_namespaced_config_map("update", s.namespace, {"data": {"l": "1"}})
    same("the data", patched.data, {"k": "2", "l": "1"})
    refused(404, lambda: s.core.read_namespaced_config_map("none", s.namespace))
    refused(409, lambda: s.map("update", "1"))


def lists_in_pages(s):
    for n in range(7):
        s.map(f"page-{n}", "1", {"page": "yes"})
    names, token, version = [], None, None
    while True:
        page = s.core.list_namespaced_config_map(s.namespace, label_selector="page=yes", limit=3, _continue=token)
        version = version or page.metadata.resource_version
        same("the version", page.metadata.resource_version, version)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    same("the names", names, [f"page-{n}" for n in range(7)])


def watches_and_resumes(s):
    start = s.core.list_namespaced_config_map(s.namespace).metadata.resource_version
    heard, stop = [], watch.Watch()

    def listen():
        stream = stop.stream(
            s.core.list_namespaced_config_map, s.namespace, resource_version=start,
            label_selector="of=watch", timeout_seconds=2)
        # Streams end after two seconds; the watch resumes by itself.
        for event in stream:
            heard.append((event["type"], event["object"].metadata.name))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    s.map("watch-a", "1", {"of": "watch"})
    until("the addition", lambda: ("ADDED", "watch-a") in heard)
    thread.join(PATIENCE)
    same("the stream ended", thread.is_alive(), False)
    again = threading.Thread(target=lambda: listen_from(s, stop.resource_version, heard), daemon=True)
    s.core.patch_namespaced_config_map("watch-a", s.namespace, {"data": {"k": "2"}})
    s.core.delete_namespaced_config_map("watch-a", s.namespace)
    again.start()
    until("the deletion", lambda: ("DELETED", "watch-a") in heard)
    same("what was heard", heard, [("ADDED", "watch-a"), ("MODIFIED", "watch-a"), ("DELETED", "watch-a")])


def listen_from(s, version, heard):
    stream = watch.Watch().stream(
        s.core.list_namespaced_config_map, s.namespace, resource_version=version,
        label_selector="of=watch", timeout_seconds=5)
    for event in stream:
        heard.append((event["type"], event["object"].metadata.name))


def is_told_of_an_error_in_a_stream(s):
    """An error inside a stream is an exception with its code: 504 for a version from the future."""
    stream = watch.Watch().stream(
        s.core.list_namespaced_config_map, s.namespace, resource_version="99999999999",
        resource_version_match="NotOlderThan", send_initial_events=True, timeout_seconds=10)
    try:
        for event in stream:
            raise AssertionError(f"an event: {event}")
    except ApiException as error:
        same("the code", error.status, 504)
        return
    raise AssertionError("the stream ended without an error")


def begins_anew_when_its_version_is_gone(s):
    """Events of the first version are forgotten before the story begins: 410 inside the stream."""
    listing = s.core.list_namespaced_event
    try:
        for event in watch.Watch().stream(listing, s.namespace, resource_version="1", timeout_seconds=10):
            raise AssertionError(f"an event: {event}")
        raise AssertionError("the stream ended without an error")
    except ApiException as error:
        same("the code", error.status, 410)
        same("the reason", error.reason.split(":")[0], "Expired")
    version = listing(s.namespace).metadata.resource_version
    reference = client.V1ObjectReference(namespace=s.namespace, kind="ConfigMap", name="x")
    metadata = client.V1ObjectMeta(name="anew")
    s.core.create_namespaced_event(s.namespace, client.CoreV1Event(metadata=metadata, involved_object=reference))
    stream = watch.Watch()
    for event in stream.stream(listing, s.namespace, resource_version=version, timeout_seconds=10):
        same("the event", (event["type"], event["raw_object"]["metadata"]["name"]), ("ADDED", "anew"))
        stream.stop()


def streams_a_list(s):
    made = s.map("stream", "1")
    names = []
    stream = watch.Watch().stream(
        s.core.list_namespaced_config_map, s.namespace, allow_watch_bookmarks=True,
        resource_version_match="NotOlderThan", send_initial_events=True, timeout_seconds=10)
    for event in stream:
        metadata = event["raw_object"]["metadata"]
        if event["type"] == "BOOKMARK":
            same("the mark", metadata["annotations"], {"k8s.io/initial-events-end": "true"})
            same("it is as new", int(metadata["resourceVersion"]) >= int(made.metadata.resource_version), True)
            break
        names.append(metadata["name"])
    same("the names are sorted", names, sorted(names))
    same("it is among them", "stream" in names, True)


def an_informer_hears_changes_and_keeps_a_cache(s):
    s.map("informer-a", "1", {"of": "informer"})
    heard = []
    informer = SharedInformer(
        s.core.list_namespaced_config_map, namespace=s.namespace, label_selector="of=informer", resync_period=2)
    for event in ["ADDED", "MODIFIED", "DELETED", "ERROR"]:
        informer.add_event_handler(event, lambda told, event=event: heard.append((event, getattr(told, "metadata", told))))

    def names(event):
        return [metadata.name for what, metadata in heard if what == event]

    informer.start()
    until("the first list", lambda: names("ADDED") == ["informer-a"])
    s.map("informer-b", "1", {"of": "informer"})
    s.map("informer-c", "1", {"of": "another"})
    until("the addition", lambda: names("ADDED") == ["informer-a", "informer-b"])
    s.core.patch_namespaced_config_map("informer-b", s.namespace, {"data": {"k": "2"}})
    until("the update", lambda: "informer-b" in names("MODIFIED"))
    cached = informer.cache.get_by_key(f"{s.namespace}/informer-b")
    same("the cache", cached.data, {"k": "2"})
    s.core.delete_namespaced_config_map("informer-a", s.namespace)
    until("the deletion", lambda: names("DELETED") == ["informer-a"])
    # After two seconds the stream ends: a list, and a stream from its version.
    until("the resync", lambda: names("MODIFIED").count("informer-b") > 1)
    s.core.delete_namespaced_config_map("informer-b", s.namespace)
    until("the second deletion", lambda: names("DELETED") == ["informer-a", "informer-b"])
    same("the errors", [told for what, told in heard if what == "ERROR"], [])
    same("the additions", names("ADDED"), ["informer-a", "informer-b"])
    informer.stop()


def discovers_and_uses_custom_resources(s):
    group = f"{s.namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}
    client.ApiextensionsV1Api().create_custom_resource_definition(definition)
    custom = client.CustomObjectsApi()
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}

    def made():
        try:
            return custom.create_namespaced_custom_object(group, "v1", s.namespace, "widgets", widget)
        except ApiException:
            return None

    until("the resource is served", made)

    def found():
        api = dynamic.DynamicClient(client.ApiClient())
        try:
            return api.resources.get(api_version=f"{group}/v1", kind="Widget")
        except dynamic.exceptions.ResourceNotFoundError:
            return None

    until("discovery knows it", found)
    read = found().get(name="w", namespace=s.namespace)
    same("the size", read.spec.size, 3)
    done = custom.patch_namespaced_custom_object(
        group, "v1", s.namespace, "widgets", "w", {"spec": {"size": 4}})
    same("the patched size", done["spec"]["size"], 4)


def deletes_by_selector_and_precondition(s):
    for n in range(3):
        s.map(f"delete-{n}", "1", {"delete": "yes"})
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="wrong"))
    refused(409, lambda: s.core.delete_namespaced_config_map("delete-0", s.namespace, body=options))
    s.core.delete_collection_namespaced_config_map(s.namespace, label_selector="delete=yes")
    left = s.core.list_namespaced_config_map(s.namespace, label_selector="delete=yes")
    same("what is left", len(left.items), 0)


def writes_events_and_leases(s):
    reference = client.V1ObjectReference(namespace=s.namespace, kind="ConfigMap", name="x")
    body = client.CoreV1Event(
        metadata=client.V1ObjectMeta(name="e"), involved_object=reference, reason="Seen", message="it was seen",
        event_time=datetime.datetime.now(datetime.timezone.utc), reporting_component="story",
        reporting_instance="story-0", action="Seeing", type="Normal")
    s.core.create_namespaced_event(s.namespace, body)
    same("the note", client.EventsV1Api().read_namespaced_event("e", s.namespace).note, "it was seen")
    leases = client.CoordinationV1Api()
    spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15)
    lease = client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=spec)
    made = leases.create_namespaced_lease(s.namespace, lease)
    made.spec.holder_identity = "you"
    same("the holder", leases.replace_namespaced_lease("l", s.namespace, made).spec.holder_identity, "you")
    refused(409, lambda: leases.replace_namespaced_lease("l", s.namespace, made))


CHECKS = [
    creates_typed_objects,
    updates_and_meets_conflicts,
    lists_in_pages,
    watches_and_resumes,
    is_told_of_an_error_in_a_stream,
    begins_anew_when_its_version_is_gone,
    streams_a_list,
    an_informer_hears_changes_and_keeps_a_cache,
    discovers_and_uses_custom_resources,
    deletes_by_selector_and_precondition,
    writes_events_and_leases,
]


def main():
    stage = Stage(sys.argv[1], sys.argv[2])
    checks = []
    for check in CHECKS:
        began, failure = time.monotonic(), ""
        try:
            check(stage)
        except Exception as error:  # What a check meets is its result.
            failure = f"{type(error).__name__}: {error}"
        name = check.__name__.replace("_", " ")
        checks.append({"name": name, "failure": failure, "seconds": time.monotonic() - began})
    json.dump({"checks": checks}, sys.stdout)
    sys.exit(any(check["failure"] for check in checks))


if __name__ == "__main__":
    main()
