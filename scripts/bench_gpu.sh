#!/usr/bin/env bash
# bench_gpu.sh OUT_DIR [BIN_DIR]: on a machine with a GPU, runs all suites, compute-sanitizer on a
# small run, and the benchmarks of docs/benchmarks.md. That takes about ten minutes.
# BIN_DIR holds the programs (default: the folder of this script, or build/cuda/bin). It may have
# been copied from another machine.
# Writes one JSON object per benchmark to OUT_DIR/bench.jsonl and every step's output beside it, and
# prints a table. The exit status is not 0 if a step failed.
# GPUFS_BENCH_DIR: where the test file lies (default /tmp). GPUFS_BENCH_SIZE: its size (default 2G).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: $0 OUT_DIR [BIN_DIR]" >&2; exit 2; }
out=$1
bin=${2:-$here}
[ -x "$bin/gpufs" ] || bin=$here/../build/cuda/bin
[ -x "$bin/gpufs" ] || {
  echo "$0: no program gpufs in ${2:-$here} or $bin: name its folder as BIN_DIR" >&2
  exit 2
}
dir=${GPUFS_BENCH_DIR:-/tmp}
size=${GPUFS_BENCH_SIZE:-2G}
mkdir -p "$out"
jsonl=$out/bench.jsonl
: >"$jsonl"
passed=0
failed=0

# step NAME SECONDS COMMAND...: output to OUT_DIR/NAME.log; its last lines are shown if it fails.
step() {
  local name=$1 limit=$2 log=$out/$1.log start=$SECONDS
  shift 2
  if timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - start)) s)"
  else
    local status=$?
    failed=$((failed + 1))
    echo "FAILED  $name (exit status $status, $((SECONDS - start)) s); end of $log:"
    tail -5 "$log" | sed 's/^/        /'
    return $status
  fi
}

# bench LABEL ARGUMENT...: one benchmark; its JSON object gets the label.
bench() {
  local label=$1
  shift
  step "bench-$label" 60 "$bin/gpufs" bench "$@" --json || return
  sed -n "s/^{\"name\"/{\"label\": \"$label\", \"name\"/p" "$out/bench-$label.log" >>"$jsonl"
}

# ratios SET ARGUMENT...: compares gpufs with limits and with other ways, in one process, and shows
# the table.
ratios() {
  local set=$1
  shift
  step "ratios-$set" 200 "$bin/gpufs" bench ratios --set "$set" "$@" &&
    sed -n '/^gpufs bench ratios/,$p' "$out/ratios-$set.log"
}

# mosaic FOLDER: a mosaic of medium size, and the comparison of its variants. It reads 1 GiB of
# histograms through a cache of a quarter of that.
mosaic() {
  step mosaic-generate 60 "$bin/mosaic" generate --data "$1" --size medium --histograms-only
  step mosaic-index 60 "$bin/mosaic" index --data "$1" && cat "$out/mosaic-index.log"
  step mosaic 120 "$bin/mosaic" make --data "$1" --size medium --cache 256M --prefetch 0 \
    --mode gread,cpu,cpuio --host-reads mmap --hist-page-size 4K,64K --runs 5 --check
  grep -E '^[a-z]' "$out/mosaic.log"
}

step info 30 "$bin/gpufs" info && sed -n 1,2p "$out/info.log"
if [ -x "$bin/run-gpu-suites" ]; then
  step suites 240 "$bin/run-gpu-suites"
  tail -1 "$out/suites.log"
fi

