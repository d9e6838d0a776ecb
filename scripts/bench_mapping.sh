#!/usr/bin/env bash
# bench_mapping.sh OUT_DIR BIN_DIR [SIZE]: the programs of gpufs-mapping by hand and on shared
# memory, in turns, and the sweeps of ADSM's figures 9, 11 and 12. Writes a JSON object per run to
# OUT_DIR/*.jsonl, and the tables to OUT_DIR/table.txt. SIZE is paper, or smoke where there is no
# GPU.
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
  echo "== All programs: shared / by hand, median of the rounds' ratios"
  for w in "${workloads[@]}"; do
    bench programs "$w" --size "$size" --variant hand,shared --protocol rolling,lazy,batch \
      --runs 5 --warm-up
    bench declared "$w" --size "$size" --variant hand,shared --declare --runs 5 --warm-up
  done
  echo "== Figure 11: vector addition, bytes of a block"
  bench figure11 vecadd "${vectors[@]}" --variant hand,shared --runs 5 --warm-up \
    --block 4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M,8M,16M,32M
  echo "== Figure 9: wave, rolling with blocks of 64K against lazy"
  for n in "${edges[@]}"; do
    echo "n = $n"
    bench figure9 wave --size "$n" --variant hand,shared --protocol rolling,lazy --block 64K \
      --runs 3 --warm-up
  done
  echo "== Figure 12: tpacf, three streams; small, as rolling sizes 1 and 2 fault at each element"
  bench figure12-small tpacf "${few[@]}" --variant hand,shared --rolling 1,2,4,auto --block 64K
  bench figure12 tpacf --size "$size" --variant hand,shared --rolling 4,auto \
    --block 128K,1M,8M,32M --runs 3 --warm-up
}

workloads=(vecadd wave lists cp tpacf mri-q mri-fhd pns sad rpes)
if [ "$size" = paper ]; then
  vectors=(--size 8M)
  edges=(64 128 192 256 384)
  few=(--size 2048 --set sets=20)
else
  vectors=(--size smoke)
  edges=(9 13)
  few=(--size smoke)
fi
everything > >(tee "$out/table.txt") 2>&1
wait
echo "$failures parts failed"
[ "$failures" -eq 0 ]
