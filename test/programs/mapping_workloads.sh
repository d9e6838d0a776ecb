#!/usr/bin/env bash
# mapping_workloads.sh PROGRAM: runs every workload of gpufs-mapping at smoke size, hand-written and
# by all protocols, with --check: results, and counters against closed forms. Exit status 77: no
# device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
program=$1
said=$("$program" vecadd 2>&1)
[[ $said == *"no device to run on"* ]] && exit 77

# verified COUNT ARGUMENT...: all COUNT runs are right.
verified() {
  local wanted=$1 said
  shift
  said=$(timeout 300 "$program" "$@" --check --json --dir "$folder" 2>&1) ||
    complain "$*: status $?: $said"
  [ "$(grep -c '"verified": true' <<<"$said")" -eq "$wanted" ] || complain "$*: $said"
}

# Names begin their lines, parameters do not. Workloads with a footprint have files, and are the
# task of mapping_files.sh.
for workload in $("$program" list | sed -n 's/^\([^ ][^ ]*\) .*/\1/p'); do
  "$program" list | grep -A1 "^$workload " | grep -q " footprint " && continue
  for declare in "" --declare; do
    # Blocks as they are by default, and small ones that are evicted.
    verified 4 "$workload" --variant hand,shared --protocol batch,lazy,rolling $declare
    verified 2 "$workload" --variant shared --block 4K --rolling 3,auto $declare
  done
  verified 2 "$workload" --variant hand,shared --seed 7
  verified 2 "$workload" --variant shared --backing managed,auto --declare
  "$program" "$workload" --variant cpu >/dev/null || complain "$workload --variant cpu"
done
# Each object has its ratio, also if the hand-written variant comes last.
said=$("$program" vecadd --variant cpu,shared,hand --runs 2 --json)
[ "$(grep -c '"ratio_to_hand": [0-9]' <<<"$said")" -eq 6 ] || complain "ratio_to_hand: $said"
verified 3 vecadd --variant shared --block 4K --rolling 1,2,6 --set stride=100

# refuses TEXT ARGUMENT...: a wrong option is refused by its name.
refuses() {
  local wanted=$1 said
  shift
  said=$("$program" "$@" 2>&1)
  [ $? -eq 2 ] || complain "$*: the status is not 2"
  [[ $said == *"$wanted"* ]] || complain "$*: $said"
}
refuses "none: no such workload, must be one of vecadd" none
refuses "--variant=naked: must be one of naive, hand, managed, shared, cpu" vecadd --variant naked
refuses "--variant=naive: vecadd has no files, must be one of hand, shared, cpu" \
  vecadd --variant naive
refuses "--backing=none: must be one of auto, managed" vecadd --backing none
refuses "--protocol=lazy: is of --backing=auto" vecadd --backing managed --protocol lazy
refuses "--backing=managed: is of --variant=shared" vecadd --variant hand --backing managed
refuses "--protocol=eager: must be one of batch, lazy, rolling" vecadd --protocol eager
refuses "--set=m=1: must be NAME=NUMBER with a name of vecadd: n stride" vecadd --set m=1
refuses "--runs=0: must be from 1 to 1000" vecadd --runs 0
refuses "--block" vecadd --block 1K
refuses "--block=5K: must be auto or a power of two from 4K to 32M" vecadd --block 5K
refuses "--chunk=3M: must be auto or a power of two from 2M to 1G" vecadd --chunk 3M
refuses "--rolling=0: must be a number from 1 to 1073741824" vecadd --rolling 0
refuses "--protocol=nonsense: is of --variant=shared" vecadd --variant hand --protocol nonsense
refuses "--block=garbage: is of --variant=shared with --protocol=rolling" vecadd \
  --variant hand,cpu --block garbage
refuses "--rolling=3: is of --variant=shared with --protocol=rolling" vecadd --protocol batch,lazy \
  --rolling 3
refuses "--size=0: must be a number from 1 to 274877906944" vecadd --size 0
refuses "--set n=abc: must be a number from 1 to 274877906944" vecadd --set n=abc
# Each parameter at its least value, and what is out of its range. Smoke sizes are small.
"$program" list >"$folder/list"
while IFS= read -r line; do
  read -r name _ <<<"$line"
  read -r low high < <(sed -n 's/.*(\([0-9]*\) to \([0-9]*\); smoke.*/\1 \2/p' <<<"$line")
  [ -n "${low:-}" ] || { workload=$name; continue; }
  verified 2 "$workload" --variant hand,shared --set "$name=$low"
  for value in $((low - 1)) $((high + 1)); do
    [ $value -lt 0 ] || refuses "--set $name=$value: must be a number from $low to $high" \
      "$workload" --dir "$folder" --set "$name=$value"
  done
done <"$folder/list"
verified 4 cp --variant hand,shared --protocol batch,lazy,rolling --set atoms=3
verified 2 cp --variant hand,shared --set atoms=121
verified 2 mri-q --variant hand,shared --set readback=8
refuses "--set readback=3: must be a multiple of 4 from 0 to " mri-q --set readback=3
refuses "--set readback=1376: must be at most 4 bytes" mri-q --set readback=1376
refuses "--set width=17: must be a multiple of 16 from 16 to " sad --set width=17
refuses "--size=17: must be a multiple of 16 from 16 to " sad --size 17
refuses "--set=stride=2: stride has a value already" vecadd --set stride=3 stride=2
refuses "--set=n=5: n has a value already, by --size" vecadd --size 100 --set n=5
for option in --declare --no-eager --chunk=2M --host-memory=1G --spill-dir=/tmp \
  --device-memory=1G; do
  refuses "gpufs-mapping: ${option%=*}: is of --variant=shared" vecadd --variant hand,cpu "$option"
done
for option in --cold --keep-files --kernel-times --no-eager; do
  refuses "gpufs-mapping: $option: is of workloads with files" vecadd "$option"
done
refuses "gpufs-mapping: --summary: is of the text, which --json leaves out" vecadd --json --summary
for option in --json --summary; do
  refuses "gpufs-mapping: --counters: is of the text of each run" vecadd $option --counters
done
refuses "gpufs-mapping: --size: means nothing for list" list --size 5
for option in --json-to --dir --spill-dir; do
  refuses "gpufs-mapping: $option=: must name a file or folder" vecadd $option ""
done
refuses "--json-to=$folder: Is a directory" vecadd --json-to "$folder"
conclude
