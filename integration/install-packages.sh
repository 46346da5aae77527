#!/bin/bash
# Installs the Debian packages of packages.txt that are not installed yet.
set -euo pipefail
cd "$(dirname "$0")"
mapfile -t want < <(grep -v '^#' packages.txt)
missing=()
for p in "${want[@]}"; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "missing packages, and not root to install them: ${missing[*]}" >&2
  echo "what needs them will say so and be left out" >&2
  exit 0
fi
command -v apt-get >/dev/null || { echo "no apt-get here; install by hand: ${missing[*]}" >&2; exit 0; }
echo "==> installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Services must not start by themselves: the lab runs its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' > $policy && chmod +x $policy
  trap 'rm -f "$log" '$policy EXIT
fi
for step in "update -q" "install -y -q --no-install-recommends ${missing[*]}"; do
  if ! apt-get $step >"$log" 2>&1; then tail -20 "$log" >&2; echo "apt-get $step failed" >&2; exit 1; fi
done
