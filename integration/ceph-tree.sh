#!/bin/bash
# A tree with another release of Ceph, for tests: debootstraps a Debian suite
# into a directory and installs Ceph's daemons and tools there.
#
#   integration/ceph-tree.sh trixie /var/tmp/ceph-18     # Ceph 18.2
#   integration/ceph-tree.sh forky  /var/tmp/ceph-20     # Ceph 20.2
#   CAPSTAN_CEPH_TREE=/var/tmp/ceph-18 go test ./integration -run Native
#
# Takes a minute or two and 1.5 GB. The tree can be removed with rm -rf: nothing
# is mounted in it outside of running tests. MIRROR names another Debian mirror.
set -euo pipefail
suite=${1:?usage: ceph-tree.sh SUITE DIR} tree=${2:?usage: ceph-tree.sh SUITE DIR}
say() { printf '==> %s\n' "$*"; }
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # younger than this debootstrap
if [ ! -e "$tree/.capstan-ready" ]; then
  say "debootstrap $suite into $tree"
  debootstrap --variant=minbase "$suite" "$tree" "${MIRROR:-}" "$script" >"$tree.log" 2>&1 || { tail "$tree.log"; exit 1; }
  say "Ceph's packages"
  printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d" # start nothing
  chmod +x "$tree/usr/sbin/policy-rc.d"
  # Some packages want /proc, which the mount namespace takes away again.
  DEBIAN_FRONTEND=noninteractive unshare -m sh -ec 'mount -t proc proc "$1/proc"; exec chroot "$@"' sh "$tree" \
    apt-get install -y -q --no-install-recommends ceph-mon ceph-osd ceph-mds ceph-mgr ceph-common >>"$tree.log" 2>&1 || { tail "$tree.log"; exit 1; }
  touch "$tree/.capstan-ready"
fi
chroot "$tree" ceph-mon --version
