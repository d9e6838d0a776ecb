"""Random records of a file, gathered by a kernel: on a GPU into a tensor of PyTorch, on the
emulated device into an array of NumPy. Compares them with what NumPy reads.

  python gather.py FILE [--record 512] [--count 100000]
"""
import argparse
import sys
import time

import numpy

import gpufs

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
parser.add_argument("--record", type=int, default=512, help="bytes of a record")
parser.add_argument("--count", type=int, default=100_000, help="records to gather")
options = parser.parse_args()
if options.record < 1 or options.count < 1:
    parser.error("--record, --count: must be at least 1")

with gpufs.Filesystem() as fs, fs.open(options.file) as file:
    records = file.size // options.record
    if records == 0:
        parser.error(f"--record {options.record}: the file has only {file.size} bytes")
    numbers = numpy.random.default_rng(1).integers(0, records, options.count)
    shape = (options.count, options.record)
    if gpufs.device_kind == "cuda":
        import torch
        out = torch.empty(shape, dtype=torch.uint8, device="cuda")
    else:
        out = numpy.empty(shape, numpy.uint8)
    start = time.perf_counter()
    file.gather(numbers * options.record, out=out)
    seconds = time.perf_counter() - start
    found = out.cpu().numpy() if gpufs.device_kind == "cuda" else out

table = numpy.memmap(options.file, numpy.uint8, "r", shape=(records, options.record))
if not numpy.array_equal(found, table[numbers]):
    sys.exit("the records differ from those of the file")
print(f"{options.count} records of {options.record} bytes are those of the file; gathered in "
      f"{seconds * 1e3:.1f} ms on the {gpufs.device_kind} device")
