# rsync: copy a tree with everything in it, again, with deletions, and back.
version rsync --version
opts=-aH
[ "$XATTR" = 0 ] || opts=-aHX
cp -a "$SRC/tree" in
if [ "$XATTR" != 0 ]; then
	setfattr -n user.lab -v one in/dir00/file01 in/dir01 || echo "no user xattrs on the input"
	setfattr -n user.long -v "$(head -c 2000 /dev/zero | tr '\0' x)" in/dir02/deep/deep/file03
	touch -h -d '2024-01-05 01:02:03.456789' in/dir00/file01 in/dir01
fi
step copy rsync $opts in/ out/
show tree "$TOOL" tree -mtime -dirtimes $([ "$XATTR" = 0 ] || echo -xattr) out
show again rsync $opts -i in/ out/
rm -rf in/dir03 in/mode4
echo more >>in/dir00/file02
touch -d '2024-01-06' in/dir00/file02
touch -d '2024-01-06' in
show delete rsync $opts -i --delete in/ out/
step checksum rsync $opts -c --delete in/ out/
# Local scratch may be without extended attributes.
step back rsync -aH out/ "$TMP/back/"
show compared diff -r --no-dereference --exclude=fifo --exclude=socket --exclude=char --exclude=block in "$TMP/back"
step inplace rsync $opts --inplace --no-whole-file -c "$SRC/tree/" out/
show tree-in-place "$TOOL" tree out
step remove rm -rf in out
show left ls -A
