#!/usr/bin/env bash
# vectoradd_program.sh PROGRAM: gpufs-vectoradd in all variants, with --check. Exit status 77: no
# device.
program=$1
# shellcheck source=SCRIPTDIR/../support/analytics.sh
. "$(dirname "$0")/../support/analytics.sh"

seed=$((RANDOM * 32768 + RANDOM))
echo "seed $seed"
verified 8 --variant array,pointer,gread,tiles,zerocopy,copy,pipeline,memory --seed $seed
# Ends within a page, pages smaller and larger than a piece, turns that lie apart, few frames.
settings=(--staging 2M --prefetch-memory 2M --write-memory 2M --rpc-timeout 120s)
for size in 512 4K 16K; do
  verified 3 --variant array,pointer,gread --elements 5003 --seed $seed --stride 3 \
    --page-size $size --cache 128K
done
for elements in 1 4 511; do verified 3 --variant pointer,gread,tiles --elements $elements; done
verified 1 --variant pointer --cold

# Each byte of the inputs is read once, and each of the sums is written once.
verified 1 --variant pointer --prefetch 0 --cache 4M --elements 16384
[[ $said == *'"host_bytes": 262144,'* && $said == *'"host_bytes_written": 131072,'* ]] ||
  complain "bytes: $said"

# Files that stay: inputs are used again, sums are overwritten. Other files are left alone.
verified 1 --data "$folder/in" --output "$folder/c" --elements 1000 --seed 5
made=$(stat -c %Y.%i "$folder/in/a.u64")
verified 1 --data "$folder/in" --output "$folder/c" --elements 1000 --seed 5
[ "$made" = "$(stat -c %Y.%i "$folder/in/a.u64")" ] || complain "a.u64 was made again"
[ "$(stat -c %s "$folder/c")" = 8000 ] || complain "the sums' file: $(stat -c %s "$folder/c")"
printf x | dd of="$folder/in/b.u64" conv=notrunc status=none
refuses "check failed" --data "$folder/in" --elements 1000 --seed 5 --check --runs 1
mkdir "$folder/other"
echo mine >"$folder/other/a.u64"
refuses "was not generated here" --data "$folder/other"
[ "$(cat "$folder/other/a.u64")" = mine ] || complain "a file of another was changed"

mkdir "$folder/loop"
ln -s a.u64 "$folder/loop/a.u64"
refuses "gpufs-vectoradd: $folder/loop/a.u64: Too many levels of symbolic links" \
  --data "$folder/loop"

# What is refused leaves an old file, and an input is no output.
echo precious >"$folder/old"
refuses "--write-memory=0: " --output "$folder/old" --write-memory 0
refuses "must be from 1 to" --output "$folder/old" --elements -1
refuses "--size excludes --elements" --output "$folder/old" --elements 100 --size medium
[[ $("$program" --json --runs 1) == *'"kind": "cuda"'* ]] ||
  refuses "no managed memory" --output "$folder/old" --variant pointer,managed
[ "$(cat "$folder/old")" = precious ] || complain "an old file was emptied"
verified 1 --data "$folder/kept" --elements 1000 --seed 5
sum=$(cksum <"$folder/kept/b.u64")
ln "$folder/kept/b.u64" "$folder/b"
refuses "--output=$folder/b: is the input $folder/kept/b.u64" --output "$folder/b" \
  --data "$folder/kept" --elements 1000 --seed 5
[ "$(cksum <"$folder/kept/b.u64")" = "$sum" ] || complain "an input was written"

refuses "--variant: nothing not in" --variant nothing
refuses "--threads=256: must be a multiple of 32 from 32 to 128" --threads 256
for elements in -1 0; do
  refuses "--elements=$elements: must be from 1 to" --elements $elements
done
for option in --data --output; do
  refuses "gpufs-vectoradd: $option=: must name a file or folder" $option ""
done
refuses "--runs=0: must be from 1 to 1000" --runs 0
refuses "--output=$folder/none/c: No such file" --output "$folder/none/c"
mkfifo "$folder/pipe"
refuses "--output=$folder/pipe: must be a regular file" --output "$folder/pipe"
refuses "--elements=99999999999999999999: has more than 64 bits" --elements 99999999999999999999
refuses "--seed=-1: must be at least 0" --seed -1
refuses "--drives=1: is of the variants array, pointer and gread" --drives 1 --variant zerocopy
# Files that do not fit are not begun. Few machines have room for these.
free=$(($(stat -f -c '%f * %S' "$folder")))
[ $free -ge $((8 << 40)) ] || {
  refuses "(TMPDIR): needs 8T, has " --elements $((1 << 40))
  refuses "$folder/in (--data): needs " --elements $((1 << 40)) --data "$folder/in"
}
[ -e "$folder/in/a.u64" ] || complain "files that were there are gone"
TMPDIR=$folder/none refuses "$folder/none, the folder of temporary files (TMPDIR): No such file"
[[ $("$program" --json --runs 1) == *'"kind": "cuda"'* ]] ||
  refuses "the emulated device has no managed memory" --variant managed
conclude
