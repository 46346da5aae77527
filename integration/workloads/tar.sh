# tar: extract an archive, compare, archive again, extract that.
version tar --version
step pack-source tar -C "$SRC" --sort=name --exclude=socket -cf "$TMP/tree.tar" tree
step extract tar -xpf "$TMP/tree.tar"
show tree "$TOOL" tree -mtime -dirtimes tree
show compare tar -df "$TMP/tree.tar"
step archive tar --sort=name -cf here.tar tree
step sparse tar --sort=name -S -cf sparse.tar tree
show archives sh -c 'for a in here.tar sparse.tar; do tar -tf $a | sha256sum; done'
step again sh -c 'mkdir a b && tar -C a -xpf here.tar && tar -C b -xpSf sparse.tar'
show a "$TOOL" tree -mtime a
show b "$TOOL" tree -mtime b
step pipe sh -c 'mkdir c && tar -C tree -cf - . | gzip | tar -C c -xzpf -'
show c "$TOOL" tree -mtime c
step append sh -c 'echo x >x && tar -rf here.tar x && tar -tf here.tar | tail -n 1 | grep -qx x'
step remove rm -rf tree a b c x here.tar sparse.tar
show left ls -A
