# git: clone, fsck, gc, branch, commit, merge, worktree, push.
version git --version
git config --global user.name Lab
git config --global user.email lab@example.net
git config --global init.defaultBranch main
git config --global safe.directory '*'
git config --global pack.threads 1
export GIT_COMMITTER_DATE='2024-02-01T00:00:00Z' GIT_AUTHOR_DATE='2024-02-01T00:00:00Z'
step clone git clone -q --no-local "$SRC/repo.git" clone
cd clone || exit 1
show head git rev-parse HEAD
show count git rev-list --count --all
step fsck git fsck --full
show status git status --porcelain
show files "$TOOL" tree -skip .git .
step branch git checkout -q -b work HEAD~50
step edit sh -c 'for f in d0/*/*.txt d1/*/*.txt; do echo changed >>"$f"; done; rm -rf d2; echo new >new; chmod +x new'
show changes git status --porcelain
step add git add -A
step commit git commit -q -m 'on work'
step merge git merge -q -s ours -m merged main
step gc git gc -q --aggressive --prune=now
show objects sh -c 'git count-objects -v | grep -E "^(count|in-pack|packs|prune|garbage)"'
step fsck-after-gc git fsck --full --strict
step worktree git worktree add -q ../tree main
show worktree-status git -C ../tree status --porcelain
step init git init -q --bare ../bare.git
step push git push -q ../bare.git --all
show pushed git -C ../bare.git rev-parse work
step reset git reset -q --hard main
show after-reset git rev-parse HEAD^{tree}
step stash sh -c 'echo x >>new2; git add new2; git stash -q; git stash pop -q; git rm -qf new2'
show clean git status --porcelain
cd .. || exit 1
step remove rm -rf clone tree bare.git
show left ls -A
