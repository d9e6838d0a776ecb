#!/usr/bin/env bash
# ports_programs.sh BIN_DIR [SIZE]: runs every application's program in every mode with --check.
# SIZE is smoke, medium or paper. Fails if a program fails or does not say that it is verified.
# Exit status 77: no device.
set -uo pipefail
bin=$1
size=${2:-smoke}
small=()
[[ $("$bin/gpufs" info 2>/dev/null) == *emulated* ]] &&
  small=(--staging 4M --prefetch-memory 8M --cache 16M)
said=$("$bin/gpufs" bench rpc --runs 1 --repeat 16 --blocks 1 "${small[@]}" 2>&1)
[[ $said == *"no device to run on"* ]] && exit 77
fused=" 2dconv atax bicg gesummv hotspot mvt pathfinder stencil "
passed=0
failed=0
for app in 2dconv 3dconv atax backprop bfs bicg dwt2d gesummv hotspot lud mvt nw pathfinder \
  stencil; do
  modes="cpuio pipelined gread"
  [ "$size" = paper ] || modes="cpu $modes" # the host's own computation takes minutes there
  [[ $fused == *" $app "* ]] && modes+=" fused"
  for mode in $modes; do
    if said=$(timeout 120 "$bin/$app" --mode "$mode" --size "$size" --check --json \
      "${small[@]}" 2>&1) && [[ $said == *'"verified": true'* ]]; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      echo "FAILED: $app --mode $mode --size $size: $said"
    fi
  done
done
# refuses TEXT PROGRAM ARGUMENT...: a wrong option is refused by its name.
refuses() {
  local wanted=$1 said
  shift
  said=$("$@" 2>&1)
  [[ $said == *"$wanted"* ]] && return
  failed=$((failed + 1))
  echo "FAILED: $*: $said"
}
refuses "--pitch=narrow: must be chip or fixed" "$bin/hotspot" --pitch narrow
refuses "--iterations=0: must be from 1 to 100" "$bin/stencil" --iterations 0
refuses "--threads=33: must be a multiple of 32 from 32 to 512" "$bin/mvt" --threads 33
refuses "--input=/none: No such file" "$bin/2dconv" --input /none
refuses "--output=$bin/mvt: $bin/mvt is no folder" "$bin/2dconv" --output "$bin/mvt"
# What means nothing for a mode, for a formula, or beside a real file.
for option in --blocks=7 --threads=64 --req=8K; do
  refuses "dwt2d: $option: is of --mode=gread" "$bin/dwt2d" --mode cpu $option
  refuses "mvt: $option: is of --mode=gread or fused" "$bin/mvt" --mode pipelined $option
done
refuses "mvt: --seed=7: is of --gen=rand" "$bin/mvt" --gen paper --seed 7
real=$(mktemp -d)
head -c 262144 /dev/zero >"$real/a.f32"
printf 'rows=256\ncolumns=256\n' >"$real/a.f32.meta"
for option in --size=medium --gen=paper --seed=7 --data=/none; do
  refuses "2dconv: $option: is of generated input, and --input=$real/a.f32 is read" \
    "$bin/2dconv" --input "$real/a.f32" $option
done
said=$("$bin/2dconv" --input "$real/a.f32" --json "${small[@]}" 2>&1)
[[ $said == *"\"input\": \"$real/a.f32\""* && $said != *'"seed"'* ]] || {
  failed=$((failed + 1))
  echo "FAILED: 2dconv --input: $said"
}
rm -r "$real"
# Only applications with pictures offer --output. --help describes the application's own files.
refuses "--input=: must name a file or folder" "$bin/nw" --input ""
refuses "--data=: must name a file or folder" "$bin/nw" --data ""
for app in nw bfs mvt; do refuses "not expected: --output" "$bin/$app" --output=/none; done
refuses "every edge in both directions" "$bin/bfs" --help
[[ $("$bin/bfs" --help) != *NAME.meta* ]] || {
  failed=$((failed + 1))
  echo "FAILED: bfs --help tells of a sidecar"
}
# A program fails if its output is lost.
for what in --json --help; do
  said=$("$bin/mvt" "${small[@]}" $what 2>&1 >/dev/full)
  status=$?
  [[ $status == 1 && $said == *"mvt: standard output: "* ]] && continue
  failed=$((failed + 1))
  echo "FAILED: mvt $what >/dev/full: status $status: $said"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
