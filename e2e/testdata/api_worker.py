"""A worker that TestAPIOverFaults kills, freezes and cuts off: JOURNAL URL... It writes when it begins and ends a message."""

import os
import random
import sys
import time

import pawl

journal = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
worker = pawl.Worker(pawl.Client(sys.argv[2:], patience=20), lease=3)


def note(what: str, d: pawl.Delivery) -> None:
    os.write(journal, f"{what} {d.key} {d.body.decode()} {d.token} {os.getpid()} {time.time_ns()}\n".encode())


@worker.topic("work", concurrency=4)
def work(d: pawl.Delivery) -> None:
    note("begin", d)
    try:
        time.sleep(random.uniform(0, 0.03))
        if random.random() < 0.03:
            raise RuntimeError("once more")
    finally:
        note("end", d)


worker.run()
