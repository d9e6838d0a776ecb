"""What the tests share: a seed, small filesystems, files of random bytes."""
import os
import random
import subprocess
import sys
import textwrap

import numpy
import pytest

import gpufs

SMALL = dict(page_size="4K", cache_size="1M", staging_size="256K", prefetch_memory="1M",
             prefetch_size=0, write_memory="1M", host_threads=2)
seed = int(os.environ.get("GPUFS_TEST_SEED", random.randrange(1 << 32)))


def pytest_report_header():
    return f"gpufs {gpufs.__version__}, device {gpufs.device_kind}; GPUFS_TEST_SEED={seed}"


@pytest.fixture(autouse=True)
def _only_given_settings(monkeypatch, tmp_path):
    """No settings of the user, and a folder without a gpufs.toml."""
    for name in list(os.environ):
        if name.startswith("GPUFS_") and not name.startswith("GPUFS_EMULATED"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rng():
    return numpy.random.default_rng(seed)


@pytest.fixture
def fs():
    with gpufs.Filesystem(SMALL) as made:
        yield made


@pytest.fixture
def data(rng):
    return numpy.frombuffer(rng.bytes(3_000_001), numpy.uint8)


@pytest.fixture
def path(data, tmp_path):
    name = tmp_path / "data.bin"
    data.tofile(name)
    return name


def on_host(tensor):
    """The numpy array of a tensor that the package has made: it lies on the device with CUDA."""
    if gpufs.device_kind == "emulated":
        return numpy.from_dlpack(tensor)
    torch = pytest.importorskip("torch", reason="numpy cannot read the memory of a GPU")
    return torch.from_dlpack(tensor).cpu().numpy()


def records_of(data, offsets, size):
    """The records by numpy alone."""
    return data[numpy.asarray(offsets, dtype=numpy.int64)[:, None] + numpy.arange(size)]


def run(code, *arguments, timeout=120):
    """Runs a program in a process of its own. Returns what it prints."""
    try:
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments],
                              capture_output=True, text=True, timeout=timeout)
    finally:
        for name in arguments:
            if name.startswith("/dev/shm/") and os.path.exists(name):
                os.unlink(name)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
