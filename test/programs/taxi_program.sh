#!/usr/bin/env bash
# taxi_program.sh PROGRAM: gpufs-taxi answers all queries in all variants, with --check. Exit status
# 77: no device.
program=$1
# shellcheck source=SCRIPTDIR/../support/analytics.sh
. "$(dirname "$0")/../support/analytics.sh"

seed=$((RANDOM * 32768 + RANDOM))
echo "seed $seed"
verified 18 --query 0,1,2,3,4,5 --variant array,pointer,gread --rows 20000 --seed $seed --mean
verified 14 --query 0,5 --variant array,pointer,gread,zerocopy,copy,pipeline,memory --seed $seed
for clustering in runs mixed; do
  verified 2 --query 5 --variant pointer,gread --clustering $clustering --seed $seed
done
# Ends within a page, few frames, small and large pages, turns that lie apart, cold files.
settings=(--staging 2M --prefetch-memory 2M --write-memory 2M --rpc-timeout 120s)
for size in 512 4K 64K; do
  verified 3 --query 5 --variant array,pointer,gread --rows 10007 --seed $seed --stride 3 \
    --page-size $size --cache $((8 * ${size/K/*1024}))
done
verified 1 --query 2 --rows 1 --cold
# The first column is read once. Of the others, pages that hold long trips.
verified 1 --query 5 --rows 65536 --prefetch 0 --cache 4M --page-size 512 --io-path pull --seed 3
read=$(sed -n 's/.*"host_bytes": \([0-9]*\).*/\1/p' <<<"$said")
trips=$(sed -n 's/.*"trips": \([0-9]*\).*/\1/p' <<<"$said")
if [ "$trips" -eq 0 ] || [ "$read" -le 524288 ] || [ "$read" -gt $((524288 + trips * 2560)) ]; then
  complain "$read bytes read for $trips trips"
fi

# The sums in JSON have all digits of the text, which has them to the hundredth.
json=$("$program" --query 5 --rows 400000 --seed 3 --runs 1 --json "${settings[@]}")
text=$("$program" --query 5 --rows 400000 --seed 3 --runs 1 "${settings[@]}")
sums=$(sed -n 's/.*"sums": {\([^}]*\)}.*/\1/p' <<<"$json")
[[ $sums =~ [0-9]{5}\.[0-9][0-9] ]] || complain "sums: $json"
while read -r -d, sum; do
  sum=${sum#\"} sum=${sum/\": / }
  [[ $text == *", $sum"* ]] || complain "$sum is not in $text"
done <<<"$sums,"

# Files that stay are used again; others are made again.
verified 1 --query 0 --data "$folder/in" --rows 1000 --seed 5
made=$(stat -c %Y.%i "$folder/in/distance.i64")
verified 1 --query 0 --data "$folder/in" --rows 1000 --seed 5
[ "$made" = "$(stat -c %Y.%i "$folder/in/distance.i64")" ] || complain "columns were made again"
printf x | dd of="$folder/in/tax.i64" conv=notrunc status=none
refuses "tax.i64 is not as it was generated" --data "$folder/in" --rows 1000 --seed 5 --check \
  --runs 1
verified 1 --query 0 --data "$folder/in" --rows 1000 --seed 6

refuses "--query=6: must be from 0 to 5" --query 0,6
refuses "gpufs-taxi: --query=foo: must be a whole number" --query foo
refuses "--mean: is of --query=5" --query 0 --mean
for rows in -1 0; do refuses "--rows=$rows: must be from 1 to" --rows $rows; done
refuses "--drive=pm1735: is of --drives" --drive pm1735
refuses "--data=: must name a file or folder" --data ""
refuses "--size excludes --rows" --size large --rows 100
refuses "--clustering" --clustering nothing
refuses "--threads=33: must be a multiple of 32" --threads 33
conclude
