#!/bin/bash
# record-epochs.sh OUT.tar.gz: starts a small Ceph cluster in a network namespace
# of its own, does to it whatever changes the osdmap, stops it, and keeps every
# epoch as the monitor stored it: inc.N and full.N.
#
#   unshare -n cephfs/osdmap/testdata/record-epochs.sh cephfs/osdmap/testdata/epochs-16.tar.gz
#   cp cephfs/osdmap/testdata/record-epochs.sh TREE/tmp &&
#     unshare -nm sh -c 'ip link set lo up; mount -t proc proc TREE/proc; exec chroot TREE /tmp/record-epochs.sh /tmp/epochs-18.tar.gz'
set -u
out=$(readlink -f "$1")
d=$(mktemp -d /tmp/epochs.XXXXXX)
cd "$d" && mkdir -p mon mgr osd run
ip link set lo up 2>/dev/null || true
cat >ceph.conf <<C
[global]
fsid = 11111111-2222-3333-4444-555555555555
mon host = [v2:127.0.0.1:40100,v1:127.0.0.1:40101]
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
keyring = $d/keyring
run dir = $d/run
admin socket = $d/run/\$name.\$pid.asok
pid file = $d/run/\$name.pid
log file = $d/\$name.log
mon data = $d/mon/\$id
mgr data = $d/mgr/\$id
osd data = $d/osd/\$id
osd objectstore = memstore
memstore device bytes = 1073741824
osd crush chooseleaf type = 0
osd pool default pg num = 8
mon max pg per osd = 1000
mon allow pool size one = true
mon allow pool delete = true
mon warn on insecure global id reclaim allowed = false
paxos propose interval = 0.05
paxos min wait = 0.01
mgr modules =
mgr initial modules =
mon pg stuck threshold = 3600
mon osd down out interval = 0
C
export CEPH_CONF=$d/ceph.conf CEPH_ARGS=
# All commands of a batch go through one process: starting it takes the longest.
batch() { timeout 120 ceph >>"$d/commands.log" 2>&1; }
c() { timeout 30 ceph "$@" </dev/null >>"$d/commands.log" 2>&1; }
up() { for _ in $(seq 100); do timeout 10 ceph osd stat 2>/dev/null </dev/null | grep -q "$1 up" && break; sleep 0.3; done; }

ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *' >/dev/null
monmaptool --create --fsid 11111111-2222-3333-4444-555555555555 --addv a '[v2:127.0.0.1:40100,v1:127.0.0.1:40101]' monmap >/dev/null
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -i a
mkdir -p mgr/x && ceph-mgr -i x
for i in 0 1 2 3; do
  u=$(cat /proc/sys/kernel/random/uuid)
  mkdir -p osd/$i
  c osd new "$u" $i
  ceph-osd -i $i --mkfs --osd-uuid "$u" 2>/dev/null
  ceph-osd -i $i 2>/dev/null
done
up 4

