#!/usr/bin/env python3
"""Records what a real API server with the gate ShardedListAndWatch says to shardSelector.

usage: record.py OUT_DIR      (the server that e2e/oracle/up starts with KAS_FLAGS=--feature-gates=ShardedListAndWatch=true, empty;
                               HOST, PORT and TOKEN come from the environment)

OUT_DIR/shards.jsonl.gz: the objects (state-*), then lists, streams and dry deletes of their shards in every form, then refusals, at
one version each (`at`). Then watches of shards by namespace (live-*) and the writes that they saw (story-*), in order.
"""
import base64, gzip, http.client, json, os, ssl, sys, threading, time, urllib.parse

from selectors_to_try import FIELDS, SELECTORS

HOST, PORT = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "26443"))
TOKEN = os.environ.get("TOKEN", "admin-token")
JSON, PROTOBUF, YAML = "application/json", "application/vnd.kubernetes.protobuf", "application/yaml"
TABLE, META = ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
STREAMED = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
GROUP = "shards.example.com"
CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos." + GROUP},
       "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
                "versions": [{"name": "v1", "served": True, "storage": True,
                              "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
NAMESPACES = ["shop", "game", "tools", "farm", "mill", "port"]
MAPS, FOOS = "/api/v1/configmaps", f"/apis/{GROUP}/v1/foos"
TOP, HALF = 1 << 64, 1 << 63


def shards(field, *bounds):
    return " || ".join(f"shardRange(object.metadata.{field}, '{a:#018x}', '{b:#018x}')" for a, b in bounds)


def call(method, path, body=None, accept=JSON, content_type=JSON):
    connection = http.client.HTTPSConnection(HOST, PORT, context=ssl._create_unverified_context(), timeout=60)
    headers = {"Accept": accept, "Authorization": "Bearer " + TOKEN, "User-Agent": "shards/1"}
    if body is not None:
        headers["Content-Type"] = content_type
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    return reply.status, reply.getheader("Content-Type"), reply.read()


def made(path, body):
    status, _, reply = call("POST", path, json.dumps(body))
    assert status == 201, reply


def version():
    return int(json.loads(call("GET", MAPS + "?limit=1")[2])["metadata"]["resourceVersion"])


ROWS = []


def row(name, method, path, answer, accept=JSON, **more):
    status, media, body = answer
    line = {"file": "shards/" + name, "method": method, "path": path, "accept": accept, "status": status, "responseHeaders": {"Content-Type": media}, **more}
    try:
        line["body"] = body.decode()
    except UnicodeDecodeError:
        line["bodyBase64"] = base64.b64encode(body).decode()
    ROWS.append(line)


def ask(name, path, query=None, accept=JSON, method="GET"):
    path += "?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote) if query else ""
    while True:  # nothing else was written meanwhile
        at, answer = version(), call(method, path, None, accept)
        if version() == at:
            return row(name, method, path, answer, accept, at=at)


def objects():
    made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    for name in NAMESPACES:
        made("/api/v1/namespaces", {"metadata": {"name": name}})
    for at in range(24):
        labels = {"color": ["red", "blue", "green"][at % 3]}
        namespace = NAMESPACES[at % 6]
        made(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"map-{at}", "labels": labels}, "data": {"i": str(at)}})
    while call("GET", FOOS)[0] != 200:
        time.sleep(0.1)
    for at in range(8):
        foo = {"apiVersion": GROUP + "/v1", "kind": "Foo", "metadata": {"name": f"foo-{at}"}, "spec": {"i": at}}
        made(f"/apis/{GROUP}/v1/namespaces/{NAMESPACES[at % 6]}/foos", foo)


