#!/usr/bin/env python3
"""Records what a real API server says to valid, odd and invalid writes.

usage: record.py OUT_DIR      (the server that e2e/oracle/up starts; HOST, PORT, TOKEN and SEED come from the environment)

OUT_DIR/defaults.jsonl.gz: one create of each object of objects.py. OUT_DIR/invalid.jsonl.gz: seeded changes of them (a member
removed, of another type, out of range, unknown, doubled ..) as dry runs of create, update and patch, and a list of cases that
chance would not find. One line an exchange: file, method, path, contentType, request, status, body, and the texts of warnings.
All of it happens in a namespace of its own, which is removed at the end with what was made for the cluster.
"""
import copy, gzip, http.client, json, os, random, ssl, sys, time

from cases import CASES
from objects import CRD, OBJECTS

HOST, PORT = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "26443"))
TOKEN = os.environ.get("TOKEN", "admin-token")
NAMESPACE, SEED = "defaults", int(os.environ.get("SEED", "7"))
CREATES, CHANGES = int(os.environ.get("CREATES", "6")), int(os.environ.get("CHANGES", "4"))
JSON, MERGE, PATCH, STRATEGIC = "application/json", "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json"
STRINGS = ["", "Not Valid!", "UPPER", "-x", "a" * 64, "a" * 254, "x y", "a/b/c", "1.2.3.4.5", "0", "-1", "10%", "http"]
NUMBERS = [-1, 0, 1, 2, 101, 70000, 2147483648, 1.5, -2147483649, 9223372036854775808]
connection = http.client.HTTPSConnection(HOST, PORT, context=ssl._create_unverified_context(), timeout=60)


