"""Records what a real API server says about odd definitions and their objects.

usage: record.py HOST PORT TOKEN OUT.jsonl     (compress it to testdata/golden/definitions.jsonl.gz; replies 429 are left out)
"""
import http.client, json, ssl, sys, time
HOST, PORT, TOKEN = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CTX = ssl._create_unverified_context()
OUT = open(sys.argv[4], "w")
G = "odd.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"; MERGE = "application/merge-patch+json"
def raw(method, path, body=None, accept=JSON, ctype=None):
    c = http.client.HTTPSConnection(HOST, PORT, context=CTX, timeout=70)
    h = {"Accept": accept, "User-Agent": "golden/1", "Authorization": "Bearer " + TOKEN}
    if ctype: h["Content-Type"] = ctype
    c.request(method, path, body=body, headers=h)
    r = c.getresponse(); data = r.read(); hd = dict(r.getheaders()); w = [v for k, v in r.getheaders() if k.lower() == "warning"]; c.close()
    return r.status, hd, data, w
n = 0; names = set()
def rec(name, method, path, note, body=None, ctype=JSON, accept=JSON):
    global n
    name = "definitions/" + name + ".json"
    assert name not in names, name
    names.add(name)
    b = None if body is None else json.dumps(body).encode() if not isinstance(body, bytes) else body
    st, h, data, w = raw(method, path, b, accept, ctype if b is not None else None)
    row = {"file": name, "method": method, "path": path, "accept": accept, "status": st, "note": note, "body": data.decode(),
        "responseHeaders": {k: v for k, v in h.items() if k.lower() in ("content-type", "retry-after")}}
    if w: row["responseHeaders"]["Warning"] = w
    if b is not None: row["request"] = b.decode(); row["contentType"] = ctype
    OUT.write(json.dumps(row, sort_keys=True) + "\n"); OUT.flush()
    n += 1
    msg = json.loads(data).get("message", "") if data[:1] == b"{" else data.decode()
    print(st, name, msg[:260], w if w else "")
    return st, data
def version(schema, name="v1", **kw):
    v = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    v.update(kw); return v
def crd(plural, kind, schema=None, scope="Namespaced", versions=None, names=None, spec=None, metadata=None, **kw):
    d = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{G}"},
        "spec": {"group": G, "scope": scope, "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": versions if versions is not None else [version(schema, **kw)]}}
    d["spec"].update(spec or {}); d["metadata"].update(metadata or {})
    return d
def obj(kind, name, v="v1", **fields):
    return {"apiVersion": f"{G}/{v}", "kind": kind, "metadata": {"name": name}, **fields}
def ns(plural, v="v1"): return f"/apis/{G}/{v}/namespaces/odd/{plural}"
def define(d, served=True):
    p = d["spec"]["names"]["plural"]
    st, data = rec(f"{p}.define", "POST", CRDS, "definition", d)
    assert st == 201, data
    ready(d)
    return d
def ready(d):
    p = d["spec"]["names"]["plural"]
    for _ in range(100):
        st, _, data, _ = raw("GET", CRDS + "/" + d["metadata"]["name"])
        if any(c["type"] == "Established" and c["status"] == "True" for c in (json.loads(data)["status"].get("conditions") or [])): break
        time.sleep(0.1)
    vs = [v["name"] for v in d["spec"]["versions"] if v["served"]]
    for v in vs:
        for _ in range(100):
            where = f"/apis/{G}/{v}/{p}"
            st, _, _, _ = raw("GET", where)
            if st == 200: break
            time.sleep(0.1)
        assert st == 200, (p, v, st)
def change(label, d, patch, note, wait=True):
    st, data = rec(label, "PATCH", CRDS + "/" + d["metadata"]["name"], note, patch, MERGE)
    time.sleep(1.5)
    return st, data
def post(label, plural, o, note="", v="v1", q=""): return rec(label, "POST", ns(plural, v) + q, note, o)
def patch(label, plural, name, p, note="", sub="", v="v1"): return rec(label, "PATCH", ns(plural, v) + "/" + name + sub, note, p, MERGE)
def S(**kw): return {"type": "object", "properties": kw}
STR, INT, NUM, BOOL = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
def arr(items, **kw): return {"type": "array", "items": items, **kw}
raw("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": "odd"}}).encode(), ctype=JSON)
for it in json.loads(raw("GET", CRDS)[2])["items"]:
    if it["spec"]["group"] == G: raw("DELETE", CRDS + "/" + it["metadata"]["name"])
for _ in range(60):
    if not any(it["spec"]["group"] == G for it in json.loads(raw("GET", CRDS)[2])["items"]): break
    time.sleep(0.5)
