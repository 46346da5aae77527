# vim, and saving as editors do.
echo "version: $(vim --version | head -n 1 | cut -d'(' -f1)"
printf 'first\nsecond\nthird\n' >doc
chmod 640 doc
for copy in no yes auto; do
	step "vim backupcopy=$copy" vim -u NONE -es -N -c "set backup writebackup backupcopy=$copy backupdir=. swapfile directory=." -c '%s/second/2nd '$copy'/' -c "normal Goline $copy" -c wq doc
	show doc cat doc
done
show backup sh -c 'cat doc~; stat -c %a doc'
step sed sed -i 's/first/1st/' doc
show doc cat doc
step ln ln doc link
step vim-link vim -u NONE -es -N -c 'set backupcopy=auto' -c 'normal Glinked' -c wq doc
show linked sh -c 'stat -c %h doc; cmp doc link'
mkdir save
show save "$TOOL" posix save save
show entries ls -A
step remove sh -c 'rm -rf doc* link save'
show left ls -A
