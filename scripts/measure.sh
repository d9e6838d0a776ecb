#!/usr/bin/env bash
# measure.sh OUT_DIR [BIN_DIR]: on a machine with a GPU, measures the figures of README.md and
# docs/python.md, and writes their JSON to OUT_DIR. Copied to docs/results, scripts/results.py makes
# tables of it. That takes about eight minutes, and 10 GB in GPUFS_BENCH_DIR (default /tmp). BIN_DIR
# is that of bench_gpu.sh. Those of docs/python.md need a python3 that has gpufs and PyTorch.
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
runs=${GPUFS_BENCH_ROUNDS:-5}
mkdir -p "$out"
failed=0

# measure NAME ARGUMENT...: one object to NAME.json, the program's notes to NAME.log.
measure() {
  local name=$1 started=$SECONDS
  shift
  if "$bin/gpufs" bench "$@" >"$out/$name.log" 2>&1; then
    echo "ok      $name ($((SECONDS - started)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - started)) s); end of $out/$name.log:"
    tail -5 "$out/$name.log" | sed 's/^/        /'
  fi
}
measure patterns patterns --folder "$dir" --rounds "$runs" --json "$out/patterns.json"
# cuFile comes with PyTorch, too: GPUFS_CUFILE names the folder of its library. Also without the
# nvidia-fs driver it asks udev for the file system of the disk. Where no udev runs, it needs a file
# /run/udev/data/bMAJOR:MINOR with the lines E:ID_FS_TYPE=ext4 and E:ID_FS_USAGE=filesystem.
if [ -n "${GPUFS_CUFILE:-}" ]; then
  export LD_LIBRARY_PATH=$GPUFS_CUFILE${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
measure peers peers --dir "$dir" --runs "$runs" --json
sed -n '/^{"name"/p' "$out/peers.log" >"$out/peers.json"
for set in sequential random array; do
  settings=()
  if [ $set = array ]; then settings=(--page-size 64K); fi
  measure "ratios-$set" ratios --set $set --dir "$dir" --runs "$runs" --json "${settings[@]}"
  sed -n '/^{"name"/p' "$out/ratios-$set.log" >"$out/ratios-$set.json"
done
# From /: a folder named gpufs or torch in the current one is no package.
if why=$(cd / && python3 -c '
import gpufs, torch
if gpufs.device_kind != "cuda" or not torch.cuda.is_available():
    raise SystemExit("gpufs or torch there is for no GPU")' 2>&1); then
  started=$SECONDS
  if TMPDIR=$dir python3 "$here/../python/bench/records.py" --size 4G --batch 100000 --batches 1 \
    --rounds "$runs" --program "$bin/gpufs" --json "$out/records.json" >"$out/records.log" 2>&1
  then
    echo "ok      records ($((SECONDS - started)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  records ($((SECONDS - started)) s); end of $out/records.log:"
    tail -5 "$out/records.log" | sed 's/^/        /'
  fi
else
  echo "skipped records (python3: $(tail -1 <<<"$why"))"
fi
[ $failed -eq 0 ]
