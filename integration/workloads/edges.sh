# What file systems on a cluster get wrong first.
for c in backup future; do
	mkdir "$c" || exit 1
	show "$c" "$TOOL" posix "$c" "$c"
	step "$c: remove" rm -rf "$c"
done
show left ls -A
