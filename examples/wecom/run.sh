#!/bin/sh
# Three customers write to the simulator, and are answered. Ctrl-C ends it.
set -eu
cd "$(dirname "$0")"
pawl=${PAWL:-pawl}
"$pawl" wecom sim &
sim=$!
while sleep 5; do curl -sS -d '{"users":3}' http://127.0.0.1:9121/control/message >/dev/null; done &
customers=$!
trap 'kill "$sim" "$customers"' EXIT
"$pawl" up
