#!/usr/bin/env bash
# Holds the OpenAPI document against its specification, and the server against the document: a server is started on
# loopback in a directory of its own, openapi-spec-validator reads its document, and schemathesis sends requests made from
# it, a bounded number. Exits with 0 when neither finds anything.
#
#   scripts/openapi.sh BINARY        BINARY is the built cadran
#
# CADRAN_OPENAPI_EXAMPLES=N         requests that are made up for each endpoint (default: 10)
# CADRAN_TEST_TOOLS=DIR             where the programs are kept (default: cadran-test-tools in the user's cache)
#
# Both programs come from Python's package index, in a virtual environment.
set -euo pipefail

BINARY=$(realpath "${1:?usage: scripts/openapi.sh BINARY}")
TOOLS=${CADRAN_TEST_TOOLS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cadran-test-tools}/openapi
say() { printf 'openapi: %s\n' "$*" >&2; }

if [ ! -x "$TOOLS/bin/schemathesis" ] || [ ! -x "$TOOLS/bin/openapi-spec-validator" ]; then
    say "installing openapi-spec-validator and schemathesis"
    python3 -m venv "$TOOLS" >&2
    "$TOOLS/bin/pip" install -q --disable-pip-version-check openapi-spec-validator schemathesis >&2
fi

DIR=$(mktemp -d)
SERVER=
# Only what was started here is ended, by its id.
finish() {
    if [ -n "$SERVER" ]; then kill "$SERVER" 2>/dev/null || true; wait "$SERVER" 2>/dev/null || true; fi
    rm -rf "$DIR"
}
trap finish EXIT

mkdir "$DIR/jobs"
printf 'schedule: every 1m\nlabels: {team: core}\nrun: echo said\n' > "$DIR/jobs/beat.yaml"
printf 'steps:\n  - {name: a, run: "true"}\n  - {name: b, depends: a, run: "exit 1"}\n' > "$DIR/jobs/flow.yaml"
"$BINARY" serve --data "$DIR/data" --jobs "$DIR/jobs" --listen 127.0.0.1:0 > "$DIR/ready" 2> "$DIR/log" &
SERVER=$!
for _ in $(seq 600); do
    grep -q '^cadran is ready' "$DIR/ready" && break
    kill -0 "$SERVER" 2>/dev/null || { cat "$DIR/log" >&2; say "the server did not start"; exit 1; }
    sleep 0.1
done
URL=$(grep -o 'http://127.0.0.1:[0-9]*' "$DIR/ready" | head -1)
TOKEN=$(cat "$DIR/data/token")
curl -sf -H "Authorization: Bearer $TOKEN" "$URL/api/v1/openapi.json" > "$DIR/openapi.json"
"$TOOLS/bin/openapi-spec-validator" "$DIR/openapi.json"

# Streams have no end, and sessions are for browsers: their own tests look at them. Of the checks, those are left out that
# want every number and date to be refused where the document cannot say what is allowed.
"$TOOLS/bin/schemathesis" run "$DIR/openapi.json" --url "$URL" --header "Authorization: Bearer $TOKEN" \
    --exclude-path-regex '/(events|session|sessions.*|login-codes)$|/logs/' \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --phases examples,fuzzing --max-examples "${CADRAN_OPENAPI_EXAMPLES:-10}" --generation-deterministic \
    --request-timeout 25 --no-color