def forms():
    halves = {"uid-00": shards("uid", (0, HALF)), "uid-80": shards("uid", (HALF, TOP)),
              "ns-00": shards("namespace", (0, HALF)), "ns-80": shards("namespace", (HALF, TOP)),
              "twice": shards("uid", (HALF, HALF + HALF // 2), (0, HALF // 2), (0, HALF // 4)), "all": shards("uid", (0, TOP))}
    for name, selector in halves.items():
        for what, path in ("maps", MAPS), ("foos", FOOS):
            for ending, accept in (".json", JSON), (".table.json", JSON + TABLE), (".meta.json", JSON + META), (".yaml", YAML), (".meta.pb", PROTOBUF + META):
                ask(f"{what}.{name}{ending}", path, {"shardSelector": selector}, accept)
            stream = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true", "timeoutSeconds": "1", "shardSelector": selector}
            ask(f"{what}.{name}.sie.jsonl", path, stream)
            ask(f"{what}.{name}.meta.sie.jsonl", path, stream, JSON + STREAMED)
        ask(f"maps.{name}.pb", MAPS, {"shardSelector": selector}, PROTOBUF)
        ask(f"maps.{name}.sie.pb", MAPS, stream, PROTOBUF)
    low = halves["uid-00"]
    now = str(version())
    for name, query in {
        "limit": {"limit": "3"}, "limit-all": {"limit": "100"}, "rv0": {"resourceVersion": "0"}, "rv0-limit": {"resourceVersion": "0", "limit": "2"},
        "rv": {"resourceVersion": now}, "rv-limit": {"resourceVersion": now, "limit": "2"},
        "not-older": {"resourceVersion": now, "resourceVersionMatch": "NotOlderThan", "limit": "2"},
        "exact": {"resourceVersion": now, "resourceVersionMatch": "Exact"}, "labels": {"labelSelector": "color=red"}, "labels-limit": {"labelSelector": "color!=red", "limit": "2"},
        "fields": {"fieldSelector": "metadata.namespace=shop"}, "name": {"fieldSelector": "metadata.name=map-3"}, "two": [("shardSelector", low), ("shardSelector", "nope")],
        "empty": {"shardSelector": ""},
    }.items():
        query = query if isinstance(query, list) else {"shardSelector": low, **query}
        for what, path in ("maps", MAPS), ("foos", FOOS):
            if not (what == "foos" and "label" in str(query)):
                ask(f"{what}.with-{name}.json", path, query)
    for what, path in ("maps", MAPS), ("foos", FOOS), ("shop", "/api/v1/namespaces/shop/configmaps"):
        query = {"shardSelector": low, "limit": "1"}
        for page in range(40):
            ask(f"{what}.page-{page}.json", path, query)
            token = json.loads(ROWS[-1]["body"])["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
    ask("maps.other-page.json", MAPS, {"shardSelector": halves["uid-80"], "limit": "2", "continue": first_token()})
    ask("one.json", "/api/v1/namespaces/shop/configmaps/map-0", {"shardSelector": "nope"})
    ask("namespaces.ns-80.json", "/api/v1/namespaces", {"shardSelector": halves["ns-80"], "fieldSelector": "metadata.name=shop"})
    for name in "uid-00", "ns-80":
        for what, path in ("maps", "/api/v1/namespaces/shop/configmaps"), ("foos", f"/apis/{GROUP}/v1/namespaces/shop/foos"):
            ask(f"delete.{what}.{name}.json", path, {"dryRun": "All", "shardSelector": halves[name]}, method="DELETE")
    ask("delete.bad.json", "/api/v1/namespaces/shop/configmaps", {"dryRun": "All", "shardSelector": "nope"}, method="DELETE")


def first_token():
    first = next(line for line in ROWS if line["file"] == "shards/maps.page-0.json")
    return json.loads(first["body"])["metadata"]["continue"]


def refusals():
    for at, selector in enumerate(SELECTORS):
        ask(f"selector-{at:03}.json", "/api/v1/namespaces/none/configmaps", {"shardSelector": selector})
    bad = {"shardSelector": "nope"}
    for name, query in FIELDS.items():
        ask(f"bad.{name}.json", MAPS, {**bad, **query})
    good = {"shardSelector": shards("uid", (0, HALF))}
    ask("good.rv.json", MAPS, {**good, "resourceVersion": "x"})
    ask("good.continue.json", MAPS, {**good, "continue": "x"})
    ask("good.future.json", MAPS, {**good, "resourceVersion": "99999999"})
    for name, path in ("foos", FOOS), ("legacy", "/api/v1/watch/namespaces/shop/configmaps/map-0"), ("events", "/api/v1/events"), ("definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
        ask(f"bad.{name}.json", path, {**bad, "timeoutSeconds": "1"})


def story():
    watch = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "6", "labelSelector": "story=shards"}
    streams, started = [], []
    for half, selector in ("00", shards("namespace", (0, HALF))), ("80", shards("namespace", (HALF, TOP))):
        for what, path in ("maps", MAPS), ("foos", FOOS):
            for ending, accept in (".jsonl", JSON), (".meta.jsonl", JSON + STREAMED), (".table.jsonl", JSON + TABLE), (".pb", PROTOBUF):
                if what == "foos" and ending == ".pb":
                    continue
                asked = path + "?" + urllib.parse.urlencode({**watch, "shardSelector": selector}, quote_via=urllib.parse.quote)
                streams.append((f"live-{what}.{half}{ending}", asked, accept))
    answers = [None] * len(streams)

    def follow(at):
        answers[at] = call("GET", streams[at][1], None, streams[at][2])

    threads = [threading.Thread(target=follow, args=(at,)) for at in range(len(streams))]
    [thread.start() for thread in threads]
    time.sleep(2)
    steps, merge = [], "application/merge-patch+json"

    def step(method, path, body=None, content_type=JSON):
        text = None if body is None else json.dumps(body)
        answer = call(method, path, text, JSON, content_type)
        assert answer[0] < 300, answer
        steps.append((method, path, text, content_type, answer))

    for at, namespace in enumerate(NAMESPACES):
        maps, foos = f"/api/v1/namespaces/{namespace}/configmaps", f"/apis/{GROUP}/v1/namespaces/{namespace}/foos"
        labels = {"labels": {"story": "shards" if at % 3 else "none"}}
        step("POST", maps, {"metadata": {"name": "told", **labels}, "data": {"i": "0"}})
        step("POST", foos, {"apiVersion": GROUP + "/v1", "kind": "Foo", "metadata": {"name": "told", **labels}, "spec": {"i": 0}})
        for path in maps, foos:
            step("PATCH", path + "/told", {"metadata": {"annotations": {"a": "1"}}}, merge)
            step("PATCH", path + "/told", {"metadata": {"labels": {"story": "shards"}}}, merge)
            step("PATCH", path + "/told", {"metadata": {"labels": {"story": "over" if at % 2 else "shards", "more": "1"}}}, merge)
            step("DELETE", path + "/told")
    [thread.join() for thread in threads]
    for (name, path, accept), answer in zip(streams, answers):
        row(name, "GET", path, answer, accept)
    for at, (method, path, text, content_type, answer) in enumerate(steps):
        more = {} if text is None else {"request": text, "contentType": content_type}
        row(f"story-{at:03}.json", method, path, answer, JSON, **more)


def main(folder):
    objects()
    ask("state-maps.json", MAPS)
    ask("state-foos.json", FOOS)
    forms()
    refusals()
    story()
    path = os.path.join(folder, "shards.jsonl.gz")
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        for line in ROWS:
            file.write(json.dumps(line, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    codes = {}
    for line in ROWS:
        codes[line["status"]] = codes.get(line["status"], 0) + 1
    print(path, len(ROWS), "rows", os.path.getsize(path), "bytes", codes)


main(sys.argv[1])
