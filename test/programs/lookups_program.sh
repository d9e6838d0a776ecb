#!/usr/bin/env bash
# lookups_program.sh PROGRAM: gpufs-lookups in all patterns and variants, with --check. Exit status
# 77: no device.
program=$1
# shellcheck source=SCRIPTDIR/../support/analytics.sh
. "$(dirname "$0")/../support/analytics.sh"

settings=(--staging 2M --prefetch-memory 2M --write-memory 2M --rpc-timeout 120s)
seed=$((RANDOM * 32768 + RANDOM))
echo "seed $seed"
for pattern in consecutive random page sweep reuse zipf; do
  verified 3 --pattern $pattern --variant array,pointer,memory --seed $seed --elements 20003 \
    --lookers 1024 --steps 5 --cache 2M
done
verified 5 --cache 2M --variant array,zerocopy,copy,pipeline,memory --seed $seed
for lanes in 1 8; do
  verified 2 --pattern reuse --variant array,pointer --seed $seed --lanes $lanes --steps 16 \
    --uses 4 --lookers 256 --cache 2M
done
# All threads in one page: it is read once. The second time there is nothing to read.
verified 2 --pattern page --variant array,pointer --seed $seed --io-path pull --cache 2M
[ "$(grep -c '"misses": 1,' <<<"$said")" -eq 2 ] || complain "misses in one page: $said"
verified 2 --pattern sweep --variant array,pointer --steps 8 --hot --cache 16M --seed $seed \
  --io-path pull
[ "$(grep -c '"misses": 0,' <<<"$said")" -eq 2 ] || complain "misses in a hot cache: $said"
# From modelled drives, by NVMe commands of the kernels.
verified 2 --pattern random --variant array,pointer --drives 2 --drive pm1735 --cache 2M
[ "$(grep -c '"drives": 2, "modelled": "pm1735"' <<<"$said")" -eq 2 ] || complain "drives: $said"
[ "$(grep -c '"host_reads": 0,' <<<"$said")" -eq 2 ] || complain "reads by the host: $said"
# Small and large pages, as few frames as can be.
for size in 512 64K; do
  bytes=${size/K/*1024}
  verified 1 --variant array --page-size $size --cache $((8 * bytes)) --lookers 256 --seed $seed
  verified 1 --variant pointer --page-size $size --cache $((256 * bytes)) --seed $seed
done

refuses "each of 256 threads holds a page, and the cache has 255" --variant pointer --blocks 4 \
  --threads 64 --cache 1020K
refuses "--lookers=33: must be a multiple of 32" --lookers 33
refuses "--lanes=3: must be 1, 2, 4, 8, 16 or 32" --lanes 3
refuses "--uses=2: must be from 1 to --steps=1" --uses 2
refuses "--lanes=4: is of --pattern=reuse" --lanes 4
refuses "--uses=2: is of --pattern=reuse" --pattern zipf --steps 2 --uses 2
refuses "--theta=2: is of --pattern=zipf" --pattern reuse --theta 2
refuses "--hot: is of the variants array and pointer" --variant memory --hot
refuses "--elements=0: must be from 1 to" --elements 0
refuses "--theta=0: must be above 0, and at most 8" --pattern zipf --theta 0
refuses "--drives=11: must be from 0 to 10" --drives 11
refuses "--stride: must be 1" --stride 2
# --help names the variants that there are.
[[ $("$program" --help) == *" array, pointer: how kernels read the files;"* ]] ||
  complain "--help: $("$program" --help)"
conclude
