#!/usr/bin/env python3
"""Measures lists of many pods: of `kinform serve`, and of a real API server that holds the same pods.

usage: measure.py KINFORM PODS        (KINFORM: the program, a release build)

Both are asked the same over TLS with a token: all pods in JSON and in protobuf, twice each, and pages of 500. The pods are the embedded
server's; they are written into the real one's etcd, status and all, so that both hold the same. Prints a table, and lines that
begin with "RESULT |" for `cargo xtask e2e serve`. Without Go or openssl the real server is skipped, and that is said.
"""
import base64, http.client, json, os, re, shutil, socket, ssl, subprocess, sys, tempfile, time, urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.join(HERE, "..", "oracle")
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
PAGE, PUTS = 500, 100


class Server:
    """A running server: where it is, and the process that is measured."""

    def __init__(self, name, host, port, token, pid):
        self.name, self.host, self.port, self.token, self.pid = name, host, port, token, pid

    def connect(self):
        return http.client.HTTPSConnection(self.host, self.port, context=ssl._create_unverified_context(), timeout=600)

    def headers(self, accept):
        return {"Authorization": "Bearer " + self.token, "Accept": accept, "User-Agent": "measure/1"}

    def cpu(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, of):
        return int(re.search(of + r":\s+(\d+)", open(f"/proc/{self.pid}/status").read()).group(1)) << 10

    def listed(self, accept):
        """Seconds, CPU seconds of the server, and bytes of one list of all, read by curl."""
        before = self.cpu()
        command = ["curl", "-sSk", "-o", "/dev/null", "-w", "%{http_code} %{time_total} %{size_download}", f"https://{self.host}:{self.port}/api/v1/pods"]
        for name, value in self.headers(accept).items():
            command += ["-H", f"{name}: {value}"]
        code, seconds, size = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert code == "200", code
        return float(seconds), self.cpu() - before, int(size)

    def paged(self, accept):
        """The same for pages, over one connection."""
        connection, token, size, began, before = self.connect(), "", 0, time.monotonic(), self.cpu()
        while True:
            path = f"/api/v1/pods?limit={PAGE}" + (f"&continue={urllib.parse.quote(token)}" if token else "")
            connection.request("GET", path, headers=self.headers(accept))
            body = connection.getresponse().read()
            size += len(body)
            token = continuation(body, accept)
            if not token:
                return time.monotonic() - began, self.cpu() - before, size


def continuation(body, accept):
    if accept == JSON:
        found = re.search(rb'"continue":"([^"]*)"', body[:1000])
    else:
        # Tokens are JSON in base64, and stand in the list's metadata.
        found = re.search(rb"(eyJ[A-Za-z0-9_=-]+)", body[:1000])
    return found.group(1).decode() if found else ""


def kubeconfig(path):
    text = open(path).read()
    url = urllib.parse.urlparse(re.search(r'server:\s*"?(https?://[^"\s,}]+)', text).group(1))
    return url.hostname, url.port, re.search(r'token:\s*"?([^"\s,}]+)', text).group(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ready(server):
    while True:
        try:
            connection = server.connect()
            connection.request("GET", "/readyz", headers=server.headers(JSON))
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.002)


def start_ours(program, pods, home):
    """The server, and the seconds until it answers and until everything is loaded."""
    path, port = os.path.join(home, "kubeconfig"), free_port()
    began = time.monotonic()
    process = subprocess.Popen([program, "serve", "--listen", f"127.0.0.1:{port}", "--pods", str(pods), "--write-kubeconfig", path], stderr=subprocess.DEVNULL)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.001)
    answered = time.monotonic() - began
    while not os.path.exists(path):
        time.sleep(0.002)
    loaded = time.monotonic() - began
    return process, Server("embedded", *kubeconfig(path), process.pid), answered, loaded


def start_real(home):
    ports = {"KAS_PORT": str(free_port()), "ETCD_PORT": str(free_port())}
    subprocess.run(["bash", os.path.join(ORACLE, "up"), home], check=True, env=dict(os.environ, **ports), stdout=subprocess.DEVNULL)
    pid = int(open(os.path.join(home, "apiserver.pid")).read())
    return Server("real", *kubeconfig(os.path.join(home, "kubeconfig")), pid), int(ports["ETCD_PORT"])