batch <<B
osd set-require-min-compat-client luminous
osd pool create rep 8
osd pool set rep size 3
osd erasure-code-profile set k2m1 k=2 m=1 crush-failure-domain=osd
osd pool create ec 8 8 erasure k2m1
osd pool application enable rep rbd
osd pool application set rep rbd key value
osd pool set-quota rep max_bytes 1000000000
osd pool set-quota rep max_objects 1000
osd pool create temp 4
osd pool rename temp renamed
osd pool mksnap renamed s1
osd pool mksnap renamed s2
osd pool rmsnap renamed s1
osd pool set rep pg_num 10
osd pool set rep pgp_num 10
osd pool create cache 4
osd pool create fastec 8 8 erasure k2m1
osd pool set fastec allow_ec_optimizations true
B
id() { timeout 10 ceph osd pool ls detail 2>/dev/null </dev/null | sed -n "s/^pool \([0-9]*\) '$1' .*/\1/p"; }
rep=$(id rep) ec=$(id ec)
batch <<B
osd primary-affinity osd.1 0.5
osd primary-affinity osd.2 0
osd reweight 1 0.7
osd pg-upmap $rep.1 3 2 1
osd pg-upmap-items $rep.2 0 3 1 2
osd pg-upmap-items $ec.3 0 3
osd pg-temp $rep.3 2 1 0
osd pg-temp $ec.1 3 2 1
osd primary-temp $rep.4 2
osd rm-pg-upmap $rep.1
osd rm-pg-upmap-items $ec.3
osd set-require-min-compat-client reef --yes-i-really-mean-it
$(for pg in 5 6 7; do for osd in 0 1 2; do echo "osd pg-upmap-primary $rep.$pg $osd"; done; done)
osd rm-pg-upmap-primary $rep.6
osd pg-temp $rep.3
osd blocklist add 192.0.2.7:0/123
osd blocklist add 192.0.2.8
osd blocklist add 192.0.2.7:0/123 7200
osd blocklist rm 192.0.2.8
osd blocklist range add 198.51.100.0/24
osd blocklist range add 2001:db8::/48
osd blocklist range rm 198.51.100.0/24
osd set noout
osd set pause
osd unset pause
osd set-full-ratio 0.96
osd set-nearfull-ratio 0.8
osd set-backfillfull-ratio 0.91
osd add-noout 2
osd rm-noout 2
osd crush add-bucket rack1 rack
osd crush move rack1 root=default
osd crush set osd.3 2.5 rack=rack1
osd crush rm-device-class 2
osd crush set-device-class ssd 2
osd crush rule create-replicated fast default osd hdd
osd crush weight-set create-compat
osd crush weight-set reweight-compat osd.0 0.5
osd crush reweight osd.0 1.5
osd crush tunables firefly
osd crush tunables optimal
osd pool set rep crush_rule fast
osd tier add rep cache
osd tier cache-mode cache readproxy
osd tier set-overlay rep cache
osd tier remove-overlay rep
osd tier remove rep cache
osd down 1
B
up 4
batch <<B
osd out 2
osd in 2
B
kill "$(cat run/osd.3.pid)"
up 3
batch <<B
osd out 3
osd destroy 3 --force --yes-i-really-mean-it
osd purge 3 --force --yes-i-really-mean-it
osd setmaxosd 6
osd setmaxosd 3
osd pool delete renamed renamed --yes-i-really-really-mean-it
osd erasure-code-profile set other k=2 m=1
osd erasure-code-profile rm other
B
timeout 10 ceph osd dump >dump.txt 2>/dev/null </dev/null
last=$(sed -n 's/^epoch //p' dump.txt)

for p in run/*.pid; do kill "$(cat "$p")" 2>/dev/null; done
for _ in $(seq 50); do pgrep -F run/mon.a.pid >/dev/null 2>&1 || break; sleep 0.2; done
mkdir keep
timeout 60 ceph-kvstore-tool rocksdb mon/a/store.db dump osdmap >dump.kv 2>/dev/null
python3 - <<'P'
# The dump: "osdmap<tab>KEY", then a hex dump in which * repeats a line.
import re
name, data = None, b''
def flush():
    m = re.fullmatch(r'(full_)?(\d+)', name or '')
    if m:
        open('keep/%s.%s' % ('full' if m[1] else 'inc', m[2]), 'wb').write(data)
for line in open('dump.kv'):
    if line.startswith('osdmap\t'):
        flush()
        name, data, last = line.split('\t')[1].strip(), b'', b''
    elif re.match(r'[0-9a-f]{8}', line):
        at = int(line[:8], 16)
        while len(data) < at:
            data += last
        last = bytes.fromhex(line[8:58].replace(' ', ''))
        data += last
flush()
P
tar -C keep --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . | gzip -9n >"$out"
echo "$(ls keep | wc -l) files, last epoch $last, $(stat -c %s "$out") bytes"
if [ -n "${KEEP:-}" ]; then echo "$d"; else cd / && rm -rf "$d"; fi
