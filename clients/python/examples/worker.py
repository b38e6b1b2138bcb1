"""A worker on the orders of shop.py. It fails in three ways: for good, for now, and by mistake.

    PAWL_API=http://127.0.0.1:8470 python3 worker.py
"""

from pawl import Client, Delivery, Permanent, Throttled, Worker

worker = Worker(Client(), lease=10)
busy = {"bank"}


@worker.topic("orders", concurrency=4)
def orders(d: Delivery) -> None:
    order = d.json()
    customer = order["customer"]
    if customer == "nobody":
        raise Permanent("no such customer")       # a dead letter at once
    if customer in busy:
        busy.remove(customer)
        raise Throttled(0.5, "the bank is busy")  # again in half a second, not counted
    if customer == "flaky" and d.attempt < 2:
        raise RuntimeError("a mistake of ours")   # again when the policy says
    d.emit("shipped", {"number": order["number"]})  # with the ack, or not at all
    print("shipped", customer, flush=True)


worker.run()