def fill(real, etcd, pods):
    """Writes pods as they are into the real server's etcd, and waits until its cache has them."""
    gateway, puts = http.client.HTTPConnection("127.0.0.1", etcd, timeout=600), []
    encoded = lambda text: base64.b64encode(text.encode()).decode()
    for at, pod in enumerate(pods):
        metadata = {name: value for name, value in pod["metadata"].items() if name != "resourceVersion"}
        stored = json.dumps(dict(pod, apiVersion="v1", kind="Pod", metadata=metadata))
        puts.append({"requestPut": {"key": encoded(f"/registry/pods/{metadata['namespace']}/{metadata['name']}"), "value": encoded(stored)}})
        if len(puts) == PUTS or at + 1 == len(pods):
            gateway.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))
            reply = gateway.getresponse()
            body = reply.read()
            assert reply.status == 200, body
            puts = []
    connection = real.connect()
    while True:
        connection.request("GET", "/api/v1/pods?limit=1", headers=real.headers(JSON))
        meta = json.loads(connection.getresponse().read())["metadata"]
        if meta.get("remainingItemCount", 0) + 1 >= len(pods):
            return
        time.sleep(0.2)


def all_pods(server):
    connection = server.connect()
    connection.request("GET", "/api/v1/pods", headers=server.headers(JSON))
    return json.loads(connection.getresponse().read())["items"]


def measure(server, pods):
    rows = {}
    for word, accept in (("JSON", JSON), ("protobuf", PROTOBUF)):
        for time_word in ("first", "second"):
            rows[f"{word}, {time_word}"] = server.listed(accept)
        rows[f"{word}, pages of {PAGE}"] = server.paged(accept)
    for what, (seconds, cpu, size) in rows.items():
        print(f"{server.name:9} {what:22} {seconds:8.3f} s {cpu:8.2f} CPU s {size:12} bytes {size / pods:7.0f} a pod")
    peak, now = server.memory("VmHWM") >> 20, server.memory("VmRSS") >> 20
    print(f"{server.name:9} memory: {now} MiB, at most {peak} MiB")
    lists = ", ".join(f"{what} {rows[what][0]:.2f} s" for what in ("JSON, first", "JSON, second", "protobuf, first", "protobuf, second"))
    print(f"RESULT | serve: {pods} pods | {server.name} | {lists}; at most {peak} MiB |")
    return rows


def main(program, pods):
    home = tempfile.mkdtemp()
    process, _, answered, loaded = start_ours(program, 0, home)
    process.terminate()
    process.wait()
    os.remove(os.path.join(home, "kubeconfig"))
    print(f"RESULT | serve: start, empty | embedded | listens after {answered * 1000:.0f} ms, ready after {loaded * 1000:.0f} ms |")
    process, ours, answered, loaded = start_ours(program, pods, home)
    real = None
    try:
        print(f"embedded  listens after {answered * 1000:.0f} ms, has {pods} pods after {loaded:.2f} s")
        print(f"RESULT | serve: start | embedded | listens after {answered * 1000:.0f} ms, {pods} pods after {loaded:.2f} s |")
        # Measured before anything else asks for them.
        measured = measure(ours, pods)
        if not all(shutil.which(tool) for tool in ("go", "openssl")):
            print("SKIPPED: a real API server: Go and openssl are needed to build and start one")
            print(f"RESULT | serve: {pods} pods | real | skipped: no Go, openssl |")
            return
        real, etcd = start_real(os.path.join(home, "real"))
        fill(real, etcd, all_pods(ours))
        theirs = measure(real, pods)
        slower = [what for what in measured if measured[what][0] > theirs[what][0]]
        print("slower than the real server: " + (", ".join(slower) or "nothing"))
        print(f"RESULT | serve: slower than the real server | embedded | {', '.join(slower) or 'nothing'} |")
    finally:
        process.terminate()
        process.wait()
        if real:
            subprocess.run(["bash", os.path.join(ORACLE, "down"), os.path.join(home, "real")], check=False)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