# A small run under the sanitizer: misses, evictions and hits, with and without a team of warps for
# each page.
sanitizer=$(command -v compute-sanitizer ||
  ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck; do
    for page in 4K 64K; do
      step "$tool-$page" 90 "$sanitizer" --tool $tool --error-exitcode 9 \
        "$bin/gpufs" bench seq --dir "$dir" --size 4M --blocks 8 --threads 128 \
        --page-size $page --cache 1M --staging 8M --prefetch-memory 16M --runs 1 --no-limits \
        --rpc-timeout 60s
    done
  done
else
  echo "no compute-sanitizer here: memcheck and racecheck not run"
fi

# One file for all: written once, warm in the OS page cache.
file=$(mktemp "$dir/gpufs-bench-XXXXXX")
trap 'rm -rf "$file" "${folder:-}"' EXIT
trap 'exit 1' INT TERM HUP
blocks=$(($(numfmt --from=iec "$size") / 16777216))
step write-file 60 dd if=/dev/urandom of="$file" bs=16M iflag=fullblock count="$blocks" \
  conv=fsync status=none
common=(--file "$file" --blocks 120 --threads 512)
hits=(--file "$file" --blocks 264 --threads 256)
random=("${common[@]}" --page-size 4K --req 4K --prefetch 0 --no-limits)
write=(--blocks 120 --threads 512 --page-size 64K --cache 1G)
bench seq-4K seq "${common[@]}" --page-size 4K --prefetch 0 --cache 1G
bench seq-4K-ahead seq "${common[@]}" --page-size 4K --cache 1G --no-limits
bench seq-64K seq "${common[@]}" --page-size 64K --prefetch 0 --cache 1G
bench hit-4K hit "${hits[@]}" --page-size 4K --cache 3G --req 64K
bench hit-64K hit "${hits[@]}" --page-size 64K --cache 3G --req 64K
bench hit-4K-120x512 hit "${common[@]}" --page-size 4K --cache 3G --req 64K --no-limits
bench hit-64K-120x512 hit "${common[@]}" --page-size 64K --cache 3G --req 64K --no-limits
bench rand-4K rand "${random[@]}" --cache 1G --bytes 1G
for way in warp zipf; do
  option=(--level warp)
  [ $way = zipf ] && option=(--distribution zipf)
  bench "rand-4K-$way" rand "${random[@]}" --cache 1G --bytes 1G "${option[@]}"
done
for way in gmmap array async; do
  bench "rand-4K-$way" rand "${random[@]}" --cache 1G --bytes 1G --access "$way" --level warp
done
bench rand-4K-hot rand "${random[@]}" --cache 3G --hot
bench rpc rpc --blocks 120
ratios sequential --file "$file" --blocks 120 --threads 512
ratios random --file "$file" --blocks 120 --threads 512
ratios array --dir "$dir" --size 4G --blocks 120 --threads 512 --page-size 64K
step patterns 400 "$bin/gpufs" bench patterns --folder "$dir" --json "$out/patterns.json" &&
  cat "$out/patterns.log"
step nvme 150 "$bin/gpufs" bench nvme --dir "$dir" --json "$out/nvme.json" && cat "$out/nvme.log"
folder=$(mktemp -d "$dir/gpufs-mosaic-XXXXXX")
mosaic "$folder"
rm -rf "$folder"
for place in "$dir" /dev/shm; do
  name=write-${place##*/}
  bench "$name" write --dir "$place" --size 2G "${write[@]}" --runs 3
  bench "$name-random" write --dir "$place" --size 2G "${write[@]}" --random-order --runs 3
  bench "$name-once" write --dir "$place" --size 2G "${write[@]}" --once --runs 3
done
bench write-8G write --dir "$dir" --size 8G "${write[@]}" --runs 1 --no-limits

echo
awk '
function get(key) {
  if (!match($0, "\"" key "\": [^,}]*")) return "-"
  return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4)
}
BEGIN {
  row = "%-18s %10s %9s %10s %9s %9s %10s %9s %9s %8s\n"
  printf row, "benchmark", "GB/s", "of pull", "pull GB/s", "DMA GB/s", "1 thread", "pipelined",
    "copy GB/s", "host GB/s", "verified"
}
{
  split($0, part, "\""); label = part[4]
  if (label == "rpc") {
    rpc = get("round_trip_us")
    rate = get("round_trips_per_second_all_blocks")
    next
  }
  printf row, label, get("GBps"), get("of_pull_limit"), get("pull_limit_GBps"),
    get("dma_limit_GBps"), get("cpuio_GBps"), get("pipelined_GBps"), get("copy_kernel_GBps"),
    get("host_GBps"), get("verified")
}
END {
  if (rpc == "") exit
  printf "rpc            one block: %s us a round trip; ", rpc
  printf "120 blocks: %s round trips per second\n", rate
}' "$jsonl"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