def call(method, path, body=None, content_type=JSON):
    headers = {"Accept": JSON, "Authorization": "Bearer " + TOKEN, "User-Agent": "invalid/1"}
    if body is not None:
        headers["Content-Type"] = content_type
    data = body if body is None or isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    connection.request(method, path, data, headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    return reply.status, text, [v for k, v in reply.getheaders() if k.lower() == "warning"]


class Recording:
    def __init__(self, path):
        self.rows, self.path = [], path

    def ask(self, name, method, path, body, content_type=JSON):
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        status, reply, warnings = call(method, path, text, content_type)
        row = {"file": name, "method": method, "path": path, "accept": JSON, "contentType": content_type, "request": text, "status": status, "body": without_managed_fields(reply)}
        if warnings:
            row["warnings"] = warnings
        self.rows.append(row)
        return status, reply

    def save(self):
        with open(self.path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            for row in self.rows:
                file.write(json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n")
        codes = {}
        for row in self.rows:
            codes[row["status"]] = codes.get(row["status"], 0) + 1
        print(self.path, len(self.rows), "rows", os.path.getsize(self.path), "bytes", codes)


def without_managed_fields(text):
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        value["metadata"].pop("managedFields", None)
    return json.dumps(value, ensure_ascii=False)


def filled(value):
    if isinstance(value, str):
        return value.replace("{ns}", NAMESPACE)
    if isinstance(value, list):
        return [filled(item) for item in value]
    if isinstance(value, dict):
        return {key: filled(item) for key, item in value.items()}
    return value


def places(value, path=()):
    """All (path, value) below a value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield path + (key,), item
        yield from places(item, path + (key,))


def parent(value, path):
    for key in path[:-1]:
        value = value[key]
    return value


def mutated(chance, given, skip=()):
    """A changed copy, and what was changed; some changes are made in the text."""
    value = copy.deepcopy(given)
    spots = [spot for spot in places(value) if spot[0][0] not in ("apiVersion", "kind") and ".".join(map(str, spot[0])) not in skip]
    path, old = chance.choice(spots)
    at, key = parent(value, path), path[-1]
    kinds = ["remove", "type", "null", "value", "value", "value"]
    if isinstance(old, dict):
        kinds = ["remove", "type", "null", "empty", "unknown", "unknown", "double", "key"]
    elif isinstance(old, list):
        kinds = ["remove", "type", "empty", "repeat", "repeat", "member"]
    kind = chance.choice(kinds)
    if kind == "remove":
        del at[key]
    elif kind == "null":
        at[key] = None
    elif kind == "type":
        at[key] = chance.choice([v for v in ("text", 7, True, [], {}, ["x"], 1.5) if type(v) is not type(old)])
    elif kind == "empty":
        at[key] = type(old)()
    elif kind == "value" and isinstance(old, bool):
        at[key] = not old
    elif kind == "value":
        at[key] = chance.choice(STRINGS if isinstance(old, str) else NUMBERS)
    elif kind == "unknown":
        old[chance.choice(["bogus", "Name", "spec"])] = chance.choice([1, "x", {"a": 1}])
    elif kind == "double" and old:
        name = chance.choice(sorted(old))
        old["__again__" + name] = old[name]
    elif kind == "key":
        old[chance.choice(["Bad Key!", "a/b/c", "x" * 64, "-"])] = "v"
    elif kind == "repeat" and old:
        old.append(copy.deepcopy(chance.choice(old)))
    elif kind == "member":
        old.append(chance.choice([None, "x", 1, {}]))
    return value, kind + ":" + ".".join(map(str, path))


def text_of(value):
    return json.dumps(value, ensure_ascii=False).replace("__again__", "")


def query(chance, kind):
    validation = chance.choice(["Strict", "Warn", "", "Ignore"]) if kind in ("unknown", "double") else chance.choice(["", "", "", "Strict"])
    return "?dryRun=All" + (f"&fieldValidation={validation}" if validation else "")


def changes(recording, chance, name, path, given, stored, use):
    for at in range(CREATES):
        body, what = mutated(chance, dict(given, metadata=dict(given["metadata"], name=given["metadata"]["name"] + ("" if "c" == use else "-n"))))
        recording.ask(f"invalid/{name}.create-{at}.{what}", "POST", path + query(chance, what.split(":")[0]), text_of(body))
    if use != "u":
        return
    one = f"{path}/{given['metadata']['name']}"
    stored["metadata"].pop("managedFields", None)
    for at in range(CHANGES):
        body, what = mutated(chance, stored)
        recording.ask(f"invalid/{name}.update-{at}.{what}", "PUT", one + query(chance, what.split(":")[0]), text_of(body))
    for at in range(CHANGES):
        spec = {key: value for key, value in stored.items() if key not in ("apiVersion", "kind", "status")}
        body, what = mutated(chance, spec, skip=("metadata", "spec"))
        keys = what.split(":")[1].split(".")
        top = {keys[0]: body.get(keys[0])} if keys[0] != "metadata" else {"metadata": {keys[1]: body["metadata"].get(keys[1])}}
        how = chance.choice([MERGE, STRATEGIC, STRATEGIC, PATCH]) if name != "gadget" else chance.choice([MERGE, PATCH])
        if how == PATCH:
            pointer = "/" + "/".join(key.replace("~", "~0").replace("/", "~1") for key in keys)
            top = [{"op": chance.choice(["replace", "add", "remove", "test"]), "path": pointer, "value": chance.choice(STRINGS + NUMBERS)}]
        recording.ask(f"invalid/{name}.patch-{at}.{what}", "PATCH", one + query(chance, what.split(":")[0]), text_of(top), how)


def main(out):
    chance = random.Random(SEED)
    clean()
    valid, invalid = Recording(os.path.join(out, "defaults.jsonl.gz")), Recording(os.path.join(out, "invalid.jsonl.gz"))
    valid.ask("defaults/0-namespace.json", "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    valid.ask("defaults/0-definition.json", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    time.sleep(4)
    stored = {}
    for name, path, given, use in OBJECTS:
        path, given = filled(path), filled(copy.deepcopy(given))
        given["metadata"] = dict({"name": f"{NAMESPACE}-{name}"}, **given.get("metadata", {}))
        status, reply = valid.ask(f"defaults/{name}.json", "POST", path + ("" if use == "u" else "?dryRun=All"), given)
        if status != 201:
            print(name, status, reply[:600])
        stored[name] = path, given, reply, use
    for name, (path, given, reply, use) in stored.items():
        changes(invalid, chance, name, path, given, json.loads(reply), use)
    for at, (name, method, path, body, *how) in enumerate(CASES):
        if isinstance(body, dict) and "stored" in body:
            value = json.loads(stored[body["stored"]][2])
            value["metadata"].pop("managedFields", None)
            body["change"](value)
            body = value
        invalid.ask(f"invalid/case-{at}.{name}", method, filled(path), filled(body), *how)
    valid.save()
    invalid.save()
    clean()


def clean():
    for name, path, given, use in OBJECTS:
        if use == "u":
            one = f"{filled(path)}/{given.get('metadata', {}).get('name', NAMESPACE + '-' + name)}"
            call("DELETE", one, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            call("PATCH", one, {"metadata": {"finalizers": None}}, MERGE)
    for path in ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.defaults.example.com", f"/api/v1/namespaces/{NAMESPACE}"):
        call("DELETE", path)
    for path in (f"/api/v1/namespaces/{NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}-namespace"):
        # Nothing else empties a namespace where no controllers run.
        status, reply, _ = call("GET", path)
        if status == 200:
            call("PUT", path + "/finalize", dict(json.loads(reply), spec={"finalizers": []}))
    time.sleep(2)


if __name__ == "__main__":
    main(sys.argv[1])
