#!/usr/bin/env bash
# peers_kvikio.sh SCRIPT: runs peers_kvikio.py with modules that stand in for CuPy and KvikIO, and
# checks which bytes it asks for and that it sees wrong ones. Exits with 77 where numpy is missing.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
script=$1
python=
for one in python3 /usr/bin/python3; do
  if [ -z "$python" ] && "$one" -c 'import numpy' 2>/dev/null; then python=$one; fi
done
[ -n "$python" ] || exit 77
cd "$folder" || exit 1
cat >cupy.py <<'EOF'
import numpy


class _Array(numpy.ndarray):
    def get(self):
        return numpy.asarray(self)


def empty(shape, dtype):
    return numpy.zeros(shape, dtype).view(_Array)


class cuda:
    class runtime:
        @staticmethod
        def deviceSynchronize():
            pass


uint8 = numpy.uint8
EOF
cat >kvikio.py <<'EOF'
import os

import numpy


class CuFile:
    def __init__(self, path, mode):
        self.file = open(path, mode + "b")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def read(self, memory, size, offset=0):
        self.file.seek(offset)
        data = self.file.read(size)
        memory.reshape(-1)[:len(data)] = numpy.frombuffer(data, numpy.uint8)
        if os.environ.get("WRONG"):
            memory.reshape(-1)[-1] += 1
        return len(data)

    def pread(self, memory, size, offset):
        self.read(memory, size, offset)
        return self

    def get(self):
        return None
EOF
head -c 10000 /dev/urandom >file
printf '\3\0\0\0\0\0\0\0\11\0\0\0\3\0\0\0' >numbers  # 3, 0, 9, 3
run() { PYTHONPATH=. "$python" "$script" file "$@" 2>error; }
for kind in stream records; do
  said=$(run $kind 9000 1000 numbers check) || complain "$kind: $(cat error)"
  [[ $said =~ ^[0-9.e-]+$ ]] || complain "$kind: $said"
  WRONG=1 run $kind 9000 1000 numbers check >/dev/null && complain "$kind: wrong bytes pass"
  grep -q "wrong bytes" error || complain "$kind: $(cat error)"
  WRONG=1 run $kind 9000 1000 numbers no-check >/dev/null || complain "$kind: $(cat error)"
done
run stream 10001 1000 numbers no-check >/dev/null && complain "a short read passes"
conclude
