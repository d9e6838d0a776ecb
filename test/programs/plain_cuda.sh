#!/usr/bin/env bash
# plain_cuda.sh TWO_MEMORIES ONE_MEMORY...: builds of test/programs/plain_cuda.cu. They print the
# same, also where the one memory moves by other protocols. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
two=$1
shift
file=$folder/input
while [ "$(stat -c %s "$file" 2>/dev/null || echo 0)" -lt 5000000 ]; do cat "$two" >>"$file"; done
expected=$("$two" "$file" 2>&1)
status=$?
none="no device|no CUDA-capable device|driver version is insufficient"
grep -qiE "$none" <<<"$expected" && exit 77
[ $status -eq 0 ] || complain "two memories: status $status: $expected"
for one in "$@"; do
  for protocol in rolling lazy; do
    for block in 4K 64K 2M; do
      said=$(GMAC_PROTOCOL=$protocol GMAC_BLOCK_SIZE=$block "$one" "$file" 2>&1)
      status=$?
      [ $status -eq 0 ] || complain "${one##*/} $protocol $block: status $status: $said"
      [ "$said" = "$expected" ] ||
        complain "${one##*/} $protocol $block: $(diff <(echo "$expected") <(echo "$said"))"
    done
  done
done
conclude
