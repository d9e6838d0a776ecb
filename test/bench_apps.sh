#!/usr/bin/env bash
# bench_apps.sh GPUFS: runs `gpufs bench apps` on two small applications and checks what it writes, and that it does not measure twice.
# Exit status 77: no device.
. "$(dirname "$0")/support/complain.sh"
gpufs=$1
arguments=(bench apps --size smoke --out "$folder" --only 2dconv bfs --runs 2 --full --staging 4M --prefetch-memory 8M)
"$gpufs" "${arguments[@]}" >"$folder/said" 2>"$folder/errors" || {
  grep -q "no device" "$folder/errors" && exit 77
  complain "exit status: $(tail -1 "$folder/errors")"
}
for app in 2dconv bfs; do
  for variant in cpuio pipelined 64K 4K+64K original-4K small-lra small-fifo small-original-4K small-original-4K+64K cpuio-cold 64K-cold 4K+64K-cold 4K+auto-cold 4K 4K+auto small-clock; do
    runs=$(grep -c -F "$app,$variant," "$folder/$app-smoke.csv")
    [ "$runs" -eq 2 ] || complain "$app $variant: $runs runs, not 2"
  done
done
grep -q "^2dconv,fused," "$folder/2dconv-smoke.csv" || complain "2dconv was not run fused"
for figure in 11 12 13 14; do
  for row in 2dconv bfs mean; do
    count=$(grep -c "^$figure,$row," "$folder/figure_$figure-smoke.csv")
    [ "$count" -eq 4 ] || complain "figure $figure: $count series for $row, not 4"
  done
done
[ "$(grep -c '| yes |\|| no |' "$folder/apps-smoke.md")" -eq 7 ] || complain "not all seven ratios are there"
grep -q "not measured" "$folder/apps-smoke.md" && complain "a ratio was not measured"
"$gpufs" "${arguments[@]}" >/dev/null 2>"$folder/errors"
[ "$(grep -c 'taken from' "$folder/errors")" -eq 2 ] || complain "measured again what was there"
said=$("$gpufs" bench apps --out "$folder" --only nosuch 2>&1)
[[ $said == *"--only=nosuch: must be among"* ]] || complain "--only=nosuch was not refused"
some=(bench apps --size smoke --out "$folder/some" --only nw --runs 2 --no-charts --staging 4M --prefetch-memory 8M)
said=$("$gpufs" "${some[@]}" --variants nosuch 2>&1)
[[ $said == *"--variants=nosuch: must be among"* ]] || complain "--variants=nosuch was not refused"
"$gpufs" "${some[@]}" --variants storage-cold fused 4K >/dev/null 2>&1
found=$(tail -n +2 "$folder/some/nw-smoke.csv" | cut -d, -f1,2 | sort | uniq -c | tr -s ' ')
[ "$found" = $' 2 nw,4K\n 2 nw,storage-cold' ] || [ "$found" = ' 2 nw,4K' ] || complain "--variants: $found"  # no O_DIRECT: no storage
conclude
