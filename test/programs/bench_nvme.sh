#!/usr/bin/env bash
# bench_nvme.sh GPUFS: runs `gpufs bench nvme` at its sizes for the emulated device, and checks what
# each row counts. No times are asserted. The program itself compares the commands of kernels with
# those that controllers have taken, and bytes with their files. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1
nvme() {
  "$gpufs" bench nvme --runs 1 --rpc-timeout 120s --cache 64M "$@"
}

nvme --only commands >"$folder/first" 2>&1 || {
  grep -q "no device" "$folder/first" && exit 77
  complain "bench nvme --only commands: $(cat "$folder/first")"
}
grep -q "emulated device: correctness only" "$folder/first" ||
  complain "bench nvme compares with targets: $(cat "$folder/first")"

# The row of cold reads fails where the file system of the temporary file does not allow O_DIRECT,
# and by itself.
nvme --json "$folder/rows.json" >"$folder/log" 2>&1
status=$?
cold=cold4K
if grep -q "O_DIRECT, use its page cache\|limit of the storage" "$folder/log"; then cold=; fi
[ $status = 0 ] || [ -z "$cold" ] || complain "bench nvme: $(cat "$folder/log")"

# number ROW NAME: the number of that name of a row.
number() { sed -E "s/.*\"$1\": \{\"what\"[^{}]*\"$2\": ([0-9.e+-]+).*/\1/" "$folder/rows.json"; }

# 4 blocks of 64 threads send 4 commands each. The row pairs does so six times, gpuctl twice.
declare -A sent=([commands]=1024 [protocol]=1024 [doorbells]=1024 [pairs]=6144 [gpuctl]=2048
  [gpuorder]=1024)
for row in "${!sent[@]}"; do
  [ "$(number "$row" commands)" = "${sent[$row]}" ] ||
    complain "$row: $(number "$row" commands) commands, not ${sent[$row]}"
  for which in sq_doorbells cq_doorbells; do
    rung=$(number "$row" $which)
    [ "$rung" -ge 1 ] && [ "$rung" -le "${sent[$row]}" ] || complain "$row: $rung $which"
  done
done
# Two warps read for each of 1, 2, 4, 8 and 10 drives, in whole blocks of 64 threads.
[ "$(number drives commands)" = $((25 * 64 * 4)) ] ||
  complain "drives: $(number drives commands) commands"
# A command for each page that was missed.
for row in rand4K rand512 file4K $cold; do
  [ "$(number $row commands)" -gt 0 ] &&
    [ "$(number $row commands)" = "$(number $row missed_pages)" ] ||
    complain "$row: $(number $row commands) commands, $(number $row missed_pages) missed pages"
done
for row in commands protocol rand4K rand512 file4K $cold pairs gpuctl gpuorder drives; do
  [[ $(number $row ratio) =~ ^[0-9.e+-]+$ ]] || complain "$row has no ratio"
done
[ -n "$cold" ] && grep -q '"failed"' "$folder/rows.json" &&
  complain "a row failed: $(cat "$folder/rows.json")"
for text in "the controller alone, M/s" "8 pairs, M/s" "128 pairs, M/s" "per CQ doorbell" \
  "4 pairs, published, M/s" "10 modelled, of the specification" "(modelled)"; do
  grep -qF "$text" "$folder/log" || complain "bench nvme does not say $text: $(cat "$folder/log")"
done

# More callers than channels, and laps of all rings.
nvme --only commands,protocol,gpuctl,gpuorder --depth 16 --queue-pairs 1 >"$folder/log" 2>&1 ||
  complain "bench nvme --depth 16: $(cat "$folder/log")"

# Callers that give up, perhaps: kernels end, also the one that is the controller.
timeout 300 "$gpufs" bench nvme --runs 1 --rpc-timeout 1ms --only gpuctl,gpuorder \
  >"$folder/log" 2>&1
status=$?
[ $status -eq 0 ] || { [ $status -eq 1 ] && grep -q "FAILED" "$folder/log"; } ||
  complain "bench nvme with a short timeout: status $status: $(cat "$folder/log")"

# refuses TEXT ARGUMENT...: ends with status 2, and says that text.
refuses() {
  local wanted=$1 said got
  shift
  said=$(nvme "$@" 2>&1)
  got=$?
  [ $got -eq 2 ] && [[ $said == *"$wanted"* ]] || complain "bench nvme $*: status $got, $said"
}
refuses "must be among commands, protocol" --only sideways
refuses "--depth=48: must be a power of two" --depth 48
refuses "--queue-pairs" --queue-pairs 129
refuses "--threads" --threads 1024
refuses "$folder/none, the folder of temporary files" --dir "$folder/none" --only file4K
refuses "--json=$folder/none/x: there is no folder" --json "$folder/none/x"
conclude
