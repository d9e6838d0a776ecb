#!/usr/bin/env bash
# readme_count.sh PROGRAM: the first program of README.md counts the lines of a file, and says which
# file it cannot read, and which setting is wrong. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
program=$1
export GPUFS_STAGING_SIZE=4M GPUFS_PREFETCH_MEMORY=4M GPUFS_WRITE_MEMORY=0 GPUFS_CACHE_SIZE=4M
cd "$folder" || exit 1
seq 100000 >numbers
said=$("$program" numbers 2>&1)
status=$?
grep -q "no device to run on" <<<"$said" && exit 77
[ $status -eq 0 ] && [ "$said" = 100000 ] || complain "numbers: status $status: $said"
said=$("$program" none 2>&1)
status=$?
[ $status -eq 1 ] && [[ $said == *"none: No such file or directory"* ]] ||
  complain "none: status $status: $said"
said=$(GPUFS_PAGE_SIZE=3000 "$program" numbers 2>&1)
status=$?
[ $status -eq 1 ] && [[ $said == *"GPUFS_PAGE_SIZE=3000: must be a power of two"* ]] ||
  complain "GPUFS_PAGE_SIZE=3000: status $status: $said"
# A misspelt variable is named.
said=$(GPUFS_PAGE_SIZ=4K GPUFS_ROOT=/opt "$program" numbers 2>&1 >count)
[ "$said" = "gpufs: GPUFS_PAGE_SIZ is no setting and is ignored; is GPUFS_PAGE_SIZE meant?" ] ||
  complain "GPUFS_PAGE_SIZ: $said"
[ "$(cat count)" = 100000 ] || complain "GPUFS_PAGE_SIZ: counted $(cat count)"
conclude
