"""An MCP server that does what the tool's name says, for tests: over stdio, or over Streamable HTTP on a free port.

Everything that it receives or sees is told to the test over a TCP connection, one JSON object a line. What a tool does is in
`Server.call`; the tools `task_…` answer with a task. Only the standard library is used.
"""

import base64, http.server, json, os, select, signal, socket, subprocess, sys, threading, time

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"


class Teller:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.lock = threading.Lock()
        threading.Thread(target=self.end_with_the_test, daemon=True).start()

    def end_with_the_test(self):
        while self.socket.recv(1):
            pass
        os._exit(0)

    def tell(self, kind, **data):
        with self.lock:
            self.socket.sendall((json.dumps({"pid": os.getpid(), "kind": kind, **data}) + "\n").encode())


class Server:
    """What the tools do. `stream` has `send(message)`, and `gone()`, which waits a moment for the end of the caller's interest."""

    def __init__(self, teller, era, docs):
        self.teller, self.era, self.docs, self.tasks, self.lock = teller, era, docs, {}, threading.Lock()
        self.released = False

    def handle(self, message, stream):
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if id is None:
            return
        answer = lambda result: stream.send({"jsonrpc": "2.0", "id": id, "result": {**self.complete(), **result}})
        refuse = lambda code, text: stream.send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
        info = {"name": "scripted", "version": "0"}
        offers = {"tools": {}, "resources": {}}
        if method == "server/discover" and self.era == "modern":
            offers["extensions"] = {META + "tasks": {}}
            answer({"supportedVersions": [VERSION], "capabilities": offers, "ttlMs": 0, "cacheScope": "private", "_meta": {META + "serverInfo": info}})
        elif method == "initialize" and self.era == "legacy":
            answer({"protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": info})
        elif method == "resources/list":
            self.list(params, answer)
        elif method == "resources/read":
            self.read(params["uri"], answer, refuse)
        elif method == "tools/call":
            self.call(params, id, stream, answer, refuse)
        elif method in ("tasks/get", "tasks/cancel"):
            self.task(method, params["taskId"], answer, refuse)
        else:
            refuse(-32601, "there is no " + str(method))

    def complete(self):
        return {"resultType": "complete"} if self.era == "modern" else {}

    def list(self, params, answer):
        fresh = {"ttlMs": 0, "cacheScope": "private"}
        if "circle" in self.docs:
            answer({"resources": [self.docs["circle"]], "nextCursor": "again", **fresh})
            return
        all = list(self.docs.values())
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 2)} if at + 2 < len(all) else {}
        listed = [{key: value for key, value in doc.items() if key not in ("text", "blob")} for doc in all[at : at + 2]]
        answer({"resources": listed, **more, **fresh})

    def read(self, uri, answer, refuse):
        for doc in self.docs.values():
            if doc["uri"] == uri and ("text" in doc or "blob" in doc):
                content = {key: doc[key] for key in ("uri", "mimeType", "text", "blob") if key in doc}
                answer({"contents": [content], "ttlMs": 0, "cacheScope": "private"})
                return
        refuse(-32602, "there is no such resource")

    def call(self, params, id, stream, answer, refuse):
        name, arguments = params["name"], params.get("arguments", {})
        token = params.get("_meta", {}).get("progressToken")
        notify = lambda method, **params: stream.send({"jsonrpc": "2.0", "method": method, "params": params})
        text = lambda text: {"content": [{"type": "text", "text": text}]}
        minutes = f"The council met in {arguments.get('month')}. It approved 140,000 dollars for the library."
        if name == "give":
            answer(text(minutes))
        elif name in ("hold", "late"):
            while not stream.gone(id):
                pass
            if name == "late":
                answer(text("too late"))
                self.teller.tell("answered late")
        elif name in ("progress", "same_progress", "few_steps"):
            number = 0
            while not stream.gone(id) and not (name == "few_steps" and number == 4):
                number += 1
                notify("notifications/progress", progressToken=token, progress=1 if name == "same_progress" else number)
                time.sleep(0.15)
            if name == "few_steps":
                answer(text(minutes))
        elif name == "keep_alive":
            while not stream.gone(id):
                stream.keep_alive()
                time.sleep(0.05)
        elif name == "flood":
            for _ in range(3000):
                os.write(2, b"x" * 1000 + b"\n")
            answer(text(minutes))
        elif name == "die":
            os._exit(3)
        elif name == "fails":
            answer({**text("the wiki is closed for repairs"), "isError": True})
        elif name == "refuse":
            refuse(-32602, "no such tool")
        elif name == "nothing":
            answer({"content": []})
        elif name == "huge":
            answer(text("x" * (17 << 20)))
        elif name == "structured":
            answer({"content": [], "structuredContent": {"minutes": "The council met."}})
        elif name == "links":
            answer({"content": [
                {"type": "resource_link", "uri": "file:///minutes/2026-06-03.md", "name": "third"},
                {"type": "resource_link", "uri": "file:///gone.md", "name": "gone"},
                {"type": "resource", "resource": {"uri": "file:///minutes/plan.csv", "mimeType": "text/csv", "text": "what,cost\nlibrary,140000\n"}},
                {"type": "image", "data": "", "mimeType": "image/png"},
            ]})
        elif name in ("grandchild", "leaves_grandchild"):
            # It hears neither the end of its input nor SIGTERM, and keeps the pipes open.
            child = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 60; done"])
            self.teller.tell("grandchild", child=child.pid)
            while name == "grandchild" and not stream.gone(id):
                pass
            answer(text(minutes))
        elif name == "slow_task":
            # The handle is still under way when somebody stops.
            stream.gone(id, 1.0)
            self.create("task_works", id, stream)
        elif name.startswith("task_"):
            self.create(name, id, stream)
        else:
            refuse(-32602, "unknown tool")

    def create(self, name, id, stream):
        with self.lock:
            task = {"taskId": f"task-{os.urandom(16).hex()}", "name": name, "looks": 0, "cancelled": False}
            self.tasks[task["taskId"]] = task
        stream.send({"jsonrpc": "2.0", "id": id, "result": {"resultType": "task", **self.wire(task, "working")}})
        self.teller.tell("task created", task=task["taskId"])

    def wire(self, task, status):
        at = "2026-06-03T09:00:00Z"
        return {"taskId": task["taskId"], "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": None, "pollIntervalMs": 50}

    def task(self, method, id, answer, refuse):
        with self.lock:
            task = self.tasks.get(id)
            if task is None:
                refuse(-32602, "there is no such task")
                return
            if method == "tasks/cancel":
                if not task["cancelled"]:
                    task["cancelled"], task["looks"] = True, 0
                answer({})
                return
            task["looks"] += 1
            name, looks, cancelled = task["name"], task["looks"], task["cancelled"]
        result = {"result": {"content": [{"type": "text", "text": "The council met in June. It approved 140,000 dollars for the library."}]}}
        if (name == "task_completes" and looks >= 3) or (name == "task_waits" and self.released):
            answer({**self.wire(task, "completed"), **result})
        elif name == "task_fails":
            answer({**self.wire(task, "failed"), "error": {"code": -32603, "message": "the index is broken"}})
        elif name == "task_asks" and not cancelled:
            question = {"method": "elicitation/create", "params": {"mode": "form", "message": "which?", "requestedSchema": {"type": "object", "properties": {}}}}
            answer({**self.wire(task, "input_required"), "inputRequests": {"q": question}})
        elif name == "task_stubborn" and cancelled and looks >= 3:
            answer({**self.wire(task, "completed"), **result})
        elif name in ("task_works", "task_asks", "task_waits") and cancelled and looks >= 2:
            answer(self.wire(task, "cancelled"))
        else:
            answer(self.wire(task, "working"))


