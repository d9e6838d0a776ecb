# Sourced by tests of studies behind complain.sh.

# keeps_results STUDY FIGURE NAME PROGRAM: NAME.jsonl of earlier runs stays where a run of `gpufs
# bench STUDY` fails, or where PROGRAM is not there.
keeps_results() {
  local study=$1 figure=$2 results=$folder/out/$3.jsonl
  mkdir "$folder/bin"
  cp "$gpufs" "$folder/bin/gpufs"
  echo old >"$results"
  again() {
    said=$("$folder/bin/gpufs" bench "$study" --figure "$figure" --size smoke \
      --out "$folder/out" --folder "$folder" 2>&1)
    [ $? -eq "$1" ] && [[ $said == *"$2"* ]] || complain "$2: $said"
    [ "$(cat "$results")" = old ] || complain "$2: older results are gone"
  }
  again 2 "the program $4 is needed beside this one"
  printf '#!/bin/sh\necho new\nexit 1\n' >"$folder/bin/$4"
  chmod +x "$folder/bin/$4"
  again 1 "$3.jsonl: not written, as runs failed"
  compgen -G "$folder/out/*part*" && complain "something is left behind"
}
