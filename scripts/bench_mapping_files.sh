#!/usr/bin/env bash
# bench_mapping_files.sh OUT_DIR BIN_DIR: on a machine with a GPU, runs the workloads of
# gpufs-mapping that have files: by fread and copies (naive), by a pipeline of threads (hand), in
# managed memory, and mapped (shared). Variants take turns, in three rounds. That takes about four
# minutes.
# BIN_DIR holds gpufs-mapping. Writes one JSON object per run to OUT_DIR/mapping_files.jsonl, and
# prints ratios of times: medians over the rounds, and geometric means over the eight workloads of
# DRAGON. The exit status is not 0 if a step failed.
# GPUFS_BENCH_DIR: where files lie (default /tmp). GPUFS_BENCH_FOOTPRINT: bytes of each workload's
# objects (default 4G). GPUFS_BENCH_UPDATE: those of `update` (default 2G). GPUFS_BENCH_ROUNDS:
# default 3. GPUFS_BENCH_VARIANTS: default naive,hand,managed,shared. GPUFS_BENCH_OPTIONS: more
# options, such as --check, --cold, or --kernel-times for times of kernels alone.
set -uo pipefail
[ $# -eq 2 ] || { echo "usage: $0 OUT_DIR BIN_DIR" >&2; exit 2; }
out=$1
program=$2/gpufs-mapping
[ -x "$program" ] || { echo "$0: no program gpufs-mapping in $2" >&2; exit 2; }
footprint=${GPUFS_BENCH_FOOTPRINT:-4G}
rounds=${GPUFS_BENCH_ROUNDS:-3}
variants=${GPUFS_BENCH_VARIANTS:-naive,hand,managed,shared}
read -ra options <<<"${GPUFS_BENCH_OPTIONS:-}"
export CUDA_MODULE_LOADING=EAGER  # or the first run of a kernel loads it
mkdir -p "$out"
jsonl=$out/mapping_files.jsonl
: >"$jsonl"
failed=0

# run WORKLOAD ARGUMENT...: all variants in turns.
run() {
  local workload=$1 log=$out/mapping_files-$1.log start=$SECONDS
  shift
  if timeout --kill-after=10 150 "$program" "$workload" --footprint "$footprint" \
    --variant "$variants" --runs "$rounds" --folder "${GPUFS_BENCH_DIR:-/tmp}" --json-to "$jsonl" \
    "${options[@]}" "$@" >"$log" 2>&1; then
    echo "ok      $workload ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $workload ($((SECONDS - start)) s); end of $log:"
    tail -5 "$log" | sed 's/^/        /'
  fi
}

run vectorAdd
run BlackScholes
run hotspot
run pathfinder
run srad_v2
run backprop
run binomialOptions --set steps=64
run lavaMD
# All but `shared` write the whole file in each of its rounds.
footprint=${GPUFS_BENCH_UPDATE:-2G}
rounds=1
run update --set rounds=3

echo
awk '
function get(key) {
  if (!match($0, "\"" key "\": [^,}]*")) return 0
  return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4)
}
function text(key) {
  if (!match($0, "\"" key "\": \"[^\"]*")) return ""
  return substr($0, RSTART + length(key) + 5, RLENGTH - length(key) - 5)
}
function median(workload, variant, what, n, i, j, t, v) {
  n = 0
  for (i = 1; i <= runs[workload, variant] && i <= runs[workload, "shared"]; ++i)
    if (time[workload, "shared", i, what] > 0)
      v[++n] = time[workload, variant, i, what] / time[workload, "shared", i, what]
  for (i = 2; i <= n; ++i)
    for (j = i; j > 1 && v[j] < v[j - 1]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
  return n == 0 ? 0 : v[int((n + 1) / 2)]
}
function table(what, title, i, k, w, r, n, sum) {
  printf "%s\n%-16s %14s %14s %14s\n", title, "workload", "naive/shared", "managed/shared",
    "hand/shared"
  for (k = 1; k <= 3; ++k) n[k] = sum[k] = 0
  for (i = 1; i <= count; ++i) {
    w = order[i]
    printf "%-16s", w
    for (k = 1; k <= 3; ++k) {
      r = median(w, variant[k], what)
      printf " %14s", r == 0 ? "-" : sprintf("%.3f", r)
      if (r > 0 && w != "update") { ++n[k]; sum[k] += log(r) }
    }
    printf "\n"
  }
  printf "%-16s", "geometric mean"
  for (k = 1; k <= 3; ++k) printf " %14s", n[k] == 0 ? "-" : sprintf("%.3f", exp(sum[k] / n[k]))
  printf "  (without update)\n\n"
}
BEGIN { split("naive managed hand", variant, " ") }
{
  w = text("workload"); v = text("variant")
  if (!(w in known)) { known[w] = 1; order[++count] = w }
  r = ++runs[w, v]
  time[w, v, r, "whole"] = get("seconds"); time[w, v, r, "kernels"] = get("kernels")
  if (/"verified": false/) wrong = 1
}
END {
  table("whole", "map + kernels + unmap")
  table("kernels", "kernels, with what the CPU does between them (--kernel-times: without it)")
  if (wrong) { print "WRONG RESULTS"; exit 1 }
}' "$jsonl" || failed=$((failed + 1))
echo "$failed failed"
[ $failed -eq 0 ]
