#!/usr/bin/env bash
# bench_mapping.sh GPUFS: runs `gpufs bench mapping` at smoke size and checks what it writes. The
# program gpufs-mapping lies beside GPUFS. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
# shellcheck source=SCRIPTDIR/../support/keeps_results.sh
. "$(dirname "$0")/../support/keeps_results.sh"
gpufs=$1
figures=(adsm7 adsm8 adsm9 adsm10 adsm11 adsm12 dragon3 dragon5 dragon6)
said=$("$gpufs" bench mapping --figure all --size smoke --out "$folder/out" --folder "$folder" 2>&1)
status=$?
[[ $said == *"no device to run on"* ]] && exit 77
[ $status -eq 0 ] || complain "bench mapping: status $status: $said"
[[ $said == *"0 of "*" runs failed"* ]] || complain "bench mapping: $said"
for figure in "${figures[@]}"; do
  [ "$(wc -l <"$folder/out/$figure.csv")" -gt 2 ] || complain "$figure.csv is not there, or empty"
done

# series FIGURE COUNT TEXT: so many lines have it.
series() {
  [ "$(grep -c "$3" "$folder/out/$1.csv")" -eq "$2" ] ||
    complain "$1.csv: $2 lines with $3 wanted: $(cat "$folder/out/$1.csv")"
}
series adsm7 11 ',lazy,'       # ten programs, and their mean
series adsm9 2 ',shared lazy'  # two edges
series adsm10 10 ',kernels,'   # ten programs
series adsm11 14 ',points,'    # blocks
series dragon3 9 ',naive,'     # eight programs, and their mean
series dragon5 9 ',when needed,'
series dragon6 4 ',points,'    # sizes of host memory
# Scratch that host memory does not hold was spilled.
grep '"host_memory": 0,' "$folder/out/dragon6.jsonl" | grep -q '"spill_bytes": [1-9]' ||
  complain "dragon6: nothing was spilled: $(cat "$folder/out/dragon6.jsonl")"
[ -z "$(ls -d "$folder"/gpufs-* 2>/dev/null)" ] || complain "left behind: $(ls "$folder")"

said=$("$gpufs" bench shared --rounds 2 --folder "$folder" --json) ||
  complain "bench shared: status $?: $said"
for row in launch launch100 fault4K fault2M read; do
  [[ $said == *"\"$row\": {"* ]] || complain "bench shared: no row $row in $said"
done
[ "$(grep -o '"verified": true' <<<"$said" | wc -l)" -eq 5 ] || complain "bench shared: $said"
"$gpufs" bench shared --rounds 1 --size 3 --folder "$folder" | grep -q '^  fault2M .* us ' ||
  complain "bench shared prints no row fault2M"
said=$("$gpufs" bench --page-size 4K shared 2>&1)
[[ $said == *"programs that do not get it"* ]] || complain "bench --page-size shared: $said"

said=$("$gpufs" bench mapping --figure adsm6 --out "$folder/none" 2>&1)
[ $? -eq 2 ] || complain "adsm6: the status is not 2: $said"
[[ $said == *"adsm6"* ]] || complain "adsm6: $said"
said=$("$gpufs" bench mapping --figure dragon6 --runs 5000 --out "$folder/none" 2>&1)
[[ $said == *"--runs=5000: must be from 1 to 1000"* ]] || complain "--runs: $said"
said=$("$gpufs" bench mapping --figure dragon6 --runs 0 --out "$folder/none" 2>&1)
[[ $said == *"--runs=0: must be from 1 to 1000"* ]] || complain "--runs 0: $said"
said=$("$gpufs" bench --page-size 4K mapping --figure dragon6 --out "$folder/none" 2>&1)
[ $? -eq 2 ] && [[ $said == *"--page-size: bench mapping runs programs that do not get it"* ]] ||
  complain "a setting before bench mapping: $said"

keeps_results mapping dragon6 dragon6 gpufs-mapping
conclude
