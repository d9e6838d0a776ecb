#!/usr/bin/env bash
# mapping_files.sh PROGRAM: runs every workload of gpufs-mapping that has files at smoke size, in
# all variants, with --check: results, files that are the same in all variants, and counters against
# their closed forms. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
program=$1
said=$("$program" vectorAdd --dir "$folder" 2>&1)
[[ $said == *"no device to run on"* ]] && exit 77
mkdir "$folder/files"

# verified COUNT ARGUMENT...: all COUNT runs are right, and no file is left.
verified() {
  local wanted=$1 said
  shift
  said=$(timeout 300 "$program" "$@" --check --json --folder "$folder/files" 2>&1) ||
    { complain "$*: status $?: $said"; return; }
  [ "$(grep -c '"verified": true' <<<"$said")" -eq "$wanted" ] || complain "$*: $said"
  [ -z "$(ls "$folder/files")" ] || complain "$*: left behind: $(ls -R "$folder/files")"
}

# Names begin their lines, parameters follow. Workloads with files have a footprint.
for workload in $("$program" list | sed -n 's/^\([^ ][^ ]*\) .*/\1/p'); do
  "$program" list | grep -A1 "^$workload " | grep -q " footprint " || continue
  verified 3 "$workload" --variant naive,hand,shared
  verified 1 "$workload" --variant shared --declare
  verified 1 "$workload" --variant shared --backing managed
  verified 2 "$workload" --variant hand,shared --seed 7 --cold
  timeout 300 "$program" "$workload" --variant cpu --folder "$folder/files" >/dev/null ||
    complain "$workload --variant cpu"
done
# Files that end within a page, and within a block.
for bytes in 12 49140 786444; do verified 2 vectorAdd --variant hand,shared --footprint $bytes; done
verified 1 lavaMD --variant shared --set equal=1
verified 2 hotspot --variant hand,shared --kernel-times
verified 1 binomialOptions --variant shared --set steps=64 --footprint 48K
verified 1 srad_v2 --variant shared --set iterations=3 --footprint 5M
verified 1 backprop --variant shared --footprint 40M  # blocks of 1 MiB
verified 3 vectorAdd --variant naive,hand,shared --set bits=1
# What launches touch is found, and placed first where not all fits.
verified 1 outofcore-bfs --variant shared --declare --backing managed --profile "$folder/profile"
grep -q '^1 [0-9]* 0 offsets edges levels found$' "$folder/profile" ||
  complain "profile: $(cat "$folder/profile")"
# Counters are those of programs that fit.
timeout 300 "$program" outofcore-bfs --variant shared --declare --profile "$folder/profile" \
  --device-memory 4M --chunk 2M --folder "$folder/files" >/dev/null ||
  complain "placed by a profile"
said=$("$program" vectorAdd --profile "$folder/profile" --folder "$folder" 2>&1)
[[ $said == *"--profile=$folder/profile: must be left out, or beside --declare"* ]] ||
  complain "profile: $said"
# Hand-written, with GPU memory for a part of the lists only: less than the longest one, and more.
for gather in 4K 1M; do
  verified 2 outofcore-bfs --variant hand,shared --set gather=$gather
done
said=$("$program" outofcore-bfs --set gather=100 --folder "$folder" 2>&1)
[[ $said == *"--set gather=100: must be 0 or at least 4096"* ]] || complain "gather: $said"
# Each launch uses four arrays of 17, of some 1.4 MiB. The others are spilled.
spilled=$("$program" layers --variant shared --declare --footprint 24M --check --json \
  --device-memory 4M --host-memory 4M --chunk 2M --spill-dir "$folder" --folder "$folder/files")
[[ $spilled == *'"verified": true'* ]] || complain "layers, spilled: $spilled"
[[ $spilled == *'"spill_bytes": 0,'* ]] && complain "layers is not spilled: $spilled"
verified 2 layers --variant hand,shared --set layers=3 --set width=16
# In windows, with files of three times what both sides may hold.
verified 2 vectorAdd --variant hand,shared --set windows=1 --footprint 48M \
  --device-memory 12M --host-memory 4M --chunk 2M
# An odd number of rows, and one row more.
verified 2 pathfinder --variant shared,hand --footprint 250000
verified 2 pathfinder --variant shared,hand --footprint 252004

# table ARGUMENT...: the file of `update` that a run leaves.
table() {
  rm -rf "$folder/files"
  mkdir "$folder/files"
  # In a group, so that the shell does not tell of those that are killed.
  { timeout 300 "$program" update --footprint 8M --keep-files --folder "$folder/files" "$@"; } \
    >/dev/null 2>&1
  cat "$folder"/files/gpufs-mapping-*/table.mem
}
# A process that is killed behind a round leaves what the rounds until then have written.
for round in 1 2; do
  table --variant cpu --set rounds=$round >"$folder/wanted"
  for variant in hand shared; do
    table --variant $variant --set rounds=3 --set kill=$round >"$folder/found"
    cmp "$folder/wanted" "$folder/found" || complain "update --variant $variant, killed in $round"
  done
done

said=$("$program" binomialOptions --set steps=100 --folder "$folder" 2>&1)
[[ $said == *"steps=100: must be a power of two from 64 to 2048"* ]] || complain "steps: $said"
said=$("$program" vectorAdd --folder "$folder/none" 2>&1)
[[ $said == *"none/gpufs-mapping-"*"(--folder): No such file"* ]] || complain "folder: $said"
said=$("$program" vectorAdd --footprint 1P --folder "$folder/files" 2>&1)
[[ $said == *"--footprint=1P: "* ]] || complain "footprint: $said"
# Files that do not fit are not begun.
free=$(($(stat -f -c '%f * %S' "$folder")))
said=$([ $free -ge $((10 << 40)) ] ||
  timeout 60 "$program" vectorAdd --footprint 16T --folder "$folder/files" 2>&1)
[ $free -ge $((10 << 40)) ] || [[ $said == *"/files (--folder): needs "*" free"* ]] ||
  complain "a large footprint: $said"
# Figures of runs.
"$program" vectorAdd --footprint 2M --variant naive,hand,shared --folder "$folder/files" \
  --json-to "$folder/mapping_files.jsonl" >/dev/null || complain "vectorAdd --json-to"
python3 "$(dirname "$0")/../../scripts/mapping_figures.py" "$folder" >/dev/null 2>&1 ||
  complain "mapping_figures.py"
[ "$(grep -c '^dragon3,mean,' "$folder/dragon3.csv")" -eq 2 ] ||
  complain "mapping_figures.py: $(cat "$folder/dragon3.csv")"
conclude
