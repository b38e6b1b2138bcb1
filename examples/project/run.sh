#!/usr/bin/env bash
# Shows an outbox on its way into a real OpenSearch: an application in any language (here sqlite3, or psql where DATABASE is a
# postgres:// URL) inserts into pawl_outbox in its own transaction, and the daemon does the rest. Needs pawl on the PATH, curl,
# sqlite3 or psql, and OpenSearch: dev/services run opensearch -- examples/project/run.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
export SEARCH_URL=${SEARCH_URL:-${PAWL_TEST_OPENSEARCH:-http://127.0.0.1:9200}} DATABASE=${DATABASE:-sqlite:shop.db} INDEX=shop-$$
pid=
# shellcheck disable=SC2154 # the trap runs later
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; wait; curl -fsS -X DELETE "$SEARCH_URL/$INDEX-000001" >/dev/null || true; rm -rf "$dir"' EXIT
cp "$here/pawl.yaml" "$dir" && cd "$dir"

sql() { if [[ $DATABASE == sqlite:* ]]; then sqlite3 -cmd '.timeout 5000' "${DATABASE#sqlite:}"; else psql -qAt "$DATABASE"; fi; }

pawl project init --store "$DATABASE" >grants.sql
sql <<SQL
CREATE TABLE IF NOT EXISTS products (id INTEGER PRIMARY KEY, name TEXT, version INTEGER);
BEGIN;
INSERT INTO products VALUES (42, 'a red chair', 7);
INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES ('search', '42', 'upsert', 7, '{"name":"a red chair"}');
COMMIT;
BEGIN;
INSERT INTO products VALUES (43, 'never seen', 1);
INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES ('search', '43', 'upsert', 1, '{"name":"never seen"}');
ROLLBACK;
SQL
pawl up 2>up.log & pid=$!
for _ in $(seq 100); do
	curl -fsS "$SEARCH_URL/$INDEX/_search?q=chair" 2>/dev/null | grep -q '"_id":"42"' && break
	sleep 0.2
done
curl -fsS "$SEARCH_URL/$INDEX/_search?q=chair&filter_path=hits.hits"
echo
pawl project status search
pawl project verify search
