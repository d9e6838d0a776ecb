#!/usr/bin/env python3
"""peers_kvikio.py FILE stream|records BYTES RECORD NUMBERS check|no-check: KvikIO reads the first
BYTES bytes of FILE into GPU memory, or the records of RECORD bytes whose numbers are in the file
NUMBERS (32 bits each). Prints the seconds it took. `gpufs bench peers` calls it.
"""
import sys
import time

import cupy
import kvikio
import numpy


def read_stream(file, size):
    memory = cupy.empty(size, cupy.uint8)
    cupy.cuda.runtime.deviceSynchronize()
    start = time.perf_counter()
    got = file.read(memory, size)
    seconds = time.perf_counter() - start
    if got != size:
        sys.exit(f"KvikIO read {got} of {size} bytes")
    return memory, seconds


def read_records(file, record, numbers):
    memory = cupy.empty((len(numbers), record), cupy.uint8)
    offsets = [int(number) * record for number in numbers]
    cupy.cuda.runtime.deviceSynchronize()
    start = time.perf_counter()
    futures = [file.pread(memory[i], record, offset) for i, offset in enumerate(offsets)]
    for future in futures:
        future.get()
    return memory, time.perf_counter() - start


def main():
    path, kind, size, record, numbers, check = sys.argv[1:]
    size, record = int(size), int(record)
    numbers = numpy.fromfile(numbers, numpy.uint32)
    with kvikio.CuFile(path, "r") as file:
        if kind == "stream":
            memory, seconds = read_stream(file, size)
        else:
            memory, seconds = read_records(file, record, numbers)
    if check == "check":
        right = numpy.memmap(path, numpy.uint8, "r")
        if kind == "records":
            right = right[:len(right) // record * record].reshape(-1, record)[numbers]
        else:
            right = right[:size]
        if not numpy.array_equal(memory.get(), right):
            sys.exit("KvikIO brought wrong bytes")
    print(seconds)


if __name__ == "__main__":
    main()
