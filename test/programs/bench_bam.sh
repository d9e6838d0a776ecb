#!/usr/bin/env bash
# bench_bam.sh GPUFS: runs `gpufs bench bam` at smoke size and checks what it writes. The analytics
# programs lie beside GPUFS. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
# shellcheck source=SCRIPTDIR/../support/keeps_results.sh
. "$(dirname "$0")/../support/keeps_results.sh"
gpufs=$1
said=$("$gpufs" bench bam --figure all --size smoke --out "$folder/out" --folder "$folder" 2>&1)
status=$?
[[ $said == *"no device to run on"* ]] && exit 77
[ $status -eq 0 ] || complain "bench bam: status $status: $said"
[[ $said == *"0 of "*" runs failed"* ]] || complain "bench bam: $said"

# series FIGURE COUNT TEXT: so many lines have it.
series() {
  [ "$(grep -c "$3" "$folder/out/$1.csv")" -eq "$2" ] ||
    complain "$1.csv: $2 lines with $3 wanted: $(cat "$folder/out/$1.csv")"
}
series bam4 10 ',points,'             # one to ten drives, measured and specified
series bam5 2 'commands of kernels'  # two sizes of requests
series bam5 2 'host threads'
series bam6 6 'pointer, .*,points,'  # three pages, cold and hot
series bam6 2 'memory, .*,line,'
series bam7 2 'OS page cache'        # both searches
series bam7 12 'modelled'            # three kinds of drives, one and four
series bam8 2 'held pages'
series bam8reuse 24 ',points,'       # four times three, both variants
series bam9 12 'modelled'
series bam10 6 ',points,'
series bam11 5 ',points,'
series bam12 12 'pipeline'           # six queries, two clusterings
series bam14 12 ',gpufs,'
series vectoradd 1 'tiles'
# Reads from modelled drives were NVMe commands, and say so.
[ "$(grep -c '"drives": 4, "modelled": "optane"' "$folder/out/drives.jsonl")" -eq 2 ] ||
  complain "drives.jsonl: $(cat "$folder/out/drives.jsonl")"
[ -z "$(ls -d "$folder"/gpufs-bench-bam-* 2>/dev/null)" ] || complain "left behind: $(ls "$folder")"

said=$("$gpufs" bench bam --figure 13 --out "$folder/none" 2>&1)
[ $? -eq 2 ] || complain "figure 13: the status is not 2: $said"
said=$("$gpufs" bench bam --figure 6 --folder "$folder/none" --out "$folder/x" 2>&1)
[[ $said == *"none/gpufs-bench-bam-"*"(--folder): No such file"* ||
  $said == *"none (--folder): No such file"* ]] || complain "--folder: $said"

keeps_results bam 6 lines gpufs-lookups
conclude
