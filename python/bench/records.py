#!/usr/bin/env python3
"""Random fixed-size records of a file into a tensor: gpufs beside what a reader would use instead.

  python records.py [--file FILE] [--size 1G] [--record 4096] [--batch 4096] [--batches 64]
                    [--rounds 5] [--program PROGRAM] [--cold] [--json FILE]

Rows, each checked against the bytes of the file:
  gpufs gather     File.gather() of a batch, one kernel
  RecordDataset    the same by gpufs.torch.RecordDataset, which advises RANDOM, if there is PyTorch
  C++              `gpufs bench rand --level warp` reads as many random records, if PROGRAM names
                   the program gpufs
  numpy memmap     memmap[indices] on the host, then a copy to the device if there is one
  torch.from_file  the same through a mapped tensor, if PyTorch is installed
  pread, 16 threads   they pread into pinned memory, if PyTorch gives it, then a copy
  KvikIO           a read per record into device memory, if kvikio is installed
  KvikIO, 16 threads  the same with 16 threads in place of its default

A row that cannot run says why. The rounds of all rows alternate, and each has other records. The
three rows of gpufs begin each round with a new filesystem: its cache is empty, nothing of the file
is registered. It is made before the clock starts, and so is the memory for offsets: the C++ program
has its own by then. Without FILE a file is made. On the emulated device the bytes count, not the
speed.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import statistics
import subprocess
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

    def begin(self):
        """Before the clock of a round starts."""

    def round(self, batches):
        """Reads the batches of a round. Returns the seconds, and the records of the last batch."""
        self.begin()
        start = time.perf_counter()
        for indices in batches:
            records = self.batch(indices)
        return time.perf_counter() - start, self.host(records)

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


class Gather(Row):
    def __init__(self, options):
        super().__init__(options)
        self.fs = None
        shape = (options.batch, self.size)
        self.out = self.torch.empty(shape, dtype=self.torch.uint8, device="cuda") if (
            self.on_gpu) else numpy.empty(shape, numpy.uint8)

    def begin(self):
        self.close()
        self.fs = gpufs.Filesystem()
        self.file = self.fs.open(self.path)
        with tempfile.NamedTemporaryFile() as other:  # a gather of as many records of another file
            other.write(bytes(self.size))
            other.flush()
            with self.fs.open(other.name) as file:
                file.gather(numpy.zeros(len(self.out), numpy.int64), self.size, self.out)

    def batch(self, indices):
        return self.file.gather(indices * self.size, self.size, self.out)

    def close(self):
        if self.fs is not None:
            self.fs.close()


class Dataset(Gather):
    def __init__(self, options):
        super().__init__(options)
        self.torch = torch_module()
        if not self.on_gpu:
            self.out = self.torch.from_numpy(self.out)

    def begin(self):
        from gpufs.torch import RecordDataset
        super().begin()
        self.dataset = RecordDataset(self.fs, self.path, (self.size,))

    def batch(self, indices):
        return self.dataset.gather(self.torch.from_numpy(indices), self.out)


class Cpp(Row):
    """Its program checks the bytes itself."""

    def __init__(self, options):
        super().__init__(options)
        if options.program is None:
            raise Skip("no --program")
        self.command = [options.program, "bench", "rand", "--file", self.path, "--level", "warp",
                        "--req", str(self.size), "--runs", "2", "--no-limits", "--json"]
        self.seed, self.facts = options.seed, {}

    def round(self, batches):
        self.seed += 1
        records = sum(len(indices) for indices in batches)
        done = subprocess.run([*self.command, "--bytes", str(records * self.size), "--seed",
                               str(self.seed)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: {done.stderr or done.stdout}")
        self.facts = json.loads(done.stdout.splitlines()[-1])
        if not self.facts["verified"]:
            sys.exit("C++: the bytes differ from the file")
        return self.facts["run_seconds"][-1], None  # the first run has the kernel loaded, too


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


def kvikio_default(defaults, name):
    """KvikIO's setting as text. The function is get(NAME) in newer versions, NAME() in older."""
    read = getattr(defaults, "get", None) or (lambda name: getattr(defaults, name)())
    try:
        return str(read(name))
    except (AttributeError, KeyError, ValueError) as error:
        return f"unknown: {error}"


