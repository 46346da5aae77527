# sqlite in each rollback-journal mode, with several processes at once.
echo "version: $(sqlite3 --version | cut -d' ' -f1)"
for mode in delete truncate persist memory off; do
	db=$mode.db
	show "$mode: create" sqlite3 $db "PRAGMA journal_mode=$mode; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INTEGER); CREATE INDEX i ON t(n);"
	show "$mode: insert" sqlite3 $db "PRAGMA journal_mode=$mode; BEGIN; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<2000) INSERT INTO t SELECT x, printf('row %d', x*x), x%97 FROM c; COMMIT;"
	[ $mode = off ] || show "$mode: rollback" sqlite3 $db "PRAGMA journal_mode=$mode; BEGIN; DELETE FROM t WHERE n<50; ROLLBACK; SELECT count(*) FROM t;"
	show "$mode: update" sqlite3 $db "PRAGMA journal_mode=$mode; UPDATE t SET v=v||'!' WHERE n=5; DELETE FROM t WHERE n=6; VACUUM;"
	show "$mode: read" sqlite3 $db "SELECT count(*), sum(n), max(v) FROM t; PRAGMA integrity_check;"
done
# Four processes count together: lost updates would show.
sqlite3 count.db 'CREATE TABLE c(n); INSERT INTO c VALUES(0);'
for p in 1 2 3 4; do
	(
		i=0
		while [ $i -lt "$TXNS" ]; do
			sqlite3 -cmd '.timeout 60000' count.db 'BEGIN IMMEDIATE; UPDATE c SET n=n+1; COMMIT;' || echo "process $p failed"
			i=$((i + 1))
		done
	) >"$TMP/count.$p" 2>&1 &
done
wait
cat "$TMP"/count.?
show counted sqlite3 count.db 'SELECT n FROM c; PRAGMA integrity_check;'
show dump sh -c 'sqlite3 delete.db .dump | sha256sum'
show files sh -c 'ls -A | grep -v -- -journal'
step remove sh -c 'rm -f *'
show left ls -A
