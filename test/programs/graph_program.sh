#!/usr/bin/env bash
# graph_program.sh PROGRAM: gpufs-graph makes graphs and searches them in all variants, with
# --check. Exit status 77: no device.
program=$1
# shellcheck source=SCRIPTDIR/../support/analytics.sh
. "$(dirname "$0")/../support/analytics.sh"

# made NAME ARGUMENT...: makes the graph NAME.
made() {
  local name=$1
  shift
  said=$("$program" make --file "$folder/$name" "$@" 2>&1) || complain "make $*: $said"
}

seed=$((RANDOM * 32768 + RANDOM))
echo "seed $seed"
for generator in kron urand social dense deep grid; do
  made $generator --generator $generator --scale 7 --seed $seed
  for search in "bfs --frontier scan --sources 2 --seed $seed" \
    "bfs --frontier queue --sources 2 --seed $seed" cc; do
    # shellcheck disable=SC2086
    verified 3 run --file "$folder/$generator" --algorithm $search \
      --variant array,pointer,gread
  done
done
for search in "bfs --frontier scan --sources 1 --seed $seed" \
  "bfs --frontier queue --sources 1 --seed $seed" cc; do
  # shellcheck disable=SC2086
  verified 8 run --file "$folder/kron" --algorithm $search \
    --variant array,pointer,gread,zerocopy,copy,pipeline,memory,pointer --stride 7 --hot
done
# Few frames, small and large pages, a cold file.
settings=(--staging 2M --prefetch-memory 2M --write-memory 2M --rpc-timeout 120s)
for size in 512 4K 64K; do
  verified 3 run --file "$folder/social" --variant array,pointer,gread --page-size $size \
    --cache $((8 * ${size/K/*1024})) --sources 1 --advice normal
done
verified 1 run --file "$folder/urand" --cold --algorithm cc

# Levels and components that are known: a path of five vertices, a pair, and one alone.
printf '# a comment\n0 1\n2 1 0.5\n\n\t3\t2\r\n3 4\n6 7\n6 6' >"$folder/path.txt"
made path --input "$folder/path.txt"
[[ $said == *" 8 vertices, 10 edges "* ]] || complain "path: $said"
verified 1 run --file "$folder/path" --source 4
[[ $said == *'"passes": [5], "reached": [5]'* ]] || complain "levels of a path: $said"
verified 1 run --file "$folder/path" --algorithm cc
[[ $said == *'"components": [3]'* ]] || complain "components: $said"
{
  echo '%%MatrixMarket matrix coordinate pattern symmetric'
  printf '%% a comment\n5 5 4\n2 1\n3 2\n4 3\n5 4\n'
} >"$folder/path.mtx"
made matrix --input "$folder/path.mtx"
verified 1 run --file "$folder/matrix" --source 0
[[ $said == *'"passes": [5], "reached": [5]'* ]] || complain "a matrix: $said"

# input TEXT: a file with this text as an edge list.
input() { printf '%b' "$1" >"$folder/bad" && echo "$folder/bad"; }
refuses 'line 2: must have a number from 0 to 4294967295 here: "x 3"' \
  make --file "$folder/g" --input "$(input '1 2\nx 3\n')"
refuses 'line 1: must have a number from 0 to 4294967295 here: "-1"' \
  make --file "$folder/g" --input "$(input '1 -1\n')"
refuses 'line 1: must have a number' make --file "$folder/g" --input "$(input '1\n2 3\n')"
refuses 'must have an edge' make --file "$folder/g" --input "$(input '# none\n')"
matrix='%%MatrixMarket matrix coordinate real general\n'
refuses 'line 3: must have a number from 1 to 4 here: "5' \
  make --file "$folder/g" --input "$(input "${matrix}3 4 1\n1 5 0.1\n")"
refuses 'the file ends after 1 of 2 entries' \
  make --file "$folder/g" --input "$(input "${matrix}3 4 2\n1 4 0.1\n")"
refuses 'the coordinate format' \
  make --file "$folder/g" --input "$(input '%%MatrixMarket matrix array real general\n3 3\n')"
refuses "No such file" make --file "$folder/g" --input "$folder/none"
# A place where the file cannot be is refused before a graph is made, which would take memory.
refuses "--file=$folder/none/g: there is no folder $folder/none" make --file "$folder/none/g" \
  --scale 32
refuses "--file=$folder: is a folder" make --file "$folder" --scale 32
[ $(($(stat -f -c '%f * %S' "$folder"))) -ge $((7 << 40)) ] ||
  refuses "$folder (--file): needs " make --file "$folder/g" --scale 32 --generator dense
refuses "--scale=40: must be from 4 to 32" make --file "$folder/g" --scale 40
echo mine >"$folder/mine"
refuses "--file=$folder/mine: is there, and is no graph file" make --file "$folder/mine"
[ "$(cat "$folder/mine")" = mine ] || complain "a file that is no graph was replaced"
# Few machines have memory for this one.
[ "$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)" -gt $((32 << 20)) ] ||
  refuses "4294967296 vertices and 1 edges take 34359738392 bytes of host memory" \
    make --file "$folder/g" --input "$(input '0 4294967295\n')"
refuses "excludes" make --file "$folder/g" --scale 8 --input "$folder/path.txt"
[ ! -e "$folder/g" ] || complain "a graph was made from wrong input"

# What is there stays a link, keeps its permissions, or is refused.
made linked --scale 4
chmod 600 "$folder/linked"
ln -s linked "$folder/link"
mkfifo "$folder/pipe"
made link --scale 5
[ -L "$folder/link" ] && [ "$(stat -c %a "$folder/linked")" = 600 ] ||
  complain "a link was replaced"
verified 1 run --file "$folder/linked"
refuses "pipe: must be a regular file" make --file "$folder/pipe" --scale 32
[ -p "$folder/pipe" ] || complain "a pipe was replaced"

# Files that are no graphs, or are damaged.
refuses "must be a graph file" run --file "$folder/path.txt"
refuses "No such file" run --file "$folder/none"
refuses "gpufs-graph: --file=: must name a file or folder" run --file ""
refuses "gpufs-graph: --input=: must name a file or folder" make --file "$folder/g" --input ""
cp "$folder/kron" "$folder/damaged"
truncate -s -8 "$folder/damaged"
refuses "must have " run --file "$folder/damaged"
cp "$folder/kron" "$folder/damaged"
printf '\377\377' | dd of="$folder/damaged" bs=1 seek=$(($(stat -c %s "$folder/kron") - 3)) \
  conv=notrunc status=none
refuses "its checksum is" run --file "$folder/damaged" --check
refuses "leads to a vertex beyond the last one" run --file "$folder/damaged" --algorithm cc
refuses "--source=128: must be from 0 to 127" run --file "$folder/kron" --source 128
refuses "--source=-1: must be from 0 to 127" run --file "$folder/kron" --source=-1
# Options that mean nothing beside others.
refuses "--sources excludes --source" run --file "$folder/kron" --source 3 --sources 64
refuses "--frontier=queue: is of --algorithm=bfs" run --file "$folder/kron" --algorithm cc \
  --frontier queue
for search in "--algorithm cc" "--source 5"; do
  # shellcheck disable=SC2086
  refuses "--seed=3: is of the random sources of --algorithm=bfs" run --file "$folder/kron" \
    $search --seed 3
done
for option in --hot --advice=normal; do
  refuses "$option: is of the variants array, pointer and gread" run --file "$folder/kron" \
    --variant copy $option
done
refuses "--sources=2: is of --algorithm=bfs" run --file "$folder/kron" --algorithm cc --sources 2
conclude
