#!/usr/bin/env bash
# stress_ends.sh GPUFS_STRESS: a round that hangs is a failure, although it is longer than
# --longest-round. A supervisor that a signal ends leaves no process of a round.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
stress=$1  # the round of seed 5 is a long one

# begin_stopped OPTION...: a supervisor whose round is stopped. $supervisor is its number. What it
# prints comes from descriptor 3; the round's process has the other end, too.
begin_stopped() {
  local round
  exec 3< <(exec "$stress" --dir "$folder" --seed 5 "$@" 2>&1)
  supervisor=$!
  until [ -e "$folder/gpufs-stress-$supervisor/log0" ]; do
    kill -0 "$supervisor" 2>/dev/null || break
  done
  round=$(pgrep -P "$supervisor")
  kill -STOP "$round" || complain "$*: no round to stop"
}

begin_stopped --rounds 1 --longest-round 2 --hang 4
said=$(timeout 120 cat <&3)
wait "$supervisor"
status=$?
[ $status -eq 1 ] && [[ $said == *"FAILED in round 1 of seed 5: no operation ended for 4 s"* ]] ||
  complain "a round that hangs: status $status: $said"

# Also at the end of the time.
begin_stopped --time 2s --hang 4
said=$(timeout 120 cat <&3)
[[ $said == *"FAILED in round 1 of seed 5: no operation ended for 4 s"* ]] ||
  complain "a round that hangs at the end of the time: $said"

begin_stopped --rounds 1
kill -TERM "$supervisor"
# The last process that has the other end of the pipe ends it.
timeout 120 cat <&3 >/dev/null || complain "a round's process outlived its supervisor"
conclude
