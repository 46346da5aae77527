# What every workload begins with. A workload runs in an empty directory of the file system under test and prints a
# report which must be the same on every file system: exit codes and results, no times, inode numbers or paths.
# SRC holds inputs made by the harness, TOOL is labtool, TMP a local scratch directory.
set -u
export LC_ALL=C TZ=UTC HOME="$TMP" GIT_CONFIG_NOSYSTEM=1

# step NAME COMMAND...: run a command, report its exit code and, if it failed, what it said.
step() {
	step_name=$1
	shift
	"$@" >"$TMP/out" 2>&1
	step_rc=$?
	echo "$step_name: exit $step_rc"
	[ $step_rc = 0 ] || sed "s,$TMP,TMP,g; s/^/  | /" "$TMP/out" | tail -20
	return 0
}

# show NAME COMMAND...: run a command, report its exit code and its standard output.
show() {
	step_name=$1
	shift
	"$@" >"$TMP/out" 2>"$TMP/err"
	step_rc=$?
	echo "$step_name: exit $step_rc"
	sed 's/^/  /' "$TMP/out"
	[ $step_rc = 0 ] || sed "s,$TMP,TMP,g; s/^/  | /" "$TMP/err" | tail -20
	return 0
}

# version PROGRAM: its first line.
version() {
	echo "version: $("$@" 2>&1 | head -n 1)"
}
