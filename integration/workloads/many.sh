# find and rm -rf over many entries.
version find --version
step create "$TOOL" many m "$COUNT"
show counts sh -c 'find m -type f | wc -l; find m -type d | wc -l'
show names sh -c 'find m | sort | sha256sum; ls -f m/flat | sort | uniq -d | wc -l'
show stat sh -c 'find m -type f -size 0 -perm 644 | wc -l'
show du sh -c 'find m -type f -printf "%s\n" | sort -u'
step remove-some find m/flat -name '*7' -delete
show left-over sh -c 'find m -type f | wc -l'
step remove rm -rf m
show left ls -A