class Stdio:
    def __init__(self, teller):
        self.lock, self.teller, self.over, self.cancelled = threading.Lock(), teller, threading.Condition(), set()

    def send(self, message):
        with self.lock:
            try:
                os.write(1, b"")
                sys.stdout.write(json.dumps(message) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                pass

    def keep_alive(self):
        self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def gone(self, id, wait=0.05):
        with self.over:
            return self.over.wait_for(lambda: id in self.cancelled, wait)

    def run(self, server, kind):
        if kind == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for line in sys.stdin:
            message = json.loads(line)
            self.teller.tell("got", message=message)
            if message.get("method") == "notifications/cancelled":
                with self.over:
                    self.cancelled.add(message["params"]["requestId"])
                    self.over.notify_all()
            elif message.get("method") == "tools/call":
                threading.Thread(target=server.handle, args=(message, self), daemon=True).start()
            else:
                server.handle(message, self)
                if kind == "stuck":
                    break
        while kind in ("deaf", "stuck"):
            time.sleep(60)
        self.teller.tell("end of input")


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_ = teller = token = None

    def log_message(self, *_):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.teller.tell("got", message=message, authorization=self.headers.get("Authorization"))
        self.streaming, self.message = False, message
        if self.token and self.headers.get("Authorization") != "Bearer " + self.token:
            return self.short(401, [("WWW-Authenticate", "Bearer")])
        name = message.get("params", {}).get("name")
        if message.get("id") is None or name == "accepted":
            return self.short(202)
        if name == "drop":
            self.start_stream()
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        self.server_.handle(message, self)
        if self.streaming:
            try:
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                pass

    def do_GET(self):
        """The test lets the tasks `task_waits` end."""
        if self.path == "/release":
            self.server_.released = True
            return self.short(200)
        self.short(405)

    def do_DELETE(self):
        self.teller.tell("deleted")
        self.short(200)

    def short(self, status, headers=()):
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def start_stream(self):
        if not self.streaming:
            self.streaming = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

    def chunk(self, text):
        self.start_stream()
        data = text.encode()
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        except OSError:
            pass

    def send(self, message):
        if self.streaming or "method" in message:
            return self.chunk("data: " + json.dumps(message) + "\n\n")
        data = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if message.get("result", {}).get("protocolVersion"):
            self.send_header("Mcp-Session-Id", "session-1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass

    def keep_alive(self):
        self.chunk(": still here\n\n")

    def gone(self, id, wait=0.05):
        readable, _, _ = select.select([self.connection], [], [], wait)
        if not readable:
            return False
        try:
            closed = self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            closed = True
        if closed:
            self.teller.tell("closed", id=id)
            self.close_connection = True
        return closed


def main():
    transport, port, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    teller = Teller(port)
    server = Server(teller, options.get("era", "modern"), options.get("docs", {}))
    teller.tell("started", environment=dict(os.environ))
    if options.get("kind") == "silent":
        time.sleep(600)
    if transport == "stdio":
        Stdio(teller).run(server, options.get("kind"))
    else:
        Http.server_, Http.teller, Http.token = server, teller, options.get("token")
        listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
        listening.daemon_threads = True
        teller.tell("listens", port=listening.server_port)
        listening.serve_forever()


main()
