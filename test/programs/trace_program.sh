#!/usr/bin/env bash
# trace_program.sh GPUFS: traces a benchmark, and checks what `gpufs trace` says of that trace and
# of broken ones.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1
cd "$folder" || exit 1
settings=(--staging 4M --prefetch-memory 8M --seats 64 --rpc-timeout 120s --cache-size 4M)

# field KEY: a number of the JSON object in $json.
field() { sed -n "s/.*\"$1\": *\([0-9][0-9]*\).*/\1/p" <<<"$json"; }

GPUFS_TRACE=run.json "$gpufs" bench rand --size 256K --req 4K --page-size 4K --prefetch 0 --runs 1 \
  --no-limits --blocks 4 --threads 32 --io-path pull --registered-memory 0 "${settings[@]}" \
  >bench 2>&1 || complain "bench: $(cat bench)"
said=$("$gpufs" trace run.json 2>&1) || complain "trace: $said"
for part in "requests by kind and path" "times by kind" "slowest requests" "each read"; do
  [[ $said == *"$part"* ]] || complain "trace: no \"$part\" in $said"
done
json=$("$gpufs" trace --json run.json) || complain "trace --json failed"
python3 -c 'import json,sys; json.loads(sys.stdin.read())' <<<"$json" || complain "no JSON: $json"
[ "$(field malformed_lines)" = 0 ] || complain "malformed lines in $json"
[ "$(field begun)" = "$(field ended)" ] || complain "begun and ended differ: $json"
[ "$(field most_reads_of_a_byte)" -ge 1 ] || complain "no byte was read: $json"

# A picture, or the reason why there is none.
"$gpufs" trace run.json --picture run.png >/dev/null 2>picture
case $? in
  0) [ "$(head -c 8 run.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] ||
       complain "run.png is no PNG" ;;
  3) grep -q matplotlib picture || complain "picture: $(cat picture)" ;;
  *) complain "picture: $(cat picture)" ;;
esac

# A place where no picture can be is told before the trace is read.
said=$("$gpufs" trace run.json --picture none/run.png 2>&1)
[ $? -eq 2 ] && [[ $said == "gpufs: --picture=none/run.png: there is no folder none" ]] ||
  complain "picture: $said"
said=$("$gpufs" trace run.json --picture "" 2>&1)
[ $? -eq 2 ] && [ "$said" = "gpufs: --picture=: must name a file or folder" ] ||
  complain "picture without a name: $said"
# A picture that fails leaves the old one.
if [ -s run.png ]; then
  sum=$(cksum <run.png)
  (ulimit -f 1 && trap '' XFSZ && "$gpufs" trace run.json --picture run.png >/dev/null 2>&1) &&
    complain "a picture of more than a block was drawn"
  [ "$sum" = "$(cksum <run.png)" ] || complain "an old picture was damaged"
  [ ! -e run.png.part ] || complain "left behind: run.png.part"
fi

# A picture does not take the place of its trace, nor a trace that of another file.
ln -s run.json linked.json
said=$("$gpufs" trace run.json --picture linked.json 2>&1)
[ $? -eq 2 ] && [[ $said == *"--picture=linked.json: is the trace"* ]] || complain "picture: $said"
head -n 1 run.json | grep -q '"op": "begin"' || complain "the trace was written over"
echo precious >other
said=$("$gpufs" bench seq --size 64K --runs 1 --no-limits "${settings[@]}" --blocks 4 --threads 32 \
  --trace other 2>&1 >/dev/null)
[[ $said == *"no trace: trace=other: has bytes that are no trace"* ]] || complain "trace: $said"
[ "$(cat other)" = precious ] || complain "a file was written over"

# Lines that are none.
{ head -n 3 run.json; echo "no line"; tail -n 1 run.json | head -c 20; } >broken.json
said=$("$gpufs" trace broken.json 2>&1 >/dev/null)
[ $? -eq 1 ] || complain "broken.json: status must be 1"
for line in 4 5; do
  [[ $said == *"broken.json:$line: not a line of a trace: "* ]] || complain "broken.json: $said"