time.sleep(3)
spec = lambda s: S(spec=s)
# ---- definitions that are refused
bad = lambda label, d: rec("refused." + label, "POST", CRDS, "a definition that is refused", d)
ok = spec(S(a=STR))
b = lambda s, **kw: crd("bads", "Bad", s, **kw)
bad("no-versions", b(ok, versions=[]))
bad("no-schema", crd("bads", "Bad", versions=[{"name": "v1", "served": True, "storage": True}]))
bad("two-storage", crd("bads", "Bad", versions=[version(ok), version(spec(S(b=STR)), "v2")]))
bad("no-storage", b(ok, storage=False))
bad("twice-the-version", crd("bads", "Bad", versions=[version(ok), version(spec(S(b=STR)), storage=False)]))
bad("version-name", b(ok, name="V1.0"))
bad("plural", crd("Bads", "Bad", ok))
bad("kind", crd("bads", "Bad_Kind", ok))
bad("no-kind", crd("bads", "", ok))
bad("same-list-kind", b(ok, names={"listKind": "Bad"}))
bad("short-name", b(ok, names={"shortNames": ["B"]}))
bad("category", b(ok, names={"categories": ["All!"]}))
bad("scope", b(ok, scope="Everywhere"))
bad("no-scope", b(ok, scope=""))
d = b(ok, spec={"group": "nodot"}); d["metadata"]["name"] = "bads.nodot"; bad("group-without-dot", d)
d = b(ok, spec={"group": ""}); d["metadata"]["name"] = "bads."; bad("no-group", d)
d = b(ok, spec={"group": "odd.k8s.io"}); d["metadata"]["name"] = "bads.odd.k8s.io"; bad("protected-group", d)
bad("name", b(ok, metadata={"name": "other." + G}))
bad("preserve-at-spec", b(ok, spec={"preserveUnknownFields": True}))
bad("deprecation-without", b(ok, deprecationWarning="old"))
bad("root-type", b({"type": "array", "items": STR}))
bad("root-no-type", b({"properties": {"a": STR}}))
bad("root-nullable", b({"type": "object", "nullable": True}))
bad("root-additional", b({"type": "object", "additionalProperties": STR}))
bad("field-no-type", b(spec(S(a={}))))
bad("item-no-type", b(spec(S(a=arr({})))))
bad("array-no-items", b(spec(S(a={"type": "array"}))))
bad("type-unknown", b(spec(S(a={"type": "text"}))))
bad("pattern", b(spec(S(a={"type": "string", "pattern": "a("}))))
bad("metadata-restricted", b(S(metadata=S(labels={"type": "object", "additionalProperties": STR}))))
bad("additional-and-properties", b(spec({"type": "object", "properties": {"a": STR}, "additionalProperties": STR})))
bad("unique-items", b(spec(S(a=arr(STR, uniqueItems=True)))))
bad("ref", b(spec(S(a={"$ref": "#/definitions/x"}))))
bad("definitions", b({"type": "object", "definitions": {"x": STR}}))
bad("pattern-properties", b(spec({"type": "object", "patternProperties": {"x": STR}})))
bad("preserve-false", b(spec({"type": "object", "x-kubernetes-preserve-unknown-fields": False})))
bad("list-type-of-string", b(spec(S(a={"type": "string", "x-kubernetes-list-type": "set"}))))
bad("list-type-unknown", b(spec(S(a=arr(STR, **{"x-kubernetes-list-type": "bag"})))))
bad("map-type-unknown", b(spec({"type": "object", "x-kubernetes-map-type": "bag"})))
bad("list-map-no-keys", b(spec(S(a=arr(S(k=STR), **{"x-kubernetes-list-type": "map"})))))
bad("list-map-key-missing", b(spec(S(a=arr(S(k=STR), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]})))))
bad("list-map-key-optional", b(spec(S(a=arr(S(k=STR), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})))))
bad("list-keys-without-map", b(spec(S(a=arr(S(k=STR), **{"x-kubernetes-list-map-keys": ["k"]})))))
bad("set-of-objects", b(spec(S(a=arr(S(k=STR), **{"x-kubernetes-list-type": "set"})))))
bad("set-nullable", b(spec(S(a=arr({"type": "string", "nullable": True}, **{"x-kubernetes-list-type": "set"})))))
bad("int-or-string-typed", b(spec(S(a={"type": "string", "x-kubernetes-int-or-string": True}))))
rec("refused.int-or-string-typed-gone", "DELETE", CRDS + "/bads." + G, "it was taken")
time.sleep(2)
bad("int-or-string-preserve", b(spec(S(a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}))))
bad("embedded-no-properties", b(spec(S(a={"type": "object", "x-kubernetes-embedded-resource": True}))))
bad("embedded-type", b(spec(S(a={"type": "string", "x-kubernetes-embedded-resource": True}))))
bad("any-of-type", b(spec(S(a={"type": "string", "anyOf": [{"type": "string"}]}))))
bad("all-of-description", b(spec(S(a={"type": "string", "allOf": [{"description": "x", "minLength": 1}]}))))
bad("any-of-unknown-property", b(spec({"type": "object", "properties": {"a": STR}, "anyOf": [{"properties": {"z": {"minLength": 1}}}]})))
bad("one-of-default", b(spec(S(a={"type": "string", "oneOf": [{"default": "x"}]}))))
bad("not-nullable", b(spec(S(a={"type": "string", "not": {"nullable": True}}))))
bad("default-type", b(spec(S(a={"type": "integer", "default": "x"}))))
bad("default-unknown-field", b(S(spec={"type": "object", "properties": {"a": STR}, "default": {"z": 1}})))
bad("default-enum", b(spec(S(a={"type": "string", "enum": ["x"], "default": "y"}))))
bad("default-in-metadata", b(S(metadata=S(name={"type": "string", "default": "x"}))))
bad("default-rule", b(spec(S(a={"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 2"}]}))))
bad("column-type", b(ok, additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".spec.a"}]))
bad("column-format", b(ok, additionalPrinterColumns=[{"name": "A", "type": "string", "format": "nope", "jsonPath": ".spec.a"}]))
bad("column-path", b(ok, additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec.a"}]))
bad("column-no-name", b(ok, additionalPrinterColumns=[{"name": "", "type": "string", "jsonPath": ".spec.a"}]))
bad("scale-path", b(ok, subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.y"}}))
bad("scale-no-path", b(ok, subresources={"scale": {"specReplicasPath": "", "statusReplicasPath": ".spec.y"}}))
bad("scale-selector", b(ok, subresources={"scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.y", "labelSelectorPath": ".metadata.z"}}))
bad("status-root", b({"type": "object", "properties": {"a": STR}, "oneOf": [{"required": ["a"]}]}, subresources={"status": {}}))
bad("selectable-missing", b(ok, selectableFields=[{"jsonPath": ".spec.z"}]))
bad("selectable-type", b(ok, selectableFields=[{"jsonPath": ".spec"}]))
bad("selectable-twice", b(ok, selectableFields=[{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}]))
bad("selectable-metadata", b(S(metadata=S(name=STR)), selectableFields=[{"jsonPath": ".metadata.name"}]))
bad("selectable-array", b(spec(S(a=arr(STR))), selectableFields=[{"jsonPath": ".spec.a[0]"}]))
bad("selectable-many", b(spec(S(**{f"a{i}": STR for i in range(9)})), selectableFields=[{"jsonPath": f".spec.a{i}"} for i in range(9)]))
bad("conversion-strategy", b(ok, spec={"conversion": {"strategy": "Magic"}}))
bad("conversion-no-client", b(ok, spec={"conversion": {"strategy": "Webhook"}}))
bad("conversion-extra", b(ok, spec={"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}}))
rule = lambda r, s=None, **kw: b(spec({**(s or S(a=STR, n=INT, l=arr({"type": "string", "maxLength": 9}, maxItems=9))), "x-kubernetes-validations": [{"rule": r, **kw}]}))
bad("rule-syntax", rule("self.a =="))
bad("rule-empty", rule(" "))
bad("rule-undeclared", rule("nope == 1"))
bad("rule-no-such-field", rule("self.zzz == 'x'"))
bad("rule-types", rule("self.a == 1"))
bad("rule-add-types", rule("self.a + 1 == 'x'"))
bad("rule-not-bool", rule("self.a"))
bad("rule-no-function", rule("self.a.nope()"))
bad("rule-function-argument", rule("self.a.startsWith(1)"))
bad("rule-of-item", rule("self.l.all(x, x > 3)"))
bad("rule-old-self-option", rule("self.a == 'x'", optionalOldSelf=True))
bad("rule-uncorrelated", b(spec(S(l=arr({"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}, maxItems=9)))))
bad("rule-message-newline", rule("self.a == 'x'", message="a\nb"))
bad("rule-message-blank", rule("self.a == 'x'", message=" "))
bad("rule-newline-no-message", rule("self.a\n== 'x'"))
bad("rule-message-expression", rule("self.a == 'x'", messageExpression="1 + 1"))
bad("rule-message-expression-syntax", rule("self.a == 'x'", messageExpression="'a' +"))
bad("rule-reason", rule("self.a == 'x'", reason="Because"))
bad("rule-field-path", rule("self.a == 'x'", fieldPath=".zzz"))
bad("rule-field-path-form", rule("self.a == 'x'", fieldPath="a"))
bad("rule-cost", b(spec(S(l=arr(S(m=arr(STR)))) | {"x-kubernetes-validations": [{"rule": "self.l.all(x, x.m.all(y, self.l.all(z, z.m.all(w, w != y))))"}]})))
bad("rule-in-any-of", b(spec({"type": "object", "properties": {"a": STR}, "anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]})))
bad("rule-optional-syntax", rule("self.?a.orValue(1) == 'x'"))
bad("rule-ternary", rule("self.n > 1 ? 'a' : true"))
bad("rule-struct", rule("Foo{a: 1}.a == 1"))
bad("rule-metadata", b({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.labels.size() > 0"}]}))
# ---- scalar types
types = define(crd("typs", "Typ", spec(S(s=STR, i=INT, n=NUM, b=BOOL, o=S(x=STR), l=arr(STR), ios={"x-kubernetes-int-or-string": True},
    ns={"type": "string", "nullable": True}, any={"x-kubernetes-preserve-unknown-fields": True},
    keep={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": S(k=STR)}},
    m={"type": "object", "additionalProperties": INT}, i32={"type": "integer", "format": "int32"}, f={"type": "number", "format": "float"}))))
k = 0
def t(field, value, note=""):
    global k; k += 1
    post(f"typs.{field}-{k}", "typs", obj("Typ", f"t{k}", spec={field: value}), note)
for f, v in [("s", "x"), ("s", 1), ("s", None), ("s", True), ("s", {}), ("i", 1), ("i", "1"), ("i", 1.0), ("i", 1.5), ("i", None), ("n", 1), ("n", 1.5), ("n", "1.5"),
    ("b", True), ("b", "true"), ("b", 0), ("o", {"x": "y", "z": 1}), ("o", []), ("o", "x"), ("o", None), ("l", ["a"]), ("l", ["a", 1]), ("l", {}), ("l", [None]), ("ios", 1), ("ios", "10%"), ("ios", 1.5), ("ios", True), ("ios", None),
    ("ns", None), ("ns", 1), ("any", {"x": [1, None]}), ("any", None), ("keep", {"known": {"k": "v", "z": 1}, "other": {"y": None}}), ("keep", 1), ("m", {"a": 1}), ("m", {"a": "1"}), ("m", {"a": None}), ("zzz", 1),
    ("i32", 2147483647), ("i32", 2147483648), ("f", 1.5), ("f", 1e300), ("i", 9223372036854775807)]: t(f, v)
post("typs.spec-null", "typs", obj("Typ", "nul", spec=None))
post("typs.spec-text", "typs", obj("Typ", "txt", spec="x"))
post("typs.strict", "typs", obj("Typ", "strict", spec={"zzz": 1, "o": {"yyy": 2}}), q="?fieldValidation=Strict")
post("typs.warn", "typs", obj("Typ", "warned", spec={"zzz": 1, "o": {"yyy": 2}}), q="?fieldValidation=Warn")
post("typs.unknown-root", "typs", obj("Typ", "root", other=1))
post("typs.wrong-kind", "typs", obj("Other", "k"))
post("typs.wrong-version", "typs", obj("Typ", "v", v="v9"))
post("typs.no-kind", "typs", {"apiVersion": G + "/v1", "metadata": {"name": "x"}})
post("typs.labels", "typs", {**obj("Typ", "lab"), "metadata": {"name": "lab", "labels": {"a": 1}}})
post("typs.finalizer", "typs", {**obj("Typ", "fin"), "metadata": {"name": "fin", "finalizers": ["plain"]}})
post("typs.finalizer-dot", "typs", {**obj("Typ", "fin2"), "metadata": {"name": "fin2", "finalizers": ["a.b"]}})
for n_ in ("fin", "fin2"): patch(f"typs.unheld-{n_}", "typs", n_, {"metadata": {"finalizers": None}})
rec("typs.get-cluster", "GET", f"/apis/{G}/v1/typs/t1", "a namespaced object without its namespace")
rec("typs.status", "GET", ns("typs") + "/t1/status", "no status subresource")
rec("typs.smp", "PATCH", ns("typs") + "/t1", "strategic merge is not for custom resources", {"spec": {}}, "application/strategic-merge-patch+json")
# ---- numbers, strings, lists, maps
nums = define(crd("nums", "Num", spec(S(min={"type": "integer", "minimum": 2}, max={"type": "integer", "maximum": 8}, xmin={"type": "integer", "minimum": 2, "exclusiveMinimum": True},
    xmax={"type": "number", "maximum": 8.5, "exclusiveMaximum": True}, mul={"type": "integer", "multipleOf": 3}, mulf={"type": "number", "multipleOf": 0.5}, en={"type": "integer", "enum": [1, 2]}, enb={"type": "boolean", "enum": [True]}))))
k = 0
def u(field, value):
    global k; k += 1
    post(f"nums.{field}-{k}", "nums", obj("Num", f"n{k}", spec={field: value}))
for f, v in [("min", 2), ("min", 1), ("max", 8), ("max", 9), ("xmin", 2), ("xmin", 3), ("xmax", 8.5), ("xmax", 8), ("mul", 9), ("mul", 10), ("mulf", 1.5), ("mulf", 1.3), ("en", 2), ("en", 3), ("en", 1.0), ("enb", False)]: u(f, v)
fm = lambda f: {"type": "string", "format": f}
FORMATS = {"dt": "date-time", "d": "date", "uuid": "uuid", "mail": "email", "v4": "ipv4", "v6": "ipv6", "cidr": "cidr", "uri": "uri", "by": "byte", "dur": "duration", "host": "hostname", "mac": "mac", "unk": "nope", "pw": "password", "color": "hexcolor", "short": "k8s-short-name", "long": "k8s-long-name", "isbn": "isbn", "ssn": "ssn", "cc": "creditcard", "bson": "bsonobjectid", "rgb": "rgbcolor"}
define(crd("strs", "Str", spec(S(min={"type": "string", "minLength": 2}, max={"type": "string", "maxLength": 3}, pat={"type": "string", "pattern": "^a+$"}, en={"type": "string", "enum": ["x", "y"]}, **{k_: fm(v_) for k_, v_ in FORMATS.items()}))))
k = 0
def s(field, value):
    global k; k += 1
    post(f"strs.{field}-{k}", "strs", obj("Str", f"s{k}", spec={field: value}))
for f, v in [("min", "ab"), ("min", "é"), ("max", "éééé"), ("max", "ééé"), ("pat", "aa"), ("pat", "ab"), ("en", "x"), ("en", "z"), ("en", ""),
    ("dt", "2020-01-02T03:04:05Z"), ("dt", "2020-01-02T03:04:05.123+02:00"), ("dt", "2020-01-02"), ("dt", "yesterday"), ("d", "2020-02-29"), ("d", "2021-02-29"), ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"), ("uuid", "x"),
    ("mail", "a@b.c"), ("mail", "a"), ("v4", "1.2.3.4"), ("v4", "1.2.3"), ("v4", "::1"), ("v6", "::1"), ("v6", "1.2.3.4"), ("cidr", "10.0.0.0/8"), ("cidr", "10.0.0.0"), ("uri", "http://a/b"), ("uri", "nope"), ("uri", "/path"), ("by", "YQ=="), ("by", "***"),
    ("dur", "1h30m"), ("dur", "22 ns"), ("dur", "soon"), ("host", "a.b.c"), ("host", "a_b"), ("mac", "00:11:22:33:44:55"), ("mac", "zz"), ("unk", "anything"), ("pw", "x"), ("color", "#fff"), ("color", "red"), ("short", "abc"), ("short", "A.b"), ("long", "a.b"), ("long", "A"),
    ("isbn", "0321751043"), ("isbn", "1"), ("ssn", "111-11-1111"), ("ssn", "1"), ("cc", "4111-1111-1111-1111"), ("cc", "1"), ("bson", "507f1f77bcf86cd799439011"), ("bson", "x"), ("rgb", "rgb(1,2,3)"), ("rgb", "x")]: s(f, v)
KV = {"type": "object", "required": ["k"], "properties": {"k": STR, "v": INT}}
K2 = {"type": "object", "required": ["a"], "properties": {"a": STR, "b": {"type": "integer", "default": 1}, "c": STR}}
define(crd("lists", "Lis", spec(S(min=arr(STR, minItems=2), max=arr(STR, maxItems=2), set=arr(STR, **{"x-kubernetes-list-type": "set"}), map=arr(KV, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
    two=arr(K2, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}), deep=arr(arr(INT, **{"x-kubernetes-list-type": "set"})), mp={"type": "object", "additionalProperties": INT, "minProperties": 1, "maxProperties": 2}))))
k = 0
def l(field, value):
    global k; k += 1
    post(f"lists.{field}-{k}", "lists", obj("Lis", f"l{k}", spec={field: value}))
for f, v in [("min", ["a"]), ("min", ["a", "b"]), ("max", ["a", "b", "c"]), ("set", ["a", "b", "a"]), ("set", ["a", "a", "a"]), ("set", ["a", "b"]), ("map", [{"k": "a"}, {"k": "b"}, {"k": "a", "v": 2}]), ("map", [{"v": 1}]), ("map", [{"k": "a"}, {"k": "b"}]),
    ("two", [{"a": "x"}, {"a": "x", "b": 1}]), ("two", [{"a": "x"}, {"a": "x", "b": 2}]), ("deep", [[1, 2], [3, 3]]), ("mp", {}), ("mp", {"a": 1, "b": 2, "c": 3}), ("mp", {"a": 1})]: l(f, v)
# ---- combinations
define(crd("logics", "Logic", spec({"type": "object", "properties": {"a": STR, "b": STR, "n": INT, "x": {"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^z"}]}, "y": {"type": "integer", "allOf": [{"minimum": 2}, {"multipleOf": 2}]},
    "z": {"type": "string", "not": {"enum": ["no"]}}, "ios": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})))
k = 0
for v in [{"a": "1"}, {}, {"a": "1", "b": "2"}, {"a": "1", "x": "ab"}, {"a": "1", "x": "zz"}, {"a": "1", "x": "abc"}, {"a": "1", "y": 1}, {"a": "1", "y": 3}, {"a": "1", "y": 4}, {"a": "1", "z": "no"}, {"a": "1", "z": "yes"}, {"a": "1", "ios": 1}, {"a": "1", "ios": True}]:
    k += 1; post(f"logics.{k}", "logics", obj("Logic", f"g{k}", spec=v))
# ---- embedded resources
define(crd("embeds", "Embed", spec(S(e={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}, p={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": S(a=STR)}}))))
k = 0
for f, v in [("e", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"any": 1}}), ("e", {"kind": "Pod"}), ("e", {"apiVersion": "v1"}), ("e", {"apiVersion": "a/b/c", "kind": "Pod"}), ("e", {"apiVersion": "v1", "kind": "Po_d"}), ("e", {"apiVersion": "v1", "kind": 1}),
    ("e", {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}}), ("e", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}), ("p", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nope": 1}, "spec": {"a": "b", "z": 1}, "other": 1}), ("e", {"apiVersion": "", "kind": ""}), ("e", {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}})]:
    k += 1; post(f"embeds.{k}", "embeds", obj("Embed", f"e{k}", spec={f: v}))
# ---- defaults
dfl = define(crd("defls", "Defl", S(spec={"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "A"}, "n": {"type": "string", "nullable": True, "default": "N"}, "o": {"type": "object", "default": {"x": "given"}, "properties": {"x": STR, "y": {"type": "integer", "default": 7}}},
    "l": arr(S(p={"type": "integer", "default": 80}, q=STR)), "m": {"type": "object", "additionalProperties": S(z={"type": "boolean", "default": True})}}})))
k = 0
for v in [{}, {"a": None}, {"n": None}, {"o": {}}, {"o": None}, {"l": [{}, {"p": None}, {"p": 1}]}, {"m": {"x": {}, "y": {"z": False}}}, {"a": "", "n": ""}]:
    k += 1; post(f"defls.{k}", "defls", obj("Defl", f"d{k}", spec=v))
post("defls.no-spec", "defls", obj("Defl", "d0"))
post("defls.dry", "defls", obj("Defl", "dry"), q="?dryRun=All")
patch("defls.remove", "defls", "d1", {"spec": {"a": None}}, "a default comes back")
v2 = json.loads(json.dumps(dfl["spec"]["versions"])); v2[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"] = {"type": "string", "default": "read"}
change("defls.grow", dfl, {"spec": {"versions": v2}}, "a default that stored objects do not have")
rec("defls.read", "GET", ns("defls") + "/d2", "defaults are set when read")
rec("defls.list", "GET", ns("defls") + "?fieldSelector=metadata.name%3Dd3", "and in lists")
patch("defls.unchanged", "defls", "d4", {"metadata": {"labels": {"a": "b"}}}, "generation of a change of labels under a new default")
# ---- rules
V = "x-kubernetes-validations"
R = lambda *rules: {V: [r if isinstance(r, dict) else {"rule": r} for r in rules]}
B = {"type": "string", "maxLength": 64}
rules = define(crd("ruls", "Rul", spec({**S(a=B, b=B, n=INT, m=INT, f=NUM, l=arr(B, maxItems=10), o={**S(x=INT, y=INT), **R({"rule": "self.x <= self.y", "message": "x before y", "reason": "FieldValueForbidden"})},
    kv={"type": "object", "maxProperties": 10, "additionalProperties": {**INT, **R("self < 100")}}, items=arr({**S(name=B, port=INT), **R({"rule": "self.port > 0", "messageExpression": "'port of ' + self.name"})}, maxItems=10),
    once={**B, **R({"rule": "self == oldSelf", "message": "once is for ever"})}, opt={**INT, **R({"rule": "!oldSelf.hasValue() || oldSelf.value() <= self", "optionalOldSelf": True, "message": "only up"})},
    keyed=arr({**S(k=B, v={**INT, **R({"rule": "self >= oldSelf", "message": "v only grows"})}), "required": ["k"]}, maxItems=10, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
    d={"type": "string", "format": "duration", **R("self < duration('1h')")}, t={"type": "string", "format": "date-time", **R("self > timestamp('2020-01-01T00:00:00Z')")}, q={**B, **R("isQuantity(self) && quantity(self).isLessThan(quantity('1Gi'))")},
    u={**B, **R("isURL(self) && url(self).getScheme() == 'https'")}, ip={**B, **R("isIP(self) && ip(self).family() == 4")}, ios={"x-kubernetes-int-or-string": True, **R("type(self) == int ? self < 10 : self.endsWith('%')")},
    s={**B, **R("self.split(',').all(p, p.trim().matches('^[a-z]+$'))")}, dash={**S(**{"a-b": B, "self": B, "in": B}), **R("self.a__dash__b != 'no'", "!has(self.__in__) || self.__in__ == 'yes'")},
    nul={"type": "string", "nullable": True, "maxLength": 9, **R("self != 'no'")}, idx={**arr(INT, maxItems=9), **R("self[1] == 2")}, div={**INT, **R("10 / self > 1")}, **{"enum": {**B, "enum": ["x", "y"]}}),
    **R({"rule": "!has(self.a) || !has(self.b) || self.a != self.b", "message": "a and b differ"}, {"rule": "!has(self.n) || self.n <= self.m", "fieldPath": ".n", "message": "n at most m"},
      {"rule": "!has(self.l) || self.l.all(x, x.startsWith('l')) && !self.l.exists_one(x, x == 'lone')", "reason": "FieldValueRequired", "fieldPath": ".l"}, {"rule": "!has(self.f) || self.f > 0.5 && self.f < 2.0", "reason": "FieldValueDuplicate"},
      {"rule": "!has(self.kv) || self.kv.all(key, key != 'no' && self.kv[key] != 13)", "messageExpression": "self.kv.size() > 1 ? 'many keys' : 'a key'"})})))
k = 0
def r(**v):
    global k; k += 1
    post(f"ruls.{k}", "ruls", obj("Rul", f"r{k}", spec=v))
r(); r(a="x", b="x"); r(a="x", b="y"); r(n=3, m=2); r(n=1); r(n=1, m=1); r(l=["la", "lb"]); r(l=["x"]); r(l=["lone"]); r(f=0.1); r(f=1); r(f=1.5)
r(kv={"a": 1}); r(kv={"no": 1}); r(kv={"a": 13}); r(kv={"a": 100}); r(o={"x": 2, "y": 1}); r(o={"x": 1, "y": 2}); r(items=[{"name": "p", "port": 0}]); r(items=[{"name": "p", "port": 1}, {"name": "q", "port": -1}]); r(items=[{"port": 0}])
r(once="x"); r(opt=3); r(keyed=[{"k": "a", "v": 1}]); r(d="30m"); r(d="2h"); r(t="2021-01-01T00:00:00Z"); r(t="2019-01-01T00:00:00Z"); r(q="500Mi"); r(q="2Gi"); r(q="x"); r(u="https://x/"); r(u="http://x/"); r(u="::"); r(ip="1.2.3.4"); r(ip="::1"); r(ip="x")
r(ios=3); r(ios=11); r(ios="5%"); r(ios="5"); r(s="ab, cd"); r(s="ab,C"); r(dash={"a-b": "no"}); r(dash={"a-b": "x", "in": "no"}); r(dash={"a-b": "x"}); r(nul=None); r(nul="no"); r(idx=[1, 2]); r(idx=[1]); r(idx=[1, 3]); r(div=5); r(div=0); r(enum="z", a="x", b="x"); r(a=1, b="x")
r(dash={"in": "yes"}); r(items=[{"name": "p"}])
def rp(label, name, v, sub=""): patch("ruls." + label, "ruls", name, v, sub=sub)
rp("once-changed", "r22", {"spec": {"once": "y"}}); rp("once-kept", "r22", {"spec": {"once": "x", "a": "z"}}); rp("once-removed", "r22", {"spec": {"once": None}}); rp("once-again", "r22", {"spec": {"once": "new"}})
rp("opt-up", "r23", {"spec": {"opt": 4}}); rp("opt-down", "r23", {"spec": {"opt": 2}}); rp("keyed-down", "r24", {"spec": {"keyed": [{"k": "a", "v": 0}]}}); rp("keyed-moved", "r24", {"spec": {"keyed": [{"k": "b", "v": 0}, {"k": "a", "v": 2}]}}); rp("keyed-new", "r24", {"spec": {"keyed": [{"k": "c", "v": -5}]}})
# ---- ratcheting
A = lambda **kw: spec({**S(a={"type": "string", **kw.get("a", {})}, b=STR, n={"type": "integer", **kw.get("n", {})}, l=arr({"type": "string", **kw.get("i", {})}), m=arr({**S(k=STR, v={"type": "integer", **kw.get("v", {})}), "required": ["k"]}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}), o={**S(x=INT, y=INT), **kw.get("o", {})}), **kw.get("s", {})})
rat = define(crd("rats", "Rat", A()))
for n_, v in [("r1", {"a": "bad", "b": "1", "n": 50, "l": ["one", "two"], "m": [{"k": "a", "v": 50}, {"k": "b", "v": 60}], "o": {"x": 5, "y": 1}}), ("r2", {"a": "bad"})]: post(f"rats.{n_}", "rats", obj("Rat", n_, spec=v))
tight = A(a={"enum": ["good"]}, n={"maximum": 10}, i={"maxLength": 2}, v={"maximum": 10}, o=R({"rule": "self.x < self.y", "message": "x below y"}), s={"required": ["z"], "properties": {**A()["properties"]["spec"]["properties"]}})
tight = A(a={"enum": ["good"]}, n={"maximum": 10}, i={"maxLength": 2}, v={"maximum": 10}, o=R({"rule": "self.x < self.y", "message": "x below y"}))
change("rats.tighten", rat, {"spec": {"versions": [version(tight)]}}, "the schema becomes stricter than what is stored")
patch("rats.label", "rats", "r1", {"metadata": {"labels": {"a": "b"}}}, "metadata of an object that is invalid now")
patch("rats.other", "rats", "r1", {"spec": {"b": "2"}}, "another field of it")
patch("rats.changed-enum", "rats", "r1", {"spec": {"a": "worse"}}); patch("rats.changed-number", "rats", "r1", {"spec": {"n": 51}}); patch("rats.list-longer", "rats", "r1", {"spec": {"l": ["one", "two", "x"]}}); patch("rats.list-same", "rats", "r1", {"spec": {"l": ["one", "two"], "b": "3"}})
patch("rats.map-one", "rats", "r1", {"spec": {"m": [{"k": "a", "v": 50}, {"k": "b", "v": 61}]}}); patch("rats.map-added", "rats", "r1", {"spec": {"m": [{"k": "b", "v": 60}, {"k": "c", "v": 1}, {"k": "a", "v": 50}]}}); patch("rats.rule-changed", "rats", "r1", {"spec": {"o": {"x": 6}}}); patch("rats.rule-healed", "rats", "r1", {"spec": {"o": {"y": 9}}})
patch("rats.healed", "rats", "r1", {"spec": {"a": "good"}}); patch("rats.relapse", "rats", "r1", {"spec": {"a": "bad"}})
post("rats.create", "rats", obj("Rat", "r3", spec={"a": "bad"}))
# ---- several versions
multi = define(crd("muls", "Mul", versions=[version(spec(S(a=STR, b=STR)), "v1"), version(spec(S(a=STR, c={"type": "string", "default": "C"})), "v2", storage=False), version(spec(S(a=STR)), "v1alpha1", storage=False, served=False)]))
post("muls.v1", "muls", obj("Mul", "one", spec={"a": "1", "b": "2"})); post("muls.v2", "muls", obj("Mul", "two", v="v2", spec={"a": "1", "b": "pruned"}), v="v2")
rec("muls.one-as-v2", "GET", ns("muls", "v2") + "/one", "an object in another version"); rec("muls.two-as-v1", "GET", ns("muls") + "/two", "and back")
rec("muls.list-v2", "GET", ns("muls", "v2"), "all objects in one version"); rec("muls.unserved", "GET", ns("muls", "v1alpha1"), "a version that is not served")
patch("muls.patch-v2", "muls", "one", {"spec": {"c": "x"}}, v="v2"); rec("muls.after", "GET", ns("muls") + "/one", "what another version wrote")
rec("muls.discovery", "GET", f"/apis/{G}", "its group"); rec("muls.v2-body-v1", "PUT", ns("muls", "v2") + "/one", "a body of another version", obj("Mul", "one"))
change("muls.storage", multi, {"spec": {"versions": [version(spec(S(a=STR, b=STR)), "v1", storage=False, deprecated=True), version(spec(S(a=STR, c={"type": "string", "default": "C"})), "v2"), version(spec(S(a=STR)), "v1alpha1", storage=False, served=False)]}}, "another version is stored, one is deprecated")
rec("muls.deprecated", "GET", ns("muls") + "/one", "a deprecated version")
change("muls.drop-stored", multi, {"spec": {"versions": [version(spec(S(a=STR, c={"type": "string", "default": "C"})), "v2")]}}, "a stored version cannot go")
rec("muls.status", "PATCH", CRDS + "/muls." + G + "/status", "until nothing is stored in it", {"status": {"storedVersions": ["v2"]}}, MERGE)
change("muls.drop", multi, {"spec": {"versions": [version(spec(S(a=STR, c={"type": "string", "default": "C"})), "v2", deprecated=True, deprecationWarning="go away")]}}, "then it can")
rec("muls.gone-version", "GET", ns("muls"), "a version that went"); rec("muls.warning", "GET", ns("muls", "v2"), "a deprecation in words of its own")
change("muls.scope", multi, {"spec": {"scope": "Cluster"}}, "the scope is for ever"); change("muls.kind", multi, {"spec": {"names": {"kind": "Other"}}}, "the kind, too"); change("muls.plural", multi, {"spec": {"names": {"plural": "others"}}}, "and the plural"); change("muls.short", multi, {"spec": {"names": {"shortNames": ["ml"], "categories": ["all"]}}}, "short names are not")
rec("muls.short-seen", "GET", CRDS + "/muls." + G, "accepted names after the change")
# ---- subresources
sca = define(crd("scas", "Sca", S(spec=S(replicas=INT, other=STR), status=S(replicas=INT, sel=STR, note=STR)), subresources={"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.sel"}}))
post("scas.create", "scas", obj("Sca", "s1", spec={"replicas": 2}, status={"replicas": 9})); post("scas.negative", "scas", obj("Sca", "s2", spec={"replicas": -1})); post("scas.huge", "scas", obj("Sca", "s3", spec={"replicas": 2147483648})); post("scas.empty", "scas", obj("Sca", "s4"))
rec("scas.scale", "GET", ns("scas") + "/s1/scale", "scale"); rec("scas.scale-empty", "GET", ns("scas") + "/s4/scale", "without replicas")
SC = lambda n_, r_, **m: {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": n_, "namespace": "odd", **m}, "spec": {"replicas": r_}}
rec("scas.scale-put", "PUT", ns("scas") + "/s1/scale", "scaled", SC("s1", 5)); rec("scas.scale-same", "PUT", ns("scas") + "/s1/scale", "scaled to the same", SC("s1", 5)); rec("scas.scale-negative", "PUT", ns("scas") + "/s1/scale", "not below zero", SC("s1", -1)); rec("scas.scale-name", "PUT", ns("scas") + "/s1/scale", "another name", SC("zz", 1)); rec("scas.scale-missing", "GET", ns("scas") + "/zz/scale", "of nothing")
patch("scas.status", "scas", "s1", {"status": {"replicas": 3, "sel": "a=b"}, "spec": {"other": "ignored"}, "metadata": {"labels": {"x": "ignored"}}}, sub="/status"); patch("scas.main-status", "scas", "s1", {"status": {"replicas": 4}}, "the status is not written here"); patch("scas.status-invalid", "scas", "s1", {"status": {"replicas": "x"}}, sub="/status"); patch("scas.status-negative", "scas", "s1", {"status": {"replicas": -3}}, sub="/status"); patch("scas.status-unknown", "scas", "s1", {"status": {"zzz": 1}}, sub="/status"); patch("scas.label", "scas", "s1", {"metadata": {"labels": {"l": "m"}}}); patch("scas.spec", "scas", "s1", {"spec": {"other": "x"}}); rec("scas.scale-after", "GET", ns("scas") + "/s1/scale", "with a selector"); patch("scas.scale-patch", "scas", "s1", {"spec": {"replicas": 7}}, sub="/scale"); rec("scas.last", "GET", ns("scas") + "/s1", "at the end")
# ---- selectable fields, cluster scope
define(crd("sels", "Sel", spec(S(color=STR, size=INT, on=BOOL, o=S(x=STR))), scope="Cluster", selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}, {"jsonPath": ".spec.o.x"}], additionalPrinterColumns=[{"name": "Color", "type": "string", "jsonPath": ".spec.color"}, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]))
C = f"/apis/{G}/v1/sels"
for n_, v in [("red", {"color": "red", "size": 1, "on": True, "o": {"x": "y"}}), ("blue", {"color": "blue", "size": 2, "on": False}), ("none", {})]: rec(f"sels.{n_}", "POST", C, "", obj("Sel", n_, spec=v))
for l_, q in [("color", "spec.color=red"), ("not", "spec.color!=red"), ("size", "spec.size=2"), ("on", "spec.on=true"), ("deep", "spec.o.x=y"), ("empty", "spec.color="), ("unknown", "spec.z=1"), ("both", "spec.color=red,spec.size=1"), ("name", "metadata.name=red")]: rec(f"sels.by-{l_}", "GET", C + "?fieldSelector=" + q.replace("=", "%3D").replace("!", "%21").replace(",", "%2C"), "selected")
rec("sels.namespaced", "GET", f"/apis/{G}/v1/namespaces/odd/sels", "a cluster's resource in a namespace")
# ---- names that are taken
rec("takens.define", "POST", CRDS, "a kind that is taken", crd("takens", "Sel", ok, names={"listKind": "TakenList", "singular": "taken"})); rec("shorts.define", "POST", CRDS, "a short name that is taken", crd("shorts", "Short", ok, names={"shortNames": ["sel", "ok"]})); rec("singles.define", "POST", CRDS, "a singular that is taken", crd("singles", "Single", ok, names={"singular": "sels"})); rec("klists.define", "POST", CRDS, "a list kind that is taken", crd("klists", "Klist", ok, names={"listKind": "SelList"}))
time.sleep(2)
for p in ("takens", "shorts", "singles", "klists"): rec(f"{p}.conditions", "GET", CRDS + f"/{p}.{G}", "what is said about it"); rec(f"{p}.list", "GET", f"/apis/{G}/v1/{p}", "it is not served")
rec("takens.delete", "DELETE", CRDS + f"/takens.{G}", "gone")
# ---- a definition that is deleted while an object is held
hel = define(crd("hels", "Hel", ok))
post("hels.create", "hels", {**obj("Hel", "h1"), "metadata": {"name": "h1", "finalizers": ["example.com/hold"]}}); post("hels.free", "hels", obj("Hel", "h2"))
rec("hels.delete", "DELETE", CRDS + f"/hels.{G}", "the definition is deleted"); time.sleep(4)
rec("hels.terminating", "GET", CRDS + f"/hels.{G}", "it waits"); post("hels.late", "hels", obj("Hel", "h3"), "nothing new while it goes"); rec("hels.listed", "GET", ns("hels"), "what is held is still there"); rec("hels.again", "DELETE", CRDS + f"/hels.{G}", "deleted twice")
patch("hels.release", "hels", "h1", {"metadata": {"finalizers": None}}); time.sleep(8)
rec("hels.gone", "GET", CRDS + f"/hels.{G}", "it is gone"); rec("hels.not-served", "GET", ns("hels"), "and not served")
# ---- definitions that warn
rec("warns.define", "POST", CRDS, "a format that nobody knows", crd("warns", "Warn", spec(S(a={"type": "string", "format": "nope"}, s=arr(arr(STR), **{"x-kubernetes-list-type": "set"})))))
rec("webhooks.define", "POST", CRDS, "conversion by a webhook", crd("webhooks", "Webhook", ok, spec={"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/x"}, "conversionReviewVersions": ["v1"]}}}))
for it in json.loads(raw("GET", CRDS)[2])["items"]:
    if it["spec"]["group"] == G: raw("DELETE", CRDS + "/" + it["metadata"]["name"])
raw("DELETE", "/api/v1/namespaces/odd")
print(n)
