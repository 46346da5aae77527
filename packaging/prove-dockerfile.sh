#!/bin/bash
# Runs the steps of the Dockerfile without a Docker engine: the RUN lines of its
# build stage in a debootstrapped Debian tree with the Go toolchain of this
# machine, and its result as the user it names, in a root that holds nothing
# else. Root, Debian; 2 minutes, 1.5 GB in $TMPDIR while it runs.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "needs root: chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -q --no-install-recommends debootstrap >/dev/null
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; umount "$work/tree/proc" 2>/dev/null || true; rm -rf "$work"' EXIT
say() { printf '==> %s\n' "$*"; }
mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /:\/\/[^ ]*\/debian\/?$/) { print $i; exit } }')

say "the golang image's stand-in: Debian 12 with gcc, git, make and this machine's Go"
debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev,git,make bookworm "$work/tree" ${mirror:+"$mirror"} >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
cp -a "$(go env GOROOT)" "$work/tree/usr/local/go"
mount -t proc proc "$work/tree/proc"
[ -e /etc/resolv.conf ] && cp -L /etc/resolv.conf "$work/tree/etc/resolv.conf"
[ -e /etc/hosts ] && cp -L /etc/hosts "$work/tree/etc/hosts"
mkdir -p "$work/tree/src" "$work/tree/dev"
git ls-files -z | tar --null -T - -c | tar -x -C "$work/tree/src"
[ -d .git ] && cp -a .git "$work/tree/src/.git"

env=(PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
for v in GOPROXY GOSUMDB GOFLAGS; do env+=("$v=$(go env $v)"); done
for v in HTTP_PROXY HTTPS_PROXY http_proxy https_proxy SSL_CERT_FILE; do [ -n "${!v:-}" ] && env+=("$v=${!v}"); done
[ -d /usr/local/share/ca-certificates ] && cp -a /usr/local/share/ca-certificates/. "$work/tree/usr/local/share/ca-certificates/" && chroot "$work/tree" update-ca-certificates >/dev/null 2>&1 || true
awk '/^FROM/ { stage++ } stage == 1 && /^RUN/ { sub(/^RUN /, ""); print }' Dockerfile >"$work/steps"
while read -r step; do
  say "RUN $step"
  chroot "$work/tree" env -i "${env[@]}" bash -c "cd /src && git config --global --add safe.directory /src && $step" </dev/null
done <"$work/steps"

root=$work/tree/out
user=$(awk '/^USER/ { print $2 }' Dockerfile)
say "the result, all of it"
(cd "$root" && find . -type f -o -type d -empty | sort)
chown -R "$user" "$root"
entry=$(awk -F'"' '/^ENTRYPOINT/ { print $2 }' Dockerfile)
say "running $entry as $user in a root of nothing else"
chroot --userspec="$user" "$root" "$entry" version
chroot --userspec="$user" "$root" "$entry" check -c /etc/capstan/capstan.yaml
chroot --userspec="$user" "$root" "$entry" serve -c /etc/capstan/capstan.yaml --listen 127.0.0.1:32049 2>"$work/log" &
server=$!
for _ in $(seq 50); do chroot --userspec="$user" "$root" "$entry" status -c /etc/capstan/capstan.yaml >"$work/status" 2>/dev/null && break; sleep 0.2; done
cat "$work/log" "$work/status"
grep -q '^/scratch .* ok$' "$work/status"
kill -TERM $server
wait $server
say "the volume after the run: $(ls "$root/var/lib/capstan" | tr '\n' ' ')"
say "proved"