done
said=$("$gpufs" trace missing.json 2>&1)
[ $? -eq 1 ] && [[ $said == *"missing.json: No such file"* ]] || complain "missing.json: $said"
said=$("$gpufs" trace . 2>&1)
[ $? -eq 1 ] || complain "a folder: $said"
: >empty.json
said=$("$gpufs" trace empty.json 2>&1)
[ $? -eq 1 ] && [[ $said == "gpufs: empty.json: is empty: "* ]] || complain "empty.json: $said"
# The script for pictures leaves out what is no line of a trace.
python3 - "$(dirname "$gpufs")/trace.py" <<'END' || complain "trace.py does not leave out lines"
import sys, types
for name in ("figures", "matplotlib", "matplotlib.pyplot"):
    sys.modules[name] = types.SimpleNamespace(use=lambda backend: None)
sys.modules["matplotlib"].pyplot = sys.modules["matplotlib.pyplot"]
script = {"__name__": "trace"}
exec(open(sys.argv[1]).read(), script)
good = '{"op":"read","path":"ring","file":"f","time_ns":5,"bytes":7,"requests":[[1,2,3]]}'
lines = [good, "[]", "no line"]
for was, wrong in (('"read"', "1"), ("5", '"5"'), ("7", "null"), ("[[1,2,3]]", "3"),
                   ("[[1,2,3]]", "[3]"), ("[1,2,3]", "[1,2]"), ("[1,2,3]", '[1,2,"3"]')):
    lines.append(good.replace(was, wrong))
with open("lines.json", "w") as file:
    file.write("\n".join(lines))
assert len(list(script["requests_of"]("lines.json"))) == 1
END
mkfifo pipe.json
for file in pipe.json /dev/zero; do
  said=$(timeout 60 "$gpufs" trace $file 2>&1)
  [ $? -eq 1 ] && [[ $said == *"$file: must be a regular file"* ]] || complain "$file: $said"
done
for number in -1 1000001; do
  said=$("$gpufs" trace run.json --slowest $number 2>&1)
  [ $? -eq 2 ] && [[ $said == *"--slowest=$number: must be from 0 to 1000000"* ]] ||
    complain "--slowest $number: $said"
done

# The log: what notes() says, as it happens. Warnings are logged by default.
said=$("$gpufs" bench seq --size 64K --runs 1 --no-limits "${settings[@]}" --blocks 4 --threads 32 \
  --log info 2>&1 >/dev/null)
[[ $said == *"[info] filesystem of "* ]] || complain "--log info: $said"
said=$("$gpufs" bench seq --size 64K --runs 1 --no-limits "${settings[@]}" --blocks 4 --threads 32 \
  --trace missing/trace 2>&1 >/dev/null)
[[ $said == *"[warning] no trace: trace=missing/trace: No such file"* ]] || complain "trace: $said"
said=$("$gpufs" info --log loud 2>&1)
[ $? -eq 2 ] && [[ $said == *"--log=loud: must be one of off error warn info debug"* ]] ||
  complain "--log loud: $said"
said=$("$gpufs" settings 2>&1 >/dev/full)
[ $? -eq 1 ] && [[ $said == "gpufs: standard output: No space left on device" ]] ||
  complain "settings >/dev/full: $said"
said=$("$gpufs" nosuch 2>&1)
[ $? -eq 2 ] && [[ $said == "gpufs: an argument was not expected: nosuch; "* ]] ||
  complain "nosuch: $said"
said=$("$gpufs" 2>&1)
[ $? -eq 2 ] && [[ $said == *"subcommand is required"* ]] || complain "no subcommand: $said"
[[ $("$gpufs" --version) == "gpufs "[0-9]*.*" (commit "* ]] || complain "--version"
conclude