class KvikIO(Row):
    def __init__(self, options):
        super().__init__(options)
        try:
            import cupy
            import kvikio
            import kvikio.defaults
        except ImportError as error:
            raise Skip(f"{error.name} is not installed") from None
        if not self.on_gpu:
            raise Skip("it needs a GPU")
        self.facts = {"kvikio": kvikio.__version__, "cupy": cupy.__version__}
        for name in ("num_threads", "compat_mode"):
            self.facts[f"kvikio_{name}"] = kvikio_default(kvikio.defaults, name)
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


class KvikIOThreads(KvikIO):
    threads = 16

    def round(self, batches):
        import kvikio.defaults
        with kvikio.defaults.set("num_threads", self.threads):
            return super().round(batches)


ROWS = {"gpufs gather": Gather, "RecordDataset": Dataset, "C++": Cpp, "numpy memmap": Memmap,
        "torch.from_file": FromFile, "pread, 16 threads": Pread,
        "KvikIO": KvikIO, "KvikIO, 16 threads": KvikIOThreads}


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


def check(name, found, indices, path, size):
    with open(path, "rb") as file:
        for i in range(0, len(indices), max(1, len(indices) // 1024)):
            file.seek(int(indices[i]) * size)
            if file.read(size) != found[i].tobytes():
                sys.exit(f"{name}: record {indices[i]} differs from the file")


def run(options):
    """Returns {row: seconds of rounds}, {row: why it did not run}, and facts that rows tell."""
    rows, skipped, facts = {}, {}, {}
    for name, make in ROWS.items():
        try:
            rows[name] = make(options)
        except Skip as why:
            skipped[name] = str(why)
    count = os.path.getsize(options.file) // options.record
    rng = numpy.random.default_rng(options.seed)
    seconds = {name: [] for name in rows}
    with open(options.file, "rb") as file:  # the OS page cache has it
        while file.read(1 << 24):
            pass
    for _ in range(options.rounds):
        batches = [rng.integers(0, count, options.batch) for _ in range(options.batches)]
        for name, row in rows.items():
            if options.cold:
                drop_from_page_cache(options.file)
            took, last = row.round(batches)
            if last is not None:
                check(name, last, batches[-1], options.file, options.record)
            seconds[name].append(took)
    for name, row in rows.items():
        row.close()
        facts.update(getattr(row, "facts", {}) if name == "KvikIO" else {})
    if "C++" in rows:
        facts["commit"] = rows["C++"].facts["commit"]
        facts["device_name"] = rows["C++"].facts["device"]
    return seconds, skipped, facts


def machine():
    """What a reader needs to trust the figures."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    facts = {"cpu": models[0] if models else platform.machine(),
             "kernel": f"Linux {platform.release()}", "numpy": numpy.__version__,
             "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    try:
        import torch
        facts["torch"] = torch.__version__
        if gpufs.device_kind == "cuda":
            facts["device_name"] = torch.cuda.get_device_name()
    except ImportError:
        pass
    return facts


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
    parser.add_argument("--program", help="the program gpufs, for the row C++")
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
        file_bytes = os.path.getsize(options.file)
        seconds, skipped, facts = run(options)
    records = options.batch * options.batches
    print(f"gpufs {gpufs.__version__}, {gpufs.device_kind} device; {records} random records of "
          f"{options.record} bytes, {'cold' if options.cold else 'warm'}, "
          f"median of {options.rounds} rounds")
    results = []
    for name, times in seconds.items():
        median = statistics.median(times)
        results.append({"row": name, "seconds": times, "records_per_second": records / median,
                        "GBps": records * options.record / median / 1e9})
        print(f"{name:<18} {records / median / 1e6:9.4f} M records/s "
              f"{records * options.record / median / 1e9:9.3f} GB/s")
    for name, why in skipped.items():
        print(f"{name:<18} skipped: {why}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"name": "records", "version": gpufs.__version__,
                       "device": gpufs.device_kind, **machine(), **facts, "file_bytes": file_bytes,
                       "record": options.record, "batch": options.batch,
                       "batches": options.batches, "rounds": options.rounds, "cold": options.cold,
                       "results": results, "skipped": skipped}, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
