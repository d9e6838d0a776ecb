#!/usr/bin/env bash
# bench_mapping.sh OUT_DIR BIN_DIR [SIZE]: checks the programs of gpufs-mapping, measures them by
# hand and on shared memory, in turns, and makes the figures of ADSM's paper. Writes a JSON object
# per run to OUT_DIR/*.jsonl, and the tables to OUT_DIR/table.txt. SIZE is paper, or smoke where
# there is no GPU.
set -euo pipefail
out=$1
program=$2/gpufs-mapping
size=${3:-paper}
mkdir -p "$out"
rm -f "$out"/*.jsonl "$out/table.txt"

# bench NAME ARGUMENT...: medians to the table, runs to NAME.jsonl. A part that fails, or takes too
# long, does not keep the others from running.
failures=0
bench() {
  local name=$1
  shift
  if ! timeout 100 "$program" "$@" --dir "$out" --json-to "$out/$name.jsonl" --summary; then
    echo "FAILED: $name: gpufs-mapping $*"
    failures=$((failures + 1))
  fi
}
everything() {
  echo "== Checks: results at this size, and counters"
  for w in "${workloads[@]}"; do
    bench check "$w" --size "$size" --variant shared --protocol rolling --check
  done
  echo "== All programs, launches declare what they use"
  for w in "${workloads[@]}"; do
    bench declared "$w" --size "$size" --variant hand,shared --declare --runs 5 --warm-up
  done
  echo "== The figures of ADSM's paper"
  "$2/gpufs" bench mapping --figure adsm7 adsm8 adsm9 adsm10 adsm11 adsm12 --size "$size" \
    --out "$out" --folder "$out" || failures=$((failures + 1))
  echo "== Figure 12: tpacf, three streams; small, as rolling sizes 1 and 2 fault at each element"
  bench figure12-small tpacf "${few[@]}" --variant hand,shared --rolling 1,2,4,auto --block 64K
}

workloads=(vecadd wave lists cp tpacf mri-q mri-fhd pns sad rpes)
if [ "$size" = paper ]; then
  few=(--size 2048 --set sets=20)
else
  few=(--size smoke)
fi
everything > >(tee "$out/table.txt") 2>&1
wait
echo "$failures parts failed"
[ "$failures" -eq 0 ]
