#!/usr/bin/env python3
"""Random fixed-size records of a file into a tensor: gpufs beside what a reader would use instead.

  python records.py [--file FILE] [--size 1G] [--record 4096] [--batch 4096] [--batches 64]
                    [--rounds 5] [--cold] [--json FILE]

Rows, each into the same place, each checked against the bytes of the file:
  gpufs            gather() of a batch, one kernel
  numpy memmap     memmap[indices] on the host, then a copy to the device if there is one
  torch.from_file  the same through a mapped tensor, if PyTorch is installed
  pread threads    16 threads that pread into pinned memory, if PyTorch gives it, then a copy
  KvikIO           a read per record into device memory, if kvikio is installed

A row that cannot run says why. The rounds of all rows alternate. Without FILE a file is made.
On the emulated device the bytes count, not the speed.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import sys
import tempfile
import time

import numpy

import gpufs


def size_of(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    unit = units.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdigit() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"{text}: must be a size such as 4096, 64K or 1G")
    return int(digits) * unit


class Skip(Exception):
    """Why a row does not run."""


def torch_module():
    try:
        import torch
    except ImportError:
        raise Skip("PyTorch is not installed") from None
    return torch


class Row:
    """A way to read a batch. batch() returns something that host() makes a numpy array of."""

    def __init__(self, options):
        self.size, self.path = options.record, options.file
        self.on_gpu = gpufs.device_kind == "cuda"
        self.torch = None
        if self.on_gpu:
            self.torch = torch_module()

    def to_device(self, records):
        if not self.on_gpu:
            return records
        tensor = records if isinstance(records, self.torch.Tensor) else (
            self.torch.from_numpy(records))
        moved = tensor.cuda()
        self.torch.cuda.synchronize()
        return moved

    @staticmethod
    def host(records):
        return records.cpu().numpy() if hasattr(records, "cpu") else numpy.asarray(records)

    def close(self):
        pass


class Gpufs(Row):
    def __init__(self, options):
        super().__init__(options)
        self.fs = gpufs.Filesystem()
        self.file = self.fs.open(self.path)
        self.file.advise("random")
        shape = (options.batch, self.size)
        self.out = self.torch.empty(shape, dtype=self.torch.uint8, device="cuda") if (
            self.on_gpu) else numpy.empty(shape, numpy.uint8)

    def batch(self, indices):
        return self.file.gather(indices * self.size, self.size, self.out)

    def close(self):
        self.fs.close()


class Memmap(Row):
    def __init__(self, options):
        super().__init__(options)
        count = os.path.getsize(self.path) // self.size
        self.records = numpy.memmap(self.path, numpy.uint8, "r", shape=(count, self.size))

    def batch(self, indices):
        return self.to_device(numpy.asarray(self.records[indices]))


class FromFile(Row):
    def __init__(self, options):
        super().__init__(options)
        torch = self.torch = torch_module()
        count = os.path.getsize(self.path) // self.size
        flat = torch.from_file(self.path, shared=False, size=count * self.size, dtype=torch.uint8)
        self.records = flat.reshape(count, self.size)

    def batch(self, indices):
        return self.to_device(self.records[self.torch.from_numpy(indices)])


class Pread(Row):
    threads = 16

    def __init__(self, options):
        super().__init__(options)
        self.fd = os.open(self.path, os.O_RDONLY)
        self.pool = concurrent.futures.ThreadPoolExecutor(self.threads)
        if self.on_gpu:
            self.pinned = self.torch.empty((options.batch, self.size), dtype=self.torch.uint8,
                                           pin_memory=True)
            self.out = self.pinned.numpy()
        else:
            self.pinned = self.out = numpy.empty((options.batch, self.size), numpy.uint8)

    def part(self, indices, first):
        for i in range(first, len(indices), self.threads):
            os.preadv(self.fd, [self.out[i]], int(indices[i]) * self.size)

    def batch(self, indices):
        list(self.pool.map(lambda first: self.part(indices, first), range(self.threads)))
        return self.to_device(self.pinned)

    def close(self):
        self.pool.shutdown()
        os.close(self.fd)


class KvikIO(Row):
    def __init__(self, options):
        super().__init__(options)
        try:
            import cupy
            import kvikio
        except ImportError as error:
            raise Skip(f"{error.name} is not installed") from None
        if not self.on_gpu:
            raise Skip("it needs a GPU")
        self.file = kvikio.CuFile(self.path, "r")
        self.out = cupy.empty((options.batch, self.size), cupy.uint8)

    def batch(self, indices):
        futures = [self.file.pread(self.out[i], self.size, int(index) * self.size, self.size)
                   for i, index in enumerate(indices)]
        for future in futures:
            future.get()
        return self.torch.from_dlpack(self.out)

    def close(self):
        self.file.close()


ROWS = {"gpufs": Gpufs, "numpy memmap": Memmap, "torch.from_file": FromFile,
        "pread threads": Pread, "KvikIO": KvikIO}


def make_file(path, size):
    rng = numpy.random.default_rng(7)
    with open(path, "wb") as out:
        for done in range(0, size, 64 << 20):
            out.write(rng.bytes(min(64 << 20, size - done)))
        out.flush()
        os.fsync(out.fileno())


def drop_from_page_cache(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def check(row, records, indices, path, size):
    found = row.host(records)
    with open(path, "rb") as file:
        for i in range(0, len(indices), max(1, len(indices) // 64)):
            file.seek(int(indices[i]) * size)
            if file.read(size) != found[i].tobytes():
                sys.exit(f"{type(row).__name__}: record {indices[i]} differs from the file")


def run(options):
    rows, skipped = {}, {}
    for name, make in ROWS.items():
        try:
            rows[name] = make(options)
        except Skip as why:
            skipped[name] = str(why)
    count = os.path.getsize(options.file) // options.record
    rng = numpy.random.default_rng(options.seed)
    seconds = {name: [] for name in rows}
    for _ in range(options.rounds):
        batches = [rng.integers(0, count, options.batch) for _ in range(options.batches)]
        for name, row in rows.items():
            if options.cold:
                drop_from_page_cache(options.file)
            check(row, row.batch(batches[0]), batches[0], options.file, options.record)
            start = time.perf_counter()
            for indices in batches:
                row.batch(indices)
            seconds[name].append(time.perf_counter() - start)
    for row in rows.values():
        row.close()
    return seconds, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", help="default: one of --size is made and removed")
    parser.add_argument("--size", type=size_of, default=size_of("1G"))
    parser.add_argument("--record", type=size_of, default=4096, help="bytes")
    parser.add_argument("--batch", type=int, default=4096, help="records of a batch")
    parser.add_argument("--batches", type=int, default=64, help="batches of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cold", action="store_true",
                        help="drop the file from the OS page cache before each row")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    if min(options.batch, options.batches, options.rounds) < 1:
        parser.error("--batch, --batches, --rounds: must be at least 1")
    with tempfile.TemporaryDirectory() as folder:
        if options.file is None:
            options.file = os.path.join(folder, "records.bin")
            make_file(options.file, options.size)
        elif not os.path.isfile(options.file):
            parser.error(f"--file {options.file}: must be a regular file")
        if os.path.getsize(options.file) < options.record:
            parser.error(f"--record {options.record}: the file has only "
                         f"{os.path.getsize(options.file)} bytes")
        seconds, skipped = run(options)
    records = options.batch * options.batches
    print(f"gpufs {gpufs.__version__}, {gpufs.device_kind} device; {records} random records of "
          f"{options.record} bytes, {'cold' if options.cold else 'warm'}, "
          f"median of {options.rounds} rounds")
    results = []
    for name, times in seconds.items():
        median = statistics.median(times)
        results.append({"row": name, "seconds": times, "records_per_second": records / median,
                        "GBps": records * options.record / median / 1e9})
        print(f"{name:<16} {records / median / 1e6:9.4f} M records/s "
              f"{records * options.record / median / 1e9:9.3f} GB/s")
    for name, why in skipped.items():
        print(f"{name:<16} skipped: {why}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"version": gpufs.__version__, "device": gpufs.device_kind,
                       "record": options.record, "batch": options.batch, "cold": options.cold,
                       "results": results, "skipped": skipped}, out, indent=1)


if __name__ == "__main__":
    main()
