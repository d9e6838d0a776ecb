"""The programs that README.md and docs/python.md show, and the benchmark."""
import json
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

import gpufs

SOURCES = pathlib.Path(__file__).parents[2]


def program(page, name):
    found = re.search(rf"<!-- {re.escape(name)} -->\n```python\n(.*?)```",
                      (SOURCES / page).read_text(encoding="utf-8"), re.S)
    assert found, f"{page} shows no {name}"
    return found.group(1)


def run(*arguments):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def small(tmp_path, rng):
    name = tmp_path / "small.bin"
    rng.integers(0, 256, 200_000, dtype=numpy.uint8).tofile(name)
    return name


def test_records(small):
    assert run("-c", program("README.md", "records.py"), small) == "equal\n"


def test_swap(small):
    before = small.read_bytes()
    assert "pages" in run("-c", program("docs/python.md", "swap.py"), small)
    last = 200_000 // 4096 * 4096 - 4096
    after = small.read_bytes()
    assert after[:4096] == before[last:last + 4096] and after[last:last + 4096] == before[:4096]
    assert after[4096:last] == before[4096:last] and after[last + 4096:] == before[last + 4096:]


def test_map(tmp_path):
    numpy.arange(2048, dtype="f4").tofile(tmp_path / "floats")
    run("-c", program("docs/python.md", "map.py"), tmp_path / "floats")
    want = numpy.arange(2048, dtype="f4")
    want[:100] *= 2
    assert numpy.array_equal(numpy.fromfile(tmp_path / "floats", "f4"), want)


EXAMPLES = SOURCES / "python" / "examples"


def test_example_gather(small):
    assert "10 records of 512 bytes are those of the file" in run(EXAMPLES / "gather.py", small,
                                                                  "--count", "10")
    wrong = subprocess.run([sys.executable, EXAMPLES / "gather.py", small, "--record", "1000000"],
                           capture_output=True, text=True)
    assert wrong.returncode == 2 and "--record 1000000: the file has only" in wrong.stderr


@pytest.mark.parametrize("package, said", [("cupy", "kernel "), ("numba", "equal")])
def test_example_kernels(package, said, tmp_path, rng):
    if gpufs.device_kind != "cuda" or not gpufs.device_available():
        pytest.skip("it needs a GPU")
    pytest.importorskip(package)
    if package == "numba" and not hasattr(numpy, "row_stack"):
        pytest.skip("numba-cuda needs a numpy that has row_stack")
    rng.random(100_000, dtype=numpy.float32).tofile(tmp_path / "floats")
    assert said in run(EXAMPLES / f"{package}_kernel.py", tmp_path / "floats")


def test_benchmark(small, tmp_path):
    out = run(SOURCES / "python" / "bench" / "records.py", "--file", small, "--record", "512",
              "--batch", "20", "--batches", "2", "--rounds", "2", "--json", tmp_path / "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    rows = [r["row"] for r in result["results"]]
    assert "gpufs gather" in rows and "gpufs gather" in out
    assert set(rows) | set(result["skipped"]) == {
        "gpufs gather", "RecordDataset", "C++", "numpy memmap", "torch.from_file",
        "pread, 16 threads", "KvikIO", "KvikIO, 16 threads"}
    assert result["batches"] == 2 and len(result["results"][0]["seconds"]) == 2
    wrong = subprocess.run([sys.executable, SOURCES / "python" / "bench" / "records.py", "--record",
                            "0"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--record" in wrong.stderr
