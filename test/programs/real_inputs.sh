#!/usr/bin/env bash
# real_inputs.sh BIN_DIR DATA_DIR: the applications that take real files, on those that
# `make fetch-data` has put into DATA_DIR. Exit status 77: there are none, or there is no device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
bin=$1
data=$2
[ -e "$data/photo.rgb8" ] && [ -e "$data/wordnet.bfs" ] && [ -e "$data/blosum62.i32" ] || {
  echo "no real files in $data: make fetch-data"
  exit 77
}
check() {
  local said
  said=$("$@" --check --json --staging 8M --prefetch-memory 16M 2>&1)
  [[ $said == *"no device to run on"* ]] && exit 77
  [[ $said == *'"verified": true'* ]] && return
  complain "$*: $said"
}
for filter in 53 97; do
  check "$bin/dwt2d" --filter $filter --input "$data/photo.rgb8" --output "$folder"
done
for mode in gread fused; do
  check "$bin/2dconv" --mode $mode --input "$data/photo.f32" --output "$folder"
done
check "$bin/bfs" --input "$data/wordnet.bfs"
check "$bin/nw" --input "$data/blosum62.i32"
for picture in dwt2d 2dconv; do
  [ "$(head -c 4 "$folder/$picture.png" | tail -c 3)" = PNG ] || complain "no $picture.png"
done
conclude
