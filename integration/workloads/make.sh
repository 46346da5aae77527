# make -j4 of a C project, again with nothing to do, and after changes.
version make --version
version gcc --version
step copy cp -r "$SRC/cproj" proj
cd proj || exit 1
step build make -s -j4
show run ./prog
show objects sh -c 'ls obj/*.o | wc -l'
show question make -q
# A header that all files need, and then one file. What is changed must be newer than what was built, and older than
# what is built then, however long that takes: no time set ahead.
step wait sleep 1.1
step touch touch include/step.h
show rebuilt sh -c 'make -j4 | grep -c -- -c'
show run ./prog
step wait sleep 1.1
step edit sed -i 's/return x;/return x + 1;/' src/f3.c
show rebuilt-one sh -c 'make -j4 | grep -c -- -c'
show run ./prog
show sums "$TOOL" sum prog lib/libf.a
step clean make -s clean
show tree "$TOOL" tree .
cd .. || exit 1
step remove rm -rf proj
show left ls -A
