"""An operator on kopf, and a story that it has a part in.

    main.py KUBECONFIG NAMESPACE  ──▶  any API server  ──▶  stdout: a report in JSON, exit code 1 if a check failed

The operator runs in a thread of its own. It has Pencils: each gets a ConfigMap, a status and a finalizer.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import time

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

PATIENCE = 30
GROUP = "kopf.example.com"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": f"pencils.{GROUP}"},
    "spec": {
        "group": GROUP, "scope": "Namespaced",
        "names": {"plural": "pencils", "singular": "pencil", "kind": "Pencil"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "color": {"type": "string"}, "length": {"type": "integer", "default": 17}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}

errors, ended = [], []


class Errors(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        # The first try of a creation, which fails by intent.
        if "not yet" not in text:
            errors.append(text)


@kopf.on.login()
def login(**given):
    return kopf.login_with_kubeconfig(**given)


@kopf.on.create(GROUP, "v1", "pencils")
def made(spec, name, namespace, retry, **_):
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.1)
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": spec["color"]}}
    kopf.adopt(child)
    client.CoreV1Api().create_namespaced_config_map(namespace, child)
    return {"child": name, "length": spec["length"]}


@kopf.on.update(GROUP, "v1", "pencils", field="spec.color")
def changed(old, new, body, name, namespace, **_):
    client.CoreV1Api().patch_namespaced_config_map(name, namespace, {"data": {"color": new}})
    kopf.info(body, reason="Painted", message=f"{old} became {new}")
    return {"from": old, "to": new}


@kopf.on.delete(GROUP, "v1", "pencils")
def removed(name, **_):
    ended.append(name)


def same(what, seen, wanted):
    if seen != wanted:
        raise AssertionError(f"{what}: {seen!r}, and it should be {wanted!r}")


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not in {PATIENCE} s")
        time.sleep(0.05)


class Stage:
    def __init__(self, namespace):
        self.namespace, self.core, self.custom = namespace, client.CoreV1Api(), client.CustomObjectsApi()
        client.ApiextensionsV1Api().create_custom_resource_definition(DEFINITION)
        self.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
        until("the resource is served", lambda: self.get() is not None)

    def of(self, *more):
        return (GROUP, "v1", self.namespace, "pencils", *more)

    def get(self, name=""):
        """An object, the list of all, or None."""
        try:
            if not name:
                return self.custom.list_namespaced_custom_object(*self.of())
            return self.custom.get_namespaced_custom_object(*self.of(name))
        except ApiException as error:
            same("the code", error.status, 404)

    def child(self, name):
        try:
            return self.core.read_namespaced_config_map(name, self.namespace)
        except ApiException as error:
            same("the code", error.status, 404)


def an_object_from_before_the_start_gets_its_child(s):
    until("the child", lambda: s.child("early"))
    until("the status", lambda: s.get("early").get("status", {}).get("made"))


def a_new_object_gets_a_child_a_status_and_a_finalizer(s):
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Pencil", "metadata": {"name": "one"}, "spec": {"color": "red"}}
    s.custom.create_namespaced_custom_object(*s.of(body))
    until("the status", lambda: s.get("one").get("status", {}).get("made"))
    pencil, child = s.get("one"), s.child("one")
    same("the status", pencil["status"]["made"], {"child": "one", "length": 17})
    same("the finalizers", pencil["metadata"]["finalizers"], [FINALIZER])
    same("the child", child.data, {"color": "red"})
    same("its owner", [owner.uid for owner in child.metadata.owner_references], [pencil["metadata"]["uid"]])


def an_update_reaches_its_handler_once(s):
    s.custom.patch_namespaced_custom_object(*s.of("one", {"spec": {"color": "blue"}}))
    # Its place in the status has the name of the handler and its field.
    until("the status", lambda: s.get("one")["status"].get("changed/spec.color"))
    same("the status", s.get("one")["status"]["changed/spec.color"], {"from": "red", "to": "blue"})
    same("the child", s.child("one").data, {"color": "blue"})
    version = s.get("one")["metadata"]["resourceVersion"]
    s.custom.patch_namespaced_custom_object(*s.of("one", {"spec": {"color": "blue"}}))
    same("the version", s.get("one")["metadata"]["resourceVersion"], version)


def it_tells_an_event(s):
    def told():
        events = s.core.list_namespaced_event(s.namespace, field_selector="involvedObject.name=one").items
        return [(event.reason, event.message) for event in events] == [("Painted", "red became blue")]

    until("the event", told)


def a_delete_waits_for_its_handler(s):
    s.custom.delete_namespaced_custom_object(*s.of("one"))
    until("the end", lambda: s.get("one") is None)
    same("the handler's calls", ended, ["one"])


def no_error_is_logged(s):
    same("the errors", errors, [])


CHECKS = [
    an_object_from_before_the_start_gets_its_child,
    a_new_object_gets_a_child_a_status_and_a_finalizer,
    an_update_reaches_its_handler_once,
    it_tells_an_event,
    a_delete_waits_for_its_handler,
    no_error_is_logged,
]


def main():
    os.environ["KUBECONFIG"], namespace = sys.argv[1], sys.argv[2]
    config.load_kube_config(sys.argv[1])
    logging.getLogger().addHandler(Errors(logging.ERROR))
    logging.getLogger("kopf").setLevel(logging.INFO)
    stage = Stage(namespace)
    early = {"apiVersion": f"{GROUP}/v1", "kind": "Pencil", "metadata": {"name": "early"}, "spec": {"color": "red"}}
    stage.custom.create_namespaced_custom_object(*stage.of(early))
    ready, stop = threading.Event(), threading.Event()

    def operate():
        asyncio.run(kopf.operator(standalone=True, namespaces=[namespace], ready_flag=ready, stop_flag=stop))

    operator = threading.Thread(target=operate)
    operator.start()
    checks = []
    for check in CHECKS:
        began, failure = time.monotonic(), ""
        try:
            if not ready.wait(PATIENCE):
                raise AssertionError("the operator is not ready")
            check(stage)
        except Exception as error:  # What a check meets is its result.
            failure = f"{type(error).__name__}: {error}"
        name = check.__name__.replace("_", " ")
        checks.append({"name": name, "failure": failure, "seconds": time.monotonic() - began})
    stop.set()
    operator.join(PATIENCE)
    json.dump({"checks": checks}, sys.stdout)
    sys.stdout.flush()
    os._exit(any(check["failure"] for check in checks))


if __name__ == "__main__":
    main()
