#!/bin/sh
# Three customers write to the simulator, and are answered. Ctrl-C ends it.
set -eu
cd "$(dirname "$0")"
pawl=${PAWL:-pawl}
"$pawl" wecom sim --users 3 --every 5s &
sim=$!
trap 'kill "$sim"' EXIT
"$pawl" up
