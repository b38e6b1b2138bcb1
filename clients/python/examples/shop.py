"""A web shop: an order and the message about it are in one transaction, or neither is.

    python3 shop.py shop.db 8080
    curl -d '{"customer":"ann","total":10}' http://127.0.0.1:8080/orders

The file is the shop's own database and the store of `pawl api --store sqlite:shop.db`, which has to have opened it once.
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pawl import send_sql


def place(order: dict) -> int:
    db = sqlite3.connect(sys.argv[1], timeout=10, isolation_level="IMMEDIATE")
    try:
        with db:  # commits, or rolls back when something is raised
            cursor = db.execute("INSERT INTO orders (customer, total) VALUES (?, ?)", (order["customer"], order["total"]))
            number = cursor.lastrowid
            send_sql(cursor, "orders", {"number": number, **order}, key=order["customer"])
            if order["total"] <= 0:
                raise ValueError("nothing is for free")
        return number
    finally:
        db.close()


class Shop(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        try:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = 201, {"number": place(order)}
        except (KeyError, ValueError) as why:
            status, answer = 400, {"error": str(why)}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    with sqlite3.connect(sys.argv[1]) as db:
        db.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, customer TEXT, total REAL)")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Shop).serve_forever()
