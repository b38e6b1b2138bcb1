"""Sends numbered messages of KEYS keys until COUNT: COUNT KEYS URL..."""

import sys

import pawl

count, keys = int(sys.argv[1]), int(sys.argv[2])
client = pawl.Client(sys.argv[3:], patience=60)
for n in range(count):
    client.send("work", str(n), key=f"k{n % keys}")
