#!/usr/bin/env bash
# Copies a tree with gpufs-cp and compares. Usage: test_cp.sh GPUFS_CP TREE
set -eu
to=$(mktemp -d)
trap 'chmod -R u+rwX "$to" || true; rm -rf "$to"' EXIT  # folders that nobody may write, too
mkdir "$to/tree"
cp -r "$2/." "$to/tree"
: > "$to/tree/empty"
ln -s empty "$to/tree/link"
mkdir -p "$to/tree/below/here"
# This link leads out of the tree. In the copy it leads nowhere.
ln -s ../../../outside "$to/tree/below/here/leads-out"
ln -s nothing "$to/tree/dangles"
ln -s below "$to/tree/folder"
ln "$to/tree/empty" "$to/tree/below/second-name"
: > "$to/outside"
head -c 20000123 /dev/urandom > "$to/tree/large"  # two blocks of work, and some bytes
GPUFS_CACHE_SIZE=4M GPUFS_PAGE_SIZE=16K GPUFS_STAGING_SIZE=1M GPUFS_PREFETCH_MEMORY=1M \
  "$1" "$to/tree" "$to/copy"
diff -r --no-dereference "$to/tree" "$to/copy"
[ "$(readlink "$to/copy/link")" = empty ]
[ "$to/copy/empty" -ef "$to/copy/below/second-name" ]
[ ! "$to/copy/empty" -ef "$to/tree/empty" ]

export GPUFS_CACHE_SIZE=4M GPUFS_STAGING_SIZE=1M GPUFS_PREFETCH_MEMORY=1M
cp=$1
cd "$to"
# refuses TEXT ARGUMENT...: fails, saying that.
refuses() {
  text=$1
  shift
  if "$cp" "$@" 2> message; then echo "gpufs-cp $*: was accepted" >&2; exit 1; fi
  grep -q -- "$text" message || { echo "gpufs-cp $*: said $(cat message), not $text" >&2; exit 1; }
}
# is FILE TEXT
is() { [ "$(cat "$1")" = "$2" ] || { echo "$1: is $(cat "$1"), not $2" >&2; exit 1; }; }

refuses 'missing: No such file or directory' missing nowhere

# A folder takes no descriptor while what is below it is copied.
(mkdir deep && cd deep && for _ in $(seq 120); do mkdir d && cd d; done && echo bytes > file)
(ulimit -n 100 && "$cp" --verbose deep deep-copy) > message
diff -r deep deep-copy
grep -q '^1 files, 6 bytes' message

# Other names of what is replaced keep their bytes: those of a snapshot, or of the source itself.
mkdir old new links own
echo old > old/f; echo newer > new/f; ln old/f links/f
"$cp" new/. links
is old/f old; is links/f newer
echo A > own/a; echo B > own/b; ln own/b links/a
"$cp" own/. links
is own/b B; is links/a A; is links/b B

# What a program prints does not stand in a file, if its standard streams are closed.
mkdir many
for i in $(seq 9); do echo "hello $i" > "many/$i"; done
GPUFS_LOG=debug "$cp" many many-copy <&- >&- 2>&-
diff -r many many-copy

# What fails leaves what was there.
echo precious > there
refuses 'must be more' old/f there --write-memory 0
refuses 'need 16' old/f there --blocks 8 --max-open-files 15
refuses 'must be' old/f there --req 0
is there precious
mkdir -p clash/f
refuses 'is no folder, its target is one' old/f clash
ln -s there alias
refuses 'is the same file as its target' alias alias
refuses 'is the same file as its target' alias .
[ "$(readlink alias)" = there ]
refuses 'is the same file as its target' alias there
mkdir -p leads leads-to
echo kept > leads-to/x
ln -s ../leads-to/x leads/x
refuses 'is the same file as its target' leads/. leads-to
is there precious; is leads-to/x kept
[ ! -L there ] && [ ! -L leads-to/x ]
refuses 'cannot be copied into itself' tree tree/below
refuses 'cannot be copied into itself' / links
# A mount shows the target below the source. Not everybody may mount.
mkdir -p mounted/seen mounted-to
echo f > mounted/f
export cp
# shellcheck disable=SC2016
if unshare --mount true 2> message; then
  unshare --mount sh -c 'mount --bind . mounted/seen && "$cp" mounted/. mounted-to' 2> message ||
    true
  grep -q 'mounted-to: cannot be copied into itself' message
  is mounted-to/f f; [ ! -e mounted-to/seen/mounted-to ]
  rm -r mounted-to
fi
"$cp" alias newalias
[ "$(readlink newalias)" = there ]

# A file that cannot be copied brings none of its names: what is there is another file.
mkdir twice twice-to
head -c 3000000 /dev/zero > twice/a; ln twice/a twice/b
echo old > twice-to/a; echo older > twice-to/b
(ulimit -f 1000; refuses 'which was not copied' twice/. twice-to)
if grep lost message; then echo "bytes of a file of its own are listed" >&2; exit 1; fi
is twice-to/a old; is twice-to/b older

# A program that is stopped leaves links and files as they were, and no files of its own.
mkdir stops stops-to
truncate -s 4G stops/large; ln -s new stops/link
echo old > stops-to/large; ln -s old stops-to/link
# stopped SIGNAL: copies, and sends the signal when a file of its own is there.
stopped() {
  "$cp" stops/. stops-to &
  local one=$!
  while kill -0 $one && [ -z "$(find stops-to -name '.gpufs-cp-*' -print -quit)" ]; do :; done
  kill -s "$1" $one
  wait $one && { echo "SIG$1: the copy went on" >&2; exit 1; }
  is stops-to/large old; [ "$(readlink stops-to/link)" = old ]
  [ -z "$(find stops-to -name '.gpufs-cp-*')" ] || { echo "SIG$1: files are left" >&2; exit 1; }
}
stopped TERM
stopped HUP
# The same while it prepares: for a second there are only empty files.
mkdir stops/many
(cd stops/many; seq 20000 | xargs touch)
stopped TERM
rm -r stops stops-to

# Nothing is written through links of the target, nor into what is no file.
mkdir outside-of-it through source source/sub
echo f > source/sub/f; ln -s ../outside-of-it through/sub
refuses 'is a folder, its target is none' source/. through
[ -z "$(ls outside-of-it)" ]
ln -s outside-of-it/none dangling
"$cp" source/sub/f dangling
is dangling f; [ ! -L dangling ]
mkfifo pipe
refuses 'its target is neither' source/sub/f pipe
[ -p pipe ]

# Contents of a folder named by its end, and permissions.
mkdir -p x/a y/b; echo xf > x/f; echo yf > y/f
"$cp" x/a/.. y/b
is y/f yf; is y/b/f xf
mkdir -m 700 private; echo f > private/f; chmod 444 private/f; mkdir -m 500 private/closed
cp /bin/true private/program; chmod 4755 private/program
"$cp" private seen
[ "$(cd seen && stat -c %a . f closed program | tr '\n' ' ')" = '700 444 500 755 ' ]
mkdir large-tree; head -c 300000 /dev/urandom > large-tree/f
if [ -s /proc/self/status ] || head -c 1 /proc/self/status > ./head 2> message; then
  refuses 'has bytes but no size' /proc/self/status status
fi
# Progress, where stderr is a terminal.
if python3 -c 'import pty' 2> message; then
  python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)' \
    "$cp" large-tree shown > terminal
  grep -q 'copying 1 files' terminal || { echo "no progress: $(cat terminal)" >&2; exit 1; }
fi
"$cp" large-tree quiet 2> message
[ ! -s message ]
[ -z "$(find . -name '.gpufs-cp-*')" ]
