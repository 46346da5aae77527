#!/bin/bash
# All tests: what needs nothing but Go first, then each fuzz target for a
# while, then everything against real peers. Ends with the list of the tests
# that ran against real peers.
#   FUZZTIME=10000x    how much each fuzz target runs: a count of inputs. A time
#                      (30s) works too, but Go before 1.27 now and then reports
#                      its own end as a failure then (go.dev/issue/75804)
#   CAPSTAN_REQUIRE_PEERS=1  a missing peer fails its tests instead of skipping them
set -euo pipefail
cd "$(dirname "$0")/.."
tags=${1:-}
fuzztime=${FUZZTIME:-10000x}
peers=$(mktemp)
trap 'rm -f "$peers"' EXIT
export CAPSTAN_PEER_LOG=$peers
say() { printf '==> %s\n' "$*"; }

say "formatting, vet, staticcheck, both builds"
make --no-print-directory check

say "unit tests, -race"
mapfile -t unit < <(go list ./... | grep -v '^capstan/integration')
go test -race -timeout 1h "${unit[@]}"
GOMAXPROCS=1 go test -timeout 1h ./server/rpc ./server/nfs4/state ./export/...

say "fuzz targets, $fuzztime each"
while read -r file; do
  dir=$(dirname "$file")
  for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$file" | cut -d' ' -f2); do
    printf '    %s %s\n' "$dir" "$target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime=10x "./$dir" >"$peers.fuzz" 2>&1 || { cat "$peers.fuzz"; rm -f "$peers.fuzz"; exit 1; }
  done
done < <(git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | sort)
rm -f "$peers.fuzz"

say "against real peers"
status=0
# One package at a time: they share the machine's peers, and only then is each
# line printed as it comes.
go test -p 1 -tags "$tags" -count=1 -timeout 2h -v ./integration/... | grep -vE --line-buffered '^=== ' || status=$?

say "tests that ran against real peers"
awk -F'\t' '{ n[$1]++; printf "    %-4s %s %s: %s\n", $1, $2, $3, $4 } END { printf "    %d passed, %d failed, %d skipped\n", n["PASS"], n["FAIL"], n["SKIP"] }' "$peers"
exit $status
