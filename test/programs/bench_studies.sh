#!/usr/bin/env bash
# bench_studies.sh GPUFS: runs `gpufs bench ratios` and `gpufs bench paper` on small files and
# checks their output. Every row, series and size must be there, with plausible numbers.
# Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1
settings=(--staging 4M --prefetch-memory 8M --seats 64 --rpc-timeout 120s)
shape=(--blocks 4 --threads 32)
# bench ARGUMENT...: of a small shape, with small settings.
bench() { "$gpufs" bench "$@" "${shape[@]}" "${settings[@]}"; }

bench seq --size 64K --no-limits --runs 1 >"$folder/first" 2>&1 || {
  grep -q "no device" "$folder/first" && exit 77
  complain "bench seq: $(cat "$folder/first")"
}

# The baseline in the same run.
line=$(bench seq --baseline gpufs --size 1M --runs 1 --no-limits --json --page-size 4K)
for key in baseline_gpufs_GBps times_baseline_gpufs; do
  [[ $line =~ \"$key\":\ [0-9] ]] || complain "bench seq --baseline: no $key in $line"
done
"$gpufs" bench hit --baseline gpufs >/dev/null 2>&1
[ $? -eq 2 ] || complain "bench hit --baseline gpufs must be refused"

# Random requests, in every way.
for way in "--req 4K" "--req 1000 --level warp" "--req 4K --distribution zipf --theta 1" \
  "--req 512 --level warp --hot --repeat 2" "--req 4K --cold" "--req 3000 --access gmmap" \
  "--req 3000 --level warp --access array" "--req 3000 --access async"; do
  # shellcheck disable=SC2086 # words
  line=$(bench rand --size 256K --page-size 4K --prefetch 0 --runs 1 --json $way) ||
    complain "bench rand $way failed"
  [[ $line =~ \"verified\":\ true ]] || complain "bench rand $way: $line"
  [[ $way == *hot* || $line =~ \"of_random_pull\":\ [0-9] ]] ||
    complain "bench rand $way: no of_random_pull in $line"
  [[ $way != *hot* || $line =~ \"misses\":\ 0, ]] || complain "bench rand $way: misses in $line"
done
# Files that are too small for a file window are read, too.
for kind in seq rand; do
  line=$(bench $kind --size 64K --io-path registered --runs 1 --no-limits --json) ||
    complain "bench $kind of a small file failed"
  [[ $line =~ \"verified\":\ true ]] || complain "bench $kind of a small file: $line"
done
# refuses TEXT ARGUMENT...: says that text.
refuses() {
  local wanted=$1 said
  shift
  said=$("$gpufs" bench "$@" 2>&1)
  [[ $said == *"$wanted"* ]] || complain "bench $*: $said"
}
refuses "mean nothing for bench seq" seq --level warp
refuses "mean nothing for bench seq" seq --access array
refuses "--access=async needs 124K or less" rand --access async --req 128K --page-size 4K \
  --size 1M "${settings[@]}"
refuses "--theta=0: must be above 0" rand --distribution zipf --theta 0
refuses "--hot: needs a --cache-size that holds" rand --hot --size 2M --cache 1M "${settings[@]}"
# Files that do not fit are not begun.
if [ $(($(stat -f -c '%f * %S' "$folder"))) -lt $((100 << 40)) ]; then
  for kind in seq write; do
    refuses "$folder (--dir): needs 100T, has " $kind --size 100T --dir "$folder" "${settings[@]}"
  done
fi
refuses "--repeat=2: means nothing for bench seq" seq --repeat 2
refuses "--repeat=2: means nothing for bench rand without --hot" rand --repeat 2
refuses "--theta=1.5: is of --distribution=zipf" rand --theta 1.5
refuses "--size=0: must be from 1 to 256T" seq --size 0
refuses "--bytes=0: must be from 1 to " seq --bytes 0 --size 1M "${settings[@]}"
refuses "--stride=0: must be from 1 to " strided --stride 0 --size 1M "${settings[@]}"
refuses "--stride=0: means nothing for bench hit" hit --stride 0
refuses "--thorough: is of the baselines" seq --thorough --no-limits
refuses "--baseline-threads=2: is of --baseline" seq --baseline-threads 2
refuses "gpufs: --file=: must name a file or folder" seq --file ""
refuses "--size=1M: is of the temporary file" seq --size 1M --file "$folder/first"
refuses "--seed=7: is of a generated file" seq --seed 7 --file "$folder/first"
refuses "--dir=$folder: is of the temporary file" seq --dir "$folder" --file "$folder/first"
refuses "not with --level=warp" rand --level warp --baseline gpufs
# What a command does not use is refused, also what is no number.
for option in --bytes=1M --bytes=garbage --stride=1M --thorough --baseline-threads=2; do
  for kind in rpc write; do refuses "$option: means nothing for bench $kind" $kind $option; done
done
for option in --file=/none --dir=/none --size=1M --req=x --seed=2 --no-limits --no-verify; do
  refuses "$option: means nothing for bench rpc" rpc $option
done
refuses "--stride=1M: means nothing for bench hit" hit --stride 1M
# --size is of a temporary file, or of the copy of drives.
refuses "--size=1M: is of the temporary file, and --file=nvme:mem:4M is read" \
  seq --size 1M --file nvme:mem:4M
refuses "member none: " seq --size 1M --file nvme:vfio:none --dir "$folder" "${settings[@]}"
for study in ratios "paper --figure 2 --out $folder/none" peers; do
  # shellcheck disable=SC2086 # words
  refuses "--dir=$folder: is of the temporary file" $study --dir "$folder" --file "$folder/first"
done
# 0 is not "as by default".
for study in ratios peers "paper --figure 2 --out $folder/none"; do
  for option in --runs --blocks --threads; do
    # shellcheck disable=SC2086 # words
    refuses "$option=0: must be " $study $option 0
  done
done
refuses "--scale=0: must be more than 0" paper --figure 2 --out "$folder/none" --scale 0
refuses "gpufs: --ram-dir=/proc: must be on tmpfs or ramfs" paper --figure 7 \
  --out "$folder/none" --ram-dir /proc
refuses "gpufs: --ram-dir=$folder/none: No such file" paper --figure 7 --out "$folder/none" \
  --ram-dir "$folder/none"
refuses "--step=0: must be from 2 to 64" paper --figure 2 --out "$folder/none" --step 0
refuses "--records=0: must be from 1" peers --records 0
for study in ratios peers patterns nvme; do
  refuses "--size=0: must be from 1 to 256T" $study --size 0
done
for option in --blocks --threads; do
  for study in patterns nvme; do refuses "$option=0: must be " $study $option 0; done
done
for option in --controller-threads --queue-pairs --depth; do
  refuses "$option=0: must be from " nvme $option 0
done
refuses "--threads=0: must be " apps --out "$folder/none" --threads 0
# A tail that is no whole request of the host threads.
line=$(bench write --size 2047K --req 1K --runs 1 --random-order --json) || complain "bench write"
[[ $line =~ \"verified\":\ true ]] || complain "bench write: $line"

# The ratios. has_rows WHAT ROW...: $line has these rows.
has_rows() {
  local what=$1 row
  shift
  for row in "$@"; do
    [[ $line =~ \"$row\":\ \{\"what\":\ \"[^\"]*\",\ \"ratio\":\ [0-9] ]] ||
      complain "$what: no $row in $line"
  done
}
line=$(bench ratios --size 1M --runs 1 --json) || complain "bench ratios failed"
has_rows "bench ratios" pull pages original readahead cpuio pipelined oneblock fourfold
[[ $line =~ \"cold\":\ \{ ]] || complain "bench ratios: no row cold in $line"
line=$(bench ratios --set random --size 256K --runs 1 --idle-mapping --json) ||
  complain "bench ratios --set random failed"
has_rows "bench ratios --set random" rand randblock zipf rand512
[[ $line =~ \"randcold\":\ \{ && ! $line =~ \"pull\":\ \{ ]] ||
  complain "bench ratios --set random: $line"
line=$(bench ratios --set array --size 256K --runs 1 --json) ||
  complain "bench ratios --set array failed"
has_rows "bench ratios --set array" arraystream ptrstream arraylookup array512 array512_4k
[[ $line =~ \"verified\":\ true && ! $line =~ \"pull\":\ \{ ]] ||
  complain "bench ratios --set array: $line"
# Only a part of the last page and of the warps' last round is in the file.
bench ratios --set array --size 100008 --page-size 512 --runs 1 >"$folder/log" 2>&1 ||
  complain "bench ratios --set array, 100008 bytes: $(cat "$folder/log")"
refuses "needs a file and a --size of 512 bytes or more" ratios --set array --size 500 \
  "${shape[@]}" "${settings[@]}"
text=$(bench ratios --only pages --size 256K --runs 2)
[ "$(grep -c ' / ' <<<"$text")" -eq 1 ] || complain "bench ratios --only pages: $text"
grep -q REACHED <<<"$text" && complain "bench ratios compared a small file with the targets"
"$gpufs" bench ratios --only sideways >/dev/null 2>"$folder/error"
[ $? -eq 2 ] && grep -q "must be among pull," "$folder/error" ||
  complain "bench ratios --only sideways: $(cat "$folder/error")"

# What users would take instead.
line=$(bench peers --size 1M --records 100 --runs 2 --json) || complain "bench peers failed"
rates='\{"GBps": [0-9.e+-]+, [^}]*\}'  # of a pattern
for row in gpufs threads model4k model64k; do
  [[ $line =~ \"$row\":\ \{\"what\":\ \"[^\"]*\",\ \"stream\":\ $rates,\ \"records\":\ $rates ]] ||
    complain "bench peers: no $row in $line"
done
text=$(bench peers --size 1M --records 10 --record 1K --runs 1 --only mmap pread) ||
  complain "bench peers --only failed"
[[ $text == *"mmap, one copy"*"one pread of all"* && $text != *KvikIO* ]] ||
  complain "bench peers --only: $text"
if [[ $line =~ \"kind\":\ \"emulated\" && $line != *'"missing": "needs a GPU"'* ]]; then
  complain "bench peers: what needs a GPU must say so: $line"
fi
refuses "must be among gpufs, " peers --only sideways
refuses "must have 1 to 2^32 records" peers --size 4K --record 8K "${settings[@]}"

# The figures. Four blocks read 960 KiB, 240 KiB each: sizes 4 and 64 KiB fit. They read figure 10's
# 4 MiB, 1 MiB each: that size fits, too.
bench paper --figure all --out "$folder/out" --scale 0.001 --step 16 --runs 1 --no-charts \
  >"$folder/log" 2>&1 || complain "bench paper: $(cat "$folder/log")"

# check FIGURE SERIES KIND: a row at each size (line: one row), with low <= y <= high. Rates are
# above 0.
check() {
  local file=$folder/out/figure_$1.csv sizes='4096 65536' got
  [ "$1" = 10 ] && sizes='4096 65536 1048576'
  [ "$3" = line ] && sizes=0
  [ "$(head -1 "$file" 2>/dev/null)" = figure,series,kind,x,y,unit,low,high ] ||
    complain "$file: wrong first line"
  got=$(awk -v series="$2" -v kind="$3" -v figure="$1" -F, '{
    if (!match($0, /"[^"]*"/) || substr($0, RSTART + 1, RLENGTH - 2) != series) next
    split(substr($0, RSTART + RLENGTH + 1), f, ",")  # kind x y unit low high
    good = $1 == figure && f[1] == kind && f[5] + 0 <= f[3] + 0 && f[3] + 0 <= f[6] + 0 &&
      (f[4] != "GB/s" || f[3] > 0)
    printf "%s%s", separator, good ? f[2] : "bad"
    separator = " "
  }' "$file")
  [ "$got" = "$sizes" ] ||
    complain "figure $1, \"$2\": rows at '$got', not at '$sizes': $(cat "$file")"
}
for figure in 2 7; do
  check $figure gpufs points
  check $figure "our model of GPUfs" points
  check $figure "CPU I/O, 4 threads, no transfer" points
done
for figure in 3 5; do
  check $figure "our model of GPUfs, requests only" points
  check $figure "CPU I/O, 4 threads" points
done
check 3 "gpufs, requests only" points
check 5 "gpufs, requests only, as many threads" points
check 5 "the same reads without a device" points
check 5 "the same reads without a device (our model of GPUfs)" points
for thread in 0 1 2 3; do
  check 6 "gpufs, thread $thread" bars
  check 6 "our model of GPUfs, thread $thread" bars
  check 6 "gpufs, thread $thread: requests" table
  check 6 "our model of GPUfs, thread $thread: requests" table
done
check 9 "gpufs, 4K pages, readahead of this size" points
check 9 "gpufs, pages of this size" points
check 9 "our model of GPUfs, pages of this size" points
check 9 "gpufs, 4K pages, automatic readahead" line
for policy in LRA "global FIFO" CLOCK; do check 10 "gpufs, $policy" points; done
check 10 "our model of GPUfs, 4K pages" line
for figure in 2 7 9 10; do
  for limit in "pull limit" "DMA limit" "hand-written: 1 thread, 1 copy" \
    "hand-written: 8 threads, pipelined"; do
    check $figure "$limit" line
  done
done
# Four blocks request each 4 KiB page of their 240 KiB. In our model of GPUfs the thread of the
# first slots serves all of them. In gpufs any thread may.
for who in "our model of GPUfs" gpufs; do
  sum=$(awk -F, -v who="\"$who" '
    $2 == who && $5 == 4096 && $7 == "requests" { n += $6 }
    END { print n + 0 }' "$folder/out/figure_6.csv")
  [ "$sum" -eq 245 ] || complain "figure 6: $who served $sum requests of 4 KiB, not 245"
done
grep -q '6,"our model of GPUfs, thread 0: requests",table,4096,245,' "$folder/out/figure_6.csv" ||
  complain "figure 6: the first thread did not serve all requests of the original"
grep -q '"name": "figure 10"' "$folder/out/figure_10.json" ||
  complain "figure_10.json does not say what it is"
# Figures 3, 5 and 6 bring no bytes to the device: there is nothing to verify.
for figure in 2 3 5 6 7 9 10; do
  verified=true
  [[ $figure == [356] ]] && verified=false
  grep -q "\"verified\": $verified" "$folder/out/figure_$figure.json" ||
    complain "figure_$figure.json: verified must be $verified"
done
bench paper --figure 7 --cold --out "$folder/cold" --scale 0.001 --step 64 --runs 1 --no-charts \
  >"$folder/log" 2>&1 || complain "bench paper --cold: $(cat "$folder/log")"
grep -q '"cold": false' "$folder/cold/figure_7.json" ||
  complain "figure 7 is measured warm: $(cat "$folder/cold/figure_7.json")"

# A chart, or the reason why there is none.
bench paper --figure 3 --out "$folder/chart" --scale 0.001 --step 64 --runs 1 \
  >"$folder/log" 2>&1
if grep -q "no chart: charts need Python with matplotlib" "$folder/log"; then
  echo "no chart drawn: matplotlib is not installed"
else
  [ "$(head -c 4 "$folder/chart/figure_3.png" | tail -c 3)" = PNG ] ||
    complain "no chart: $(cat "$folder/log")"
fi
# Without matplotlib the script says so.
mkdir "$folder/without"
echo 'raise ImportError' >"$folder/without/matplotlib.py"
if python3 -c 0 2>/dev/null; then
  said=$(PYTHONPATH="$folder/without" python3 "$(dirname "$0")/../../scripts/plot.py" \
    "$folder/out/figure_3.csv" 2>&1)
  [ $? -eq 3 ] && [[ $said == *"charts need matplotlib"* ]] || complain "plot.py says: $said"
fi
conclude
