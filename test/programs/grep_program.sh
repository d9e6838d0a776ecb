#!/usr/bin/env bash
# grep_program.sh GPUFS_GREP: the program gpufs-grep. It counts as grep does, and says which files
# it does not search.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
grep=$1
export GPUFS_CACHE_SIZE=1M GPUFS_STAGING_SIZE=1M GPUFS_PREFETCH_MEMORY=1M

# says STATUS TEXT ARGUMENT...: ends with that status, and says that text.
says() {
  local status=$1 wanted=$2 said got
  shift 2
  said=$("$grep" "$@" 2>&1)
  got=$?
  [ $got -eq "$status" ] || complain "$*: status $got, not $status: $said"
  [[ $said == *"$wanted"* ]] || complain "$*: said $said, not $wanted"
}
mkdir "$folder/tree"
printf 'a word\nwords\nword' >"$folder/tree/two"
: >"$folder/tree/empty"
says 0 "$folder/tree/two:2" word "$folder/tree"
says 0 "counts of 2 files equal the host's" word "$folder/tree" --verify
says 1 "$folder/tree/empty:0" absent "$folder/tree"
# A stderr that takes nothing costs no status.
"$grep" word "$folder/tree" 2>/dev/full >/dev/null || complain "stderr is full: status $?"
"$grep" word "$folder/tree" 2>&- >/dev/null || complain "stderr is closed: status $?"

# Operands that are neither file nor folder, and files that only seem to be empty.
says 2 "/dev/null: is neither file nor folder" word /dev/null "$folder/tree"
mkfifo "$folder/pipe"
says 2 "$folder/pipe: is neither file nor folder" word "$folder/pipe"
says 2 "$folder/none: No such file or directory" word "$folder/none"
# What was not compared is not verified.
says 2 "no file was compared" word "$folder/none" --verify
says 2 "counts of 2 files equal the host's" word "$folder/tree" "$folder/none" --verify
mkdir "$folder/bare"
says 1 "no file was compared" word "$folder/bare" --verify
says 1 '"verified": false' word "$folder/bare" --verify --json --no-limits
says 2 '"verified": false' word "$folder/tree" "$folder/none" --verify --json --no-limits
says 0 '"verified": true' word "$folder/tree" --verify --json --no-limits
says 0 '"verified": false' word "$folder/tree" --json --no-limits
# A folder takes no descriptor while what is below it is listed.
(mkdir "$folder/deep" && cd "$folder/deep" && for _ in $(seq 120); do mkdir d && cd d; done &&
  echo a word >file)
(ulimit -n 100 && says 0 "/d/d/file:1" word "$folder/deep"; [ $failures -eq 0 ]) ||
  complain "a deep tree"
if [ -s /proc/self/status ] || [ -n "$(head -c 1 /proc/self/status 2>/dev/null)" ]; then
  says 2 "/proc/self/status: has bytes but no size" Name /proc/self/status
fi

says 2 "--no-limits: is of --json" word "$folder/tree" --no-limits

# Arguments that are not expected are named in their order.
says 2 "arguments were not expected: --one --two --three" word "$folder/tree" --one --two --three
conclude
