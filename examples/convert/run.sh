#!/usr/bin/env bash
# Converts a thousand files of ten types, improved by a provider that is slow, refuses and fails; then again: nothing is
# left to do, and nothing to pay. Needs pawl on the PATH, and a free port. Everything that it makes is in a new
# directory, which it removes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
export LLM_ADDR=${LLM_ADDR:-127.0.0.1:9000}
cp "$here/pawl.yaml" "$dir" && cd "$dir"
pawl chaos llm --listen "$LLM_ADDR" --latency-mean 20ms --latency-stddev 5ms -q & llm=$!
trap 'kill $llm 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
pawl chaos files docs --set 1k_mix
for _ in 1 2; do pawl convert docs --out markdown --llm local/small --max-retries 20; done
