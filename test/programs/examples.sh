#!/usr/bin/env bash
# examples.sh BIN: runs the programs of examples/, which lie in BIN, and compares what they say with
# what other programs say. Exit status 77: no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
bin=$1
export GPUFS_STAGING_SIZE=4M GPUFS_PREFETCH_MEMORY=4M GPUFS_WRITE_MEMORY=0 GPUFS_CACHE_SIZE=4M
cd "$folder" || exit 1

# said PROGRAM ARGUMENT...: runs an example; its output is in $out, its status in $status.
said() {
  out=$("$bin/$1" "${@:2}" 2>&1)
  status=$?
  if grep -q "no device to run on" <<<"$out"; then exit 77; fi
}

python3 - <<'PROGRAM' >expected || complain "python3 failed"
import random, struct
random.seed(1)
fields = [random.randrange(1 << 20) for _ in range(1000)]
with open("records", "wb") as f:
    for field in fields:
        f.write(struct.pack("<i252x", field))
    f.write(b"a part of a record")
print(f"{len(fields[::7])} records, sum {sum(fields[::7])}")
values = [random.randrange(1 << 40) for _ in range(5000)]
index = [random.randrange(5000) for _ in range(3000)]
open("values", "wb").write(struct.pack("<5000Q", *values))
open("index", "wb").write(struct.pack("<3000Q", *index))
open("wild", "wb").write(struct.pack("<2Q", 0, 5000))
print(f"{len(index)} elements, sum {sum(values[i] for i in index)}")
data = bytes(random.randrange(256) for _ in range(100001))
open("bytes", "wb").write(data)
open("histogram", "w").write("".join(f"{v:3d} {data.count(v)}\n" for v in range(256)))
PROGRAM

said strided_records records 7
[ "$status" -eq 0 ] && [ "$out" = "$(sed -n 1p expected)" ] || complain "strided_records: $out"
said array_gather values index
[ "$status" -eq 0 ] && [ "$out" = "$(sed -n 2p expected)" ] || complain "array_gather: $out"
said array_gather values wild
[ "$status" -eq 1 ] && [[ $out == *"Numerical result out of range"* ]] ||
  complain "array_gather of an index beyond the end: status $status: $out"
said histogram bytes
[ "$status" -eq 0 ] && [ "$out" = "$(cat histogram)" ] || complain "histogram: status $status"
said linked_list 5000
[ "$status" -eq 0 ] && [ "$out" = "5000 nodes, sum of squares 41654167500" ] ||
  complain "linked_list: status $status: $out"
for example in "strided_records missing" "histogram missing" "array_gather missing index"; do
  # shellcheck disable=SC2086 # words
  said $example
  [ "$status" -eq 1 ] && [[ $out == *"missing: No such file or directory"* ]] ||
    complain "$example: status $status: $out"
done
said strided_records records 0
[ "$status" -eq 2 ] || complain "strided_records with step 0: status $status"
conclude
