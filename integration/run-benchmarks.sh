#!/bin/bash
# The benchmarks of capstan alone, into docs/performance.md. No Ceph and no
# kernel client takes part, so the engines that a build has do not matter: the
# static binary is measured.
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
