#!/usr/bin/env bash
# bench_apps.sh GPUFS: runs `gpufs bench apps` on small applications and checks its output. It must
# measure the missing results and no other, and refuse results and folders that it cannot use.
# Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1
study() { "$gpufs" bench apps --out "$folder/$1" --staging 4M --prefetch-memory 8M "${@:2}"; }

# rows DIR APP SIZE: the variants that have results, with their number.
rows() {
  grep -v '^# ' "$folder/$1/$2-$3.csv" | tail -n +2 | cut -d, -f2 | sort | uniq -c |
    awk '{ printf "%s%s:%s", NR == 1 ? "" : " ", $2, $1 }'
}
has_rows() {
  [ "$(rows "$1" "$2" "$3")" = "$4" ] || complain "$1 $2: has $(rows "$1" "$2" "$3"), not $4"
}

# refuses TEXT ARGUMENT...: ends with a status other than 0 and that text.
refuses() {
  local text=$1 said
  shift
  said=$(study "$@" 2>&1) && complain "$*: was accepted"
  [[ $said == *"$text"* ]] || complain "$*: said ${said:0:300}, not $text"
}

most=(--only 2dconv bfs --runs 2 --full)
study most "${most[@]}" >"$folder/said" 2>"$folder/errors" || {
  grep -q "no device" "$folder/errors" && exit 77
  complain "exit status: $(tail -1 "$folder/errors")"
}
for app in 2dconv bfs; do
  for variant in cpuio pipelined 64K 4K+64K original-4K cpuio-cold 64K-cold 4K+64K-cold \
    4K+auto-cold 4K 4K+auto; do
    runs=$(grep -c -F "$app,$variant," "$folder/most/$app-smoke.csv")
    [ "$runs" -eq 2 ] || complain "$app $variant: $runs runs, not 2"
  done
done
grep -q "^2dconv,fused," "$folder/most/2dconv-smoke.csv" || complain "2dconv was not run fused"
grep -q "small-" "$folder/most/2dconv-smoke.csv" &&
  complain "a cache that the input fits into was called small"
for row in 2dconv bfs mean; do
  count=$(grep -c "^11,$row," "$folder/most/figure_11-smoke.csv")
  [ "$count" -eq 4 ] || complain "figure 11: $count series for $row, not 4"
done
[ "$(grep -c "Targets are not shown (" "$folder/most/apps-smoke.md")" -eq 1 ] &&
  ! grep -q "| yes |\|| no |" "$folder/most/apps-smoke.md" || complain "targets at size smoke"
[ "$(grep -c "| [0-9.]* | 2 of 2 |" "$folder/most/apps-smoke.md")" -ge 5 ] ||
  complain "not all five ratios are there"
study most "${most[@]}" >/dev/null 2>"$folder/errors"
[ "$(grep -c 'taken from' "$folder/errors")" -eq 2 ] || complain "measured again what was there"

# Caches smaller than the input.
small="small-fifo small-lra small-original-4K small-original-4K+64K"
study small --size medium --only 2dconv --runs 1 --variants cpuio $small \
  >/dev/null 2>"$folder/errors" || complain "$(cat "$folder/errors")"
has_rows small 2dconv medium \
  "cpuio:1 small-fifo:1 small-lra:1 small-original-4K:1 small-original-4K+64K:1"
for figure in 13 14; do
  [ "$(grep -c "^$figure,mean," "$folder/small/figure_$figure-medium.csv")" -eq 4 ] ||
    complain "figure $figure has not four series"
done

# Missing results are added to those that are there. --again replaces those that it names.
study some --only nw --runs 1 --variants cpuio fused >/dev/null 2>"$folder/errors"
grep -q "nw: has no variant fused" "$folder/errors" ||
  complain "no message says that nw has no fused kernel"
has_rows some nw smoke "cpuio:1"
study some --only nw --runs 2 --variants 4K cpuio 4K >/dev/null 2>&1
has_rows some nw smoke "4K:2 cpuio:2"
study some --only nw --runs 1 --variants 4K --again >/dev/null 2>&1
has_rows some nw smoke "4K:1 cpuio:2"

# Results of other conditions do not stand beside those that are there.
refuses "nw-smoke.csv: is of other conditions ( threads=64, now threads=32)" \
  some --only nw mvt --runs 2 --variants cpuio --threads 32
refuses "nw-smoke.csv: is of other conditions ( settings=" some --only mvt --page-size 64K --again
refuses "nw-smoke.csv: is of other conditions ( verified=yes, now verified=no)" \
  some --only nw --runs 2 --variants cpuio --no-verify
study some --only nw --runs 1 --variants 4K --threads 32 --again >/dev/null 2>&1
has_rows some nw smoke "4K:1"
sed -i 1d "$folder/some/nw-smoke.csv"
refuses "nw-smoke.csv: is of other conditions (it does not say" some --only nw --threads 32

study unchecked --only nw --runs 1 --variants cpuio --no-verify >/dev/null 2>&1
grep -q "Bytes and outputs were not checked" "$folder/unchecked/apps-smoke.md" ||
  complain "the table does not say that nothing was checked"
refuses "nw-smoke.csv: is of other conditions ( verified=no, now verified=yes)" \
  unchecked --only nw --runs 1 --variants cpuio

refuses "--only=nosuch: must be among" none --only nosuch
refuses "--cold: is of bench's patterns, not of bench apps" none --only nw --cold
"$gpufs" bench --runs 1 apps --out "$folder/none" --only nw >/dev/null 2>&1 &&
  complain "options of bench's patterns were ignored"
refuses "--variants=nosuch: must be among" some --only nw --variants nosuch
: >"$folder/a_file"
refuses "--out=$folder/a_file" a_file --only nw
for line in nw,4K,80000,nan,0.1 nw,4K,0,0.1,0.1 nw,4K,-80000,0.1,0.1 nw,4K,80000,0.1,0.1,0.1 \
  mvt,4K,80000,0.1,0.1; do
  printf 'app,variant,bytes,io_seconds,seconds\n%s\n' "$line" >"$folder/some/nw-smoke.csv"
  refuses "nw-smoke.csv:2: must be" some --only mvt --variants cpuio
done
printf 'app,variant,bytes,io_seconds,seconds\nnw,4K,80000,0.1,0.1' >"$folder/some/nw-smoke.csv"
refuses "nw-smoke.csv:2: ends within a line" some --only mvt --variants cpuio
[ -e "$folder/some/mvt-smoke.csv" ] &&
  complain "measured before it looked at the results that are there"

# Each application has its files in a folder of its own. A file of another origin stops only the
# application that would overwrite it.
mkdir -p "$folder/data/nw"
study kept --only nw mvt --dir "$folder/data" --runs 1 --variants cpuio >/dev/null 2>&1 ||
  complain "--dir"
[ -n "$(ls "$folder/data/nw")" ] || complain "nw's files were not kept"
rm -rf "$folder/kept" "$folder/data/mvt"
mkdir -p "$folder/data/mvt"
echo precious >"$folder/data/mvt/a.f32"
refuses "mvt: $folder/data/mvt/a.f32: is there, and was not generated here" \
  kept --only mvt nw --dir "$folder/data" --runs 1 --variants cpuio
[ "$(cat "$folder/data/mvt/a.f32")" = precious ] ||
  complain "a file that is not ours was overwritten"
has_rows kept nw smoke "cpuio:1"
conclude
