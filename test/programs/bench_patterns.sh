#!/usr/bin/env bash
# bench_patterns.sh GPUFS: runs `gpufs bench patterns` on small files, and checks what each row
# reads from the host. Only counters are asserted, no times. Every row compares its bytes with the
# file. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1
# Only what makes the table small enough for the emulated device is set.
settings=(--rpc-timeout 120s --cache 64M)
patterns() { "$gpufs" bench patterns --folder "$folder" --rounds 1 "${settings[@]}" "$@"; }

patterns --only ring >"$folder/first" 2>&1 || {
  grep -q "no device" "$folder/first" && exit 77
  complain "bench patterns --only ring: $(cat "$folder/first")"
}

# Rows whose cache is smaller than the file read pages again that were thrown out. They must not
# read more than one page for each page that a request touches.
smaller_cache=zipf,floats
all=stream,columns,pieces,pages,records,random,randomblocks,files,latency,hitlatency,ring
all+=,hotstream,hotrandom,write,hits

patterns --size 8M --only "$all" --check counters --json "$folder/rows.json" \
  --csv "$folder/rows.csv" --no-charts >"$folder/log" 2>&1 ||
  complain "bench patterns --check counters: $(cat "$folder/log")"
line=$(cat "$folder/rows.json")
for row in ${all//,/ }; do
  [[ $line =~ \"$row\":\ \{\"what\" ]] || complain "bench patterns: no $row in $line"
done
[[ $line =~ \"failed\" ]] && complain "bench patterns: a row failed: $line"
[ "$(grep -c , "$folder/rows.csv")" -eq $((1 + $(wc -w <<<"${all//,/ }"))) ] ||
  complain "bench patterns: $(cat "$folder/rows.csv")"
grep -q "of wanted: how often each wanted byte was read from the host" "$folder/log" ||
  complain "bench patterns does not say how often bytes were read"

# One block reads the first MiB, in a file of its own. In a larger file the prefetcher reads on
# behind that MiB, which counts as much as the MiB itself.
patterns --size 8M --only oneblock --check counters --idle-mapping >"$folder/log" 2>&1 ||
  complain "bench patterns --only oneblock: $(cat "$folder/log")"

patterns --size 8M --only "$smaller_cache" --json "$folder/rows.json" >"$folder/log" 2>&1 ||
  complain "bench patterns --only $smaller_cache: $(cat "$folder/log")"
awk -F'"host_bytes": ' '{
  for (i = 2; i <= NF; ++i) {
    split($i, a, /"asked_page_bytes": /)
    if ($i + 0 == 0 || $i + 0 > 1.1 * a[2]) exit 1
  }
}' "$folder/rows.json" || complain "a row reads more than its requests: $(cat "$folder/rows.json")"

patterns --only sideways >/dev/null 2>"$folder/error"
[ $? -eq 2 ] && grep -q "must be among stream," "$folder/error" ||
  complain "bench patterns --only sideways: $(cat "$folder/error")"

# Reports that would replace the input or each other, or have no folder, are refused at once.
# refuses TEXT ARGUMENT...: ends with status 2, and says that text.
refuses() {
  local wanted=$1 said got
  shift
  said=$(patterns --only stream --size 8M "$@" 2>&1)
  got=$?
  [ $got -eq 2 ] && [[ $said == *"$wanted"* ]] || complain "bench patterns $*: status $got, $said"
}
head -c 8M /dev/zero >"$folder/in.png"
sum=$(cksum <"$folder/in.png")
ln -s in.png "$folder/link"
refuses "--json=$folder/link: is the file to be read" --file "$folder/in.png" --json "$folder/link"
refuses "in.png: is the file to be read" --file "nvme:soft:$folder/in.png" --csv "$folder/in.png"
refuses "in.png: is the file to be read" --file "$folder/in.png" --csv "$folder/in.csv"
refuses "/./x: is the file of --json, too" --json "$folder/x" --csv "$folder/./x"
for option in --json --csv --file --tmpfs; do
  refuses "gpufs: $option=: must name a file or folder" $option ""
done
refuses "--tmpfs=/proc: must be on tmpfs or ramfs" --only writetmpfs --tmpfs /proc
refuses "--tmpfs=$folder/none: No such file" --only writetmpfs --tmpfs "$folder/none"
refuses "--json=$folder/none/x: there is no folder $folder/none" --json "$folder/none/x"
refuses "--csv=$folder: is a folder" --csv "$folder"
[ "$(cksum <"$folder/in.png")" = "$sum" ] || complain "an input was written over"
conclude
