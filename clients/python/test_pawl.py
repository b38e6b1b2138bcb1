"""Tests of the client against a built pawl, whose processes are killed."""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))
import pawl  # noqa: E402

BINARY = os.environ.get("PAWL_BINARY", os.path.join(os.path.dirname(__file__), "..", "..", "bin", "pawl"))


def free_port() -> int:
    """A port that is free, and below those that the system gives to connections: one of them could take it any time."""
    while True:
        port = random.randrange(10_000, 20_000)
        try:
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
            return port
        except OSError as e:
            if e.errno != errno.EADDRINUSE:
                raise


def wait_for_port(port: int) -> None:
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"nothing listens at {port}")


class Door:
    """A pawl api on a port of its own."""

    def __init__(self, store: str) -> None:
        self.port, self.store = free_port(), store
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([BINARY, "api", "--listen", f"127.0.0.1:{self.port}", "--store", self.store],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        wait_for_port(self.port)
        if self.process.poll() is not None:
            raise RuntimeError(f"pawl api ended with exit code {self.process.returncode}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Kills(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = tempfile.TemporaryDirectory()
        store = "sqlite:" + os.path.join(self.dir.name, "pawl.db")
        self.doors = [Door(store), Door(store)]
        self.client = pawl.Client([d.url for d in self.doors], patience=60)

    def tearDown(self) -> None:
        for d in self.doors:
            d.kill()
        self.dir.cleanup()

    def test_kills(self) -> None:
        """Nothing is lost and nothing stored twice while two APIs are killed in turns; keys keep their order."""
        seen: dict[str, list[int]] = {}
        mu, want = threading.Lock(), 200
        worker = pawl.Worker(self.client, lease=3)

        @worker.topic("work", concurrency=4)
        def work(d: pawl.Delivery) -> None:
            key, n = d.body.decode().split()
            if d.attempt == 1 and random.random() < 0.05:
                raise RuntimeError("once more")
            with mu:
                seen.setdefault(key, []).append(int(n))

        running = threading.Thread(target=worker.run, daemon=True)
        running.start()
        stop = threading.Event()

        def killer() -> None:
            while not stop.wait(0.7):
                d = random.choice(self.doors)
                d.kill()
                d.start()

        killing = threading.Thread(target=killer, daemon=True)
        killing.start()
        ids = set()
        for n in range(want):
            ids.add(self.client.send("work", f"k{n % 5} {n}", key=f"k{n % 5}").id)
        stop.set()
        killing.join()
        self.assertEqual(len(ids), want)
        end = time.monotonic() + 90
        while time.monotonic() < end:
            with mu:
                if sum(len(set(v)) for v in seen.values()) == want:
                    break
            time.sleep(0.1)
        worker.stop()
        running.join()
        for key, numbers in seen.items():
            self.assertEqual(list(dict.fromkeys(numbers)), sorted(set(numbers)), "order of " + key)
        self.assertEqual(sum(len(set(v)) for v in seen.values()), want)

    def test_cut_headers(self) -> None:
        """A server that cut the headers of a request off says 400 without a document: the request is repeated."""
        answers = [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request",
                   b'HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n{"id":"m"}']
        asked = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            def serve() -> None:
                for answer in answers:
                    at = server.accept()[0]
                    with at:
                        asked.append(at.recv(65536).decode().split("Idempotency-Key: ")[1].split("\r\n")[0])
                        at.sendall(answer)
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            sent = pawl.Client(f"http://127.0.0.1:{server.getsockname()[1]}").send("mail", "x")
            thread.join()
        self.assertEqual(sent.id, "m")
        self.assertEqual(asked[0], asked[1])

    def test_verdicts(self) -> None:
        worker = pawl.Worker(self.client, lease=5)
        done = threading.Event()

        @worker.topic("mail")
        def mail(d: pawl.Delivery) -> None:
            if d.json()["to"] == "nobody":
                raise pawl.Permanent("no such address")
            d.emit("sent", {"to": "ann"})

        @worker.topic("sent")
        def sent(d: pawl.Delivery) -> None:
            done.set()

        self.client.send("mail", {"to": "nobody"})
        self.client.send("mail", {"to": "ann"})
        running = threading.Thread(target=worker.run, daemon=True)
        running.start()
        self.assertTrue(done.wait(30))
        worker.stop()
        running.join()
        with self.assertRaises(pawl.Problem) as caught:
            self.client.send("mail", "x", priority=101)
        self.assertEqual((caught.exception.status, caught.exception.fields[0]["field"]), (422, "priority"))

    def test_examples(self) -> None:
        """A shop that sends in its transaction, and a worker that fails in three ways."""
        examples = os.path.join(os.path.dirname(__file__), "examples")
        port, file = free_port(), os.path.join(self.dir.name, "pawl.db")
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "PAWL_API": self.doors[0].url}
        running = [subprocess.Popen([sys.executable, os.path.join(examples, name), *args], env=env,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for name, *args in (("shop.py", file, str(port)), ("worker.py",))]
        try:
            wait_for_port(port)
            for customer, total, want in [("ann", 10, 201), ("nobody", 1, 201), ("bank", 2, 201), ("flaky", 3, 201),
                                          ("thief", 0, 400)]:
                order = json.dumps({"customer": customer, "total": total}).encode()
                self.assertEqual(fetch(f"http://127.0.0.1:{port}/orders", order)[0], want, customer)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                topics = {t["topic"]: t for t in fetch(self.doors[0].url + "/v1/topics")[1]}
                if topics.get("shipped", {}).get("waiting") == 3:
                    break
                time.sleep(0.1)
            orders = topics["orders"]
            self.assertEqual((orders["appended_total"], orders["acked_total"], orders["dead"],
                              topics["shipped"]["waiting"]), (4, 3, 1, 3))
        finally:
            for p in running:
                p.kill()
                p.wait()


def fetch(url: str, body: bytes | None = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, body, 20) as r:
            return r.status, json.load(r)
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.load(e)


if __name__ == "__main__":
    unittest.main()
