#!/usr/bin/env bash
# stress_ends.sh GPUFS_STRESS: a round that hangs is a failure, although it is longer than
# --longest-round. A wrong byte is, too. A supervisor that a signal ends leaves no process of a
# round.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
stress=$1  # the round of seed 5 is a wide one: about 67 MB, and nobody writes to byte 40000000

# begin_stopped OPTION...: a supervisor whose round is stopped once a kernel has written to its log.
# $supervisor is its number, $round that of the round's process. What it prints comes from
# descriptor 3; the round's process has the other end, too.
begin_stopped() {
  exec 3< <(exec "$stress" --dir "$folder" --seed 5 "$@" 2>&1)
  supervisor=$!
  until round=$(pgrep -P "$supervisor"); do
    kill -0 "$supervisor" 2>/dev/null || break
  done
  # Nothing that takes time comes between what is seen and the signal: a round may be short.
  until [ -s "$folder/gpufs-stress-$supervisor/log0" ]; do
    kill -0 "$supervisor" 2>/dev/null || break
  done
  kill -STOP "$round" || complain "$*: no round to stop"
}

begin_stopped --rounds 1 --longest-round 4 --hang 6
said=$(timeout 120 cat <&3)
wait "$supervisor"
status=$?
[ $status -eq 1 ] && [[ $said == *"FAILED in round 1 of seed 5: no operation ended for 6 s"* ]] ||
  complain "a round that hangs: status $status: $said"

said=$("$stress" --rounds 1 --dir "" 2>&1)
[ $? -eq 2 ] && [ "$said" = "gpufs-stress: --dir=: must name a file or folder" ] ||
  complain "a folder without a name: $said"

# Also at the end of the time.
begin_stopped --time 8s --hang 10
said=$(timeout 120 cat <&3)
[[ $said == *"FAILED in round 1 of seed 5: no operation ended for 10 s"* ]] ||
  complain "a round that hangs at the end of the time: $said"

# One wrong byte of a wide round, at the place that is named.
begin_stopped --rounds 1
cells=$folder/gpufs-stress-$supervisor/cells
value=$(od -An -tu1 -j 40000000 -N 1 "$cells")
printf "\\x$(printf %02x $((value ^ 255)))" |
  dd of="$cells" bs=1 seek=40000000 conv=notrunc status=none
kill -CONT "$round"
said=$(timeout 300 cat <&3)
wait "$supervisor"
status=$?
wrong=$(printf '(byte 40000000 of the file) is %#x, which is of none of the versions' \
  $((value ^ 255)))
[ $status -eq 1 ] && [[ $said == *"FAILED in round 1 of seed 5: "*"$wrong"* ]] ||
  complain "a wrong byte: status $status: $said"
rm -rf "$folder/gpufs-stress-$supervisor"

begin_stopped --rounds 1
kill -TERM "$supervisor"
# The last process that has the other end of the pipe ends it.
timeout 120 cat <&3 >/dev/null || complain "a round's process outlived its supervisor"
conclude
