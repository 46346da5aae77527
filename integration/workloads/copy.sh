# cp of sparse and large files.
version cp --version
for mode in auto always never; do
	[ $mode = never ] && [ "$BIGMB" -gt 100 ] && continue
	step "cp --sparse=$mode in" cp --sparse=$mode "$SRC/sparse" in.$mode
	show sum "$TOOL" sum in.$mode
	step "cp here" cp --sparse=$mode in.$mode again.$mode
	show sum "$TOOL" sum again.$mode
	step remove rm again.$mode
done
step cmp cmp in.auto in.always
step out cp --sparse=always in.auto "$TMP/back"
show sum "$TOOL" sum "$TMP/back"
rm "$TMP/back"
step reflink cp --reflink=auto in.auto clone
step truncate truncate -s 1234567 clone
show sum "$TOOL" sum clone
step extend truncate -s 3M clone
show sum "$TOOL" sum clone
step punch-tail sh -c 'printf x | dd of=clone bs=1 seek=5000000 conv=notrunc status=none'
show sum "$TOOL" sum clone
step install install -m 751 clone installed
show mode stat -c '%a %s' installed
step move sh -c 'mkdir d && mv installed d/ && mv d e'
show sum "$TOOL" sum e/installed
step remove rm -rf in.* clone e
show left ls -A
