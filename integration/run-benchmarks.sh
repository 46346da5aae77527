#!/bin/bash
# The benchmarks, into docs/performance.md: capstan alone, where no Ceph and no
# kernel client takes part and the static binary is measured; and, given the
# build tags of librados, the native client's object operations against it on a
# cluster of their own.
#   WINDOW=1s   length of one measurement
#   ROUNDS=7    measurements of each row
#   ONLY=stat   measure only what has this in its name, and print it instead
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=0
go build -trimpath -o "$dir/capstan" ./cmd/capstan
go build -o "$dir/bench" ./integration/bench
args=(-capstan "$dir/capstan" -window "${WINDOW:-1s}" -rounds "${ROUNDS:-7}")
if [ -n "${ONLY:-}" ]; then
  args+=(-only "$ONLY")
else
  args+=(-into docs/performance.md)
fi
"$dir/bench" "${args[@]}"
if [ -n "${1:-}" ] && [ -z "${ONLY:-}" ]; then
  CGO_ENABLED=1 CAPSTAN_BENCH_INTO=$PWD/docs/performance.md \
    go test -tags "$1" ./integration -run '^$' -bench ObjectsAgainstLibrados -benchtime 1x -timeout 45m
fi
