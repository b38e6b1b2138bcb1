"""Send messages to Pawl, and work on them, over its HTTP API."""

from __future__ import annotations

import http.client
import json
import logging
import os
import queue
import random
import signal
import socket
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping

__all__ = [
    "Client", "Worker", "Delivery", "Receipt", "Problem", "Unavailable", "Permanent", "Throttled", "Release", "send_sql",
]

log = logging.getLogger("pawl")


class Problem(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {document.get('title', '')}: {document.get('detail', '')}")
        self.status = status
        self.next: str = document.get("next", "")
        self.fields: list[dict[str, str]] = document.get("fields", [])


class Unavailable(Exception):
    """The API did not answer for as long as the client was patient."""


class Permanent(Exception):
    """The work fails, and no repetition will help."""


class Throttled(Exception):
    """The other side wants to be asked again after that many seconds."""

    def __init__(self, after: float, reason: str = "throttled") -> None:
        super().__init__(reason)
        self.after = after


class Release(Exception):
    """Give the message back, uncounted, for that many seconds."""

    def __init__(self, after: float = 0, reason: str = "released") -> None:
        super().__init__(reason)
        self.after = after


@dataclass(frozen=True)
class Receipt:
    id: str
    duplicate_of: str | None = None
    error: str | None = None


@dataclass
class Delivery:
    """A message that is being worked on."""

    id: str
    topic: str
    key: str | None
    attempt: int
    priority: int
    headers: dict[str, str]
    body: bytes
    token: str
    deadline_seconds: float
    emits: list[dict[str, Any]] = field(default_factory=list)
    hold_seconds: float = 0
    lost: threading.Event = field(default_factory=threading.Event)

    def json(self) -> Any:
        return json.loads(self.body)

    def emit(self, topic: str, body: Any = None, **options: Any) -> None:
        """Append a message if, and only if, this one is acked."""
        self.emits.append(message(topic, body, **options))


def message(topic: str | None, body: Any = None, **options: Any) -> dict[str, Any]:
    """The JSON of a message: a text and bytes go as they are, anything else as JSON."""
    m: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if topic is not None:
        m["topic"] = topic
    if isinstance(body, str):
        m["body"] = body
    elif isinstance(body, (bytes, bytearray)):
        import base64
        m["body_base64"] = base64.b64encode(body).decode()
    elif body is not None:
        m["json"] = body
    return m


class Client:
    """A client of one API, or of several that serve the same store. Safe for threads."""

    def __init__(self, url: str | Iterable[str] | None = None, token: str | None = None, patience: float = 60) -> None:
        urls = [url] if isinstance(url, str) else list(url or [])
        self.urls = urls or [os.environ.get("PAWL_API", "http://127.0.0.1:8470")]
        self.token = token if token is not None else os.environ.get("PAWL_TOKEN")
        self.patience = patience
        self._local = threading.local()

    def send(self, topic: str, body: Any = None, **options: Any) -> Receipt:
        """Append a message; it is durable when this returns. Options are the fields of a message."""
        got = self.call(f"/v1/topics/{urllib.parse.quote(topic)}/messages", message(None, body, **options), True)
        return Receipt(got["id"], got.get("duplicate_of"))

    def send_many(self, messages: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """Append up to 10,000 messages, each with its topic, in order."""
        got = self.call("/v1/messages", [message(**m) for m in messages], True)
        return [Receipt(r["id"], r.get("duplicate_of"), r.get("error")) for r in got["receipts"]]

    def call(self, path: str, body: Any, once: bool, timeout: float = 40, patience: float | None = None) -> Any:
        """Post JSON. What failed on the way, or is to be tried later, is repeated with one Idempotency-Key."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if once:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        data = json.dumps(body, ensure_ascii=False).encode()
        end = time.monotonic() + (self.patience if patience is None else patience)
        pause = 0.05
        while True:
            after: float | None = None
            try:
                status, retry_after, text = self._post(path, data, headers, timeout)
                if status < 300:
                    return json.loads(text)
                document = _document(text)
                error: Exception = Problem(status, document)
                cut = status == 400 and "status" not in document  # the headers took over a second to arrive
                if status not in (408, 429, 502, 503, 504) and not cut:
                    raise error
                after = retry_after
            except (OSError, http.client.HTTPException, ValueError) as failed:
                error = failed
            wait = after if after is not None else random.uniform(pause / 2, pause)
            if time.monotonic() + wait > end:
                raise error if isinstance(error, Problem) else Unavailable(str(error)) from error
            time.sleep(wait)
            pause = min(pause * 2, 5)

    def _post(self, path: str, data: bytes, headers: dict[str, str], timeout: float) -> tuple[int, float | None, bytes]:
        at = self._connect(timeout)
        try:
            at.request("POST", self._local.base + path, data, headers)
            r = at.getresponse()
            text = r.read()
        except BaseException:
            at.close()
            self._local.at = None
            raise
        if r.will_close:
            at.close()
            self._local.at = None
        retry_after = r.getheader("Retry-After")
        return r.status, float(retry_after) if retry_after else None, text

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        at = getattr(self._local, "at", None)
        if at is None:
            u = urllib.parse.urlsplit(random.choice(self.urls))
            kind = http.client.HTTPSConnection if u.scheme == "https" else http.client.HTTPConnection
            at = kind(u.netloc, timeout=timeout)
            self._local.at, self._local.base = at, u.path.rstrip("/")
        at.timeout = timeout
        if at.sock is not None:
            at.sock.settimeout(timeout)
        return at


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"title": text[:200].decode(errors="replace")}


def send_sql(cursor: Any, topic: str, body: Any = None, key: str | None = None, **options: Any) -> str:
    """Append a message in the transaction of a DB-API cursor: it exists if, and only if, that commits.

    The database is the store: PostgreSQL, once `pawl migrate up` has installed pawl_send there, or a file of SQLite.
    """
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    if type(cursor).__module__.startswith(("sqlite3", "pysqlite3")):
        id = options.setdefault("id", str(uuid.uuid4()))
        cursor.execute("insert into pawl_send (topic, body, key, options) values (?, ?, ?, ?)",
                       (topic, text, key, json.dumps(options)))
        return str(id)
    cursor.execute("select pawl_send(%s, %s::text, %s, %s::jsonb)", (topic, text, key, json.dumps(options)))
    return str(cursor.fetchone()[0])


Handler = Callable[[Delivery], Any]


class Worker:
    """Works on topics until it is stopped.

        worker = Worker(Client())

        @worker.topic("mail", concurrency=8)
        def mail(d):
            ...

        worker.run()
    """

    def __init__(self, client: Client, name: str | None = None, lease: float = 30) -> None:
        self.client = client
        self.name = name or f"{socket.gethostname()}/{os.getpid()}"
        self.lease = lease
        self._topics: list[tuple[str, int, Handler]] = []
        self._held: dict[str, Delivery] = {}
        self._mu = threading.Lock()
        self._stop = threading.Event()
        self._done = threading.Event()
        self._settle: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def topic(self, name: str, concurrency: int = 1) -> Callable[[Handler], Handler]:
        """Names the function that works on a topic, and how many messages it works on at once."""
        def add(handler: Handler) -> Handler:
            self._topics.append((name, concurrency, handler))
            return handler
        return add

    def stop(self, *_: Any) -> None:
        """Lets what is being worked on end, and takes no more."""
        self._stop.set()

    def run(self) -> None:
        """Works until stop, or SIGTERM or SIGINT where this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.stop)
            signal.signal(signal.SIGINT, self.stop)
        beside = [threading.Thread(target=self._beat), threading.Thread(target=self._settler)]
        lanes = [threading.Thread(target=self._lane, args=(name, handler))
                 for name, concurrency, handler in self._topics for _ in range(concurrency)]
        for t in beside + lanes:
            t.start()
        for t in lanes:
            while t.is_alive():
                t.join(0.2)
        self._settle.put(None)
        self._done.set()
        for t in beside:
            t.join()

    def _lane(self, topic: str, handler: Handler) -> None:
        while not self._stop.is_set():
            try:
                got = self.client.call("/v1/lease", {"topics": [topic], "limit": 1, "wait_seconds": 2,
                                                     "lease_seconds": self.lease, "worker": self.name}, False, timeout=20)
            except Unavailable as why:
                log.warning("the API does not answer: %s", why)
                continue
            except Problem as why:
                log.error("no lease: %s", why)
                self._stop.wait(1)
                continue
            for d in got["deliveries"]:
                self._work(_delivery(d), handler)

    def _work(self, d: Delivery, handler: Handler) -> None:
        with self._mu:
            self._held[d.token] = d
        try:
            verdict = {"token": d.token, **self._handle(d, handler)}
        finally:
            with self._mu:
                self._held.pop(d.token, None)
        if d.hold_seconds:
            verdict["hold_seconds"] = d.hold_seconds
        if not d.lost.is_set():
            self._settle.put(verdict)

    def _handle(self, d: Delivery, handler: Handler) -> dict[str, Any]:
        if self._stop.is_set():
            return {"verdict": "release"}
        try:
            handler(d)
        except Release as e:
            return {"verdict": "release", "after_seconds": e.after, "error": str(e)}
        except Throttled as e:
            return {"verdict": "fail", "class": "throttled", "after_seconds": e.after, "error": str(e)}
        except Permanent as e:
            return {"verdict": "fail", "class": "permanent", "kind": type(e).__name__, "error": str(e)}
        except Exception as e:  # noqa: BLE001 - the policy decides about any failure
            return {"verdict": "fail", "kind": type(e).__name__, "error": str(e)}
        return {"verdict": "ack", "emit": d.emits} if d.emits else {"verdict": "ack"}

    def _settler(self) -> None:
        """Sends verdicts, many at a time while a call is on its way."""
        ended = False
        while not ended:
            batch = [self._settle.get()]
            while len(batch) < 500 and not self._settle.empty():
                batch.append(self._settle.get())
            ended = None in batch
            settlements = [v for v in batch if v is not None]
            if not settlements:
                continue
            try:
                got = self.client.call("/v1/settle", {"settlements": settlements}, True, patience=self.lease)
                for r in got["results"]:
                    if r["action"] in ("lost", "refused"):
                        log.warning("a verdict is %s: %s", r["action"], r.get("error", "its lease had ended"))
            except (Problem, Unavailable) as why:
                log.warning("%d verdicts are not settled, the messages come back: %s", len(settlements), why)

    def _beat(self) -> None:
        """Extends the leases of what is being worked on."""
        while not self._done.wait(self.lease / 3):
            with self._mu:
                held = dict(self._held)
            if not held:
                continue
            try:
                got = self.client.call("/v1/extend", {"tokens": list(held), "by_seconds": self.lease}, False,
                                       timeout=self.lease / 3, patience=self.lease / 3)
            except (Problem, Unavailable) as why:
                log.warning("leases are not extended: %s", why)
                continue
            for token in got["lost"]:
                held[token].lost.set()


def _delivery(d: Mapping[str, Any]) -> Delivery:
    import base64
    body = base64.b64decode(d["body_base64"]) if "body_base64" in d else d["body"].encode()
    return Delivery(d["id"], d["topic"], d["key"], d["attempt"], d["priority"], d["headers"], body, d["token"],
                    d["deadline_seconds"])
