# System calls at the edges of what POSIX says.
for c in unlinked renamed-over excl append-lock names links times modes dirs locks; do
	mkdir "$c" || exit 1
	show "$c" "$TOOL" posix "$c" "$c"
	step "$c: remove" rm -rf "$c"
done
show left ls -A
