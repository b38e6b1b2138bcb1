#!/usr/bin/env bash
# Shows the forwarder against a simulator of Telegram: a rule, messages, and /vip. Needs pawl on the PATH, curl, and two free
# ports. Everything that it makes is in a new directory, which it removes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
sim=${SIM_ADDR:-127.0.0.1:8081}
export TELEGRAM_TOKEN=777:SIMULATED TELEGRAM_URL=http://$sim
source=-1000000000001 target=-1000000000002
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cp "$here/pawl.yaml" "$dir" && cd "$dir"

say() { curl -fsS "http://$sim/control/message" -d "{\"chat\": $source, \"from\": 1001, \"text\": \"$1\"}" >/dev/null; }
sent() { curl -fsS "http://$sim/truth" | grep -o '"sent":[0-9]*' | cut -d: -f2; }
await() { for _ in $(seq 300); do [ "$(sent)" -ge "$1" ] && return; sleep 0.1; done; echo "only $(sent) of $1 messages were sent" >&2; exit 1; }

pawl forward sim --listen "$sim" 2>sim.log & pids+=($!)
for _ in $(seq 100); do curl -fsS "http://$sim/truth" >/dev/null 2>&1 && break; sleep 0.1; done
pawl forward rules add --from $source --to $target
pawl up 2>up.log & pids+=($!)

say "hello"
await 1
say "/vip"
await 2
say "this one is urgent"
await 3
pawl forward rules ls
echo "what the bot sent:"
curl -fsS "http://$sim/truth?messages=1" | grep -o '"chat":-[0-9]*\|"text":"[^"]*"' | paste - -
