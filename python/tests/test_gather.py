"""gather() and scatter(): bytes, sizes, types, bounds, tensors."""
import array
import contextlib
import errno
import sys
import threading
import types

import numpy
import pytest

import gpufs
from conftest import SMALL, on_host, records_of, run


def test_100000_random_records_equal_numpy(tmp_path, rng):
    data = numpy.frombuffer(rng.bytes(32 << 20), numpy.uint8)
    data.tofile(tmp_path / "large.bin")
    offsets = rng.integers(0, len(data) // 128, 100_000) * 128
    with gpufs.Filesystem(SMALL) as fs, fs.open(tmp_path / "large.bin") as file:
        found = on_host(file.gather(offsets, 128))
    assert found.shape == (100_000, 128) and found.dtype == numpy.uint8
    assert numpy.array_equal(found, records_of(data, offsets, 128))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 12, 16, 31, 32, 33, 512, 2048, 2049, 4096, 9999])
def test_sizes(fs, path, data, rng, size):
    """Below, at and beyond a page; offsets that are multiples of the size, and others."""
    with fs.open(path) as file:
        for step in (size, 1):
            offsets = rng.integers(0, (len(data) - size) // step, 200) * step
            offsets[0], offsets[1] = 0, (len(data) - size) // step * step
            out = numpy.full((200, size), 255, numpy.uint8)
            assert file.gather(offsets, size, out) is out
            assert numpy.array_equal(out, records_of(data, offsets, size))


def test_a_record_larger_than_the_cache(fs, path, data):
    with fs.open(path) as file:
        size = 2_500_000
        found = on_host(file.gather([0, len(data) - size], size))
    assert numpy.array_equal(found, records_of(data, [0, len(data) - size], size))


@pytest.mark.parametrize("size", [1, 24, 32, 512, 5000])
def test_staged_as_on_a_device_that_does_not_reach_host_memory(fs, path, data, rng, size, tmp_path):
    offsets = rng.integers(0, len(data) - size, 300)
    out = numpy.empty((300, size), numpy.uint8)
    with fs.open(path) as file:
        file.gather(offsets, out=out, _staged=True)
    assert numpy.array_equal(out, records_of(data, offsets, size))
    with fs.open(tmp_path / "out", "w+") as file:
        file.scatter(numpy.arange(300) * size, out, _staged=True)
        assert file.read() == out.tobytes()


def test_staged_in_several_parts(fs, path, data, rng):
    size = 400_000  # 200 of them are more than the 64 MiB of a part
    offsets = rng.integers(0, len(data) - size, 200)
    out = numpy.empty((200, size), numpy.uint8)
    with fs.open(path) as file:
        fs.gather(file, offsets, out=out, _staged=True)
        assert all(numpy.array_equal(out[i], data[o:o + size]) for i, o in enumerate(offsets))


def test_kinds_of_tensors(fs, path, data):
    offsets = [0, 64, 4096]
    want = records_of(data, offsets, 64)
    with fs.open(path) as file:
        for given in (offsets, tuple(offsets), range(0, 128, 64), array.array("q", offsets),
                      numpy.array(offsets, numpy.uint64), numpy.array([offsets])):
            count = len(numpy.asarray(given).reshape(-1))
            found = on_host(file.gather(given, 64))
            assert len(found) == count and numpy.array_equal(found[:2], want[:2])
        raw = bytearray(192)
        file.gather(offsets, 64, raw)
        assert raw == want.tobytes()
        view = memoryview(bytearray(192)).cast("B", (3, 64))
        file.gather(offsets, out=view)
        assert view.tobytes() == want.tobytes()
        record = numpy.dtype([("a", "<f4"), ("b", "<u4", 15)])
        structured = numpy.empty(3, record)
        file.gather(offsets, out=structured)
        assert structured.tobytes() == want.tobytes()
        assert on_host(file.gather([], 64)).shape == (0, 64)


class only_dlpack:
    """A tensor without the buffer protocol, as PyTorch's are."""

    def __init__(self, of):
        self.of, self.nbytes = of, of.nbytes

    def __dlpack__(self, **options):
        return self.of.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


def test_dlpack(fs, path, data, tmp_path):
    offsets = numpy.array([10, 2000, 300])
    out = numpy.zeros((3, 100), numpy.float32)
    with fs.open(path) as file:
        file.gather(only_dlpack(offsets), out=only_dlpack(out))
        assert out.tobytes() == records_of(data, offsets, 400).tobytes()
        with pytest.raises(ValueError, match="order"):
            file.gather(offsets, 400, only_dlpack(out.T))
        with pytest.raises(TypeError, match="int64"):
            file.gather(only_dlpack(offsets.astype(numpy.float64)), out=out)
    with fs.open(tmp_path / "out", "w+") as file:
        file.scatter([0, 400, 800], only_dlpack(out))
        assert file.read() == out.tobytes()


class refusing:
    """A tensor whose package says why not, as PyTorch's that require a gradient."""

    nbytes = 8

    def __dlpack__(self, **options):
        raise BufferError("use tensor.detach()")

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize("tensor, says", [
    (refusing(), r"refusing gives no tensor through DLPack: use tensor.detach\(\)"),
    (numpy.zeros(1, "M8[s]"), "ndarray gives no tensor .*; its bytes, as view"),
])
def test_the_reason_of_the_tensors_package_is_told(fs, path, tensor, says):
    with fs.open(path) as file, pytest.raises(ValueError, match="out: .*" + says) as found:
        file.gather([0], 8, tensor)
    assert found.value.__cause__ is not None


def test_dates_by_their_bytes(fs, path, data):
    dates = numpy.zeros(3, "M8[s]")
    with fs.open(path) as file:
        file.gather([0, 8, 16], 8, dates.view("uint8"))
    assert dates.tobytes() == data[:24].tobytes()


def test_the_stream_of_a_tensors_package(monkeypatch):
    """Also for classes of users that are made from the package's, and for each device."""
    class Tensor:
        is_cuda, device = True, 3

    class ndarray:
        device = contextlib.nullcontext()

    stream = types.SimpleNamespace(cuda_stream=77, ptr=88)
    asked = []
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(
        Tensor=Tensor, cuda=types.SimpleNamespace(
            current_stream=lambda device: asked.append(device) or stream)))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(
        ndarray=ndarray, cuda=types.SimpleNamespace(get_current_stream=lambda: stream)))
    for kind, number in ((Tensor, 77), (ndarray, 88)):
        assert gpufs._tensors.current_stream(kind()) == number
        assert gpufs._tensors.current_stream(type("of_a_user", (kind,), {})()) == number
    assert asked == [3, 3]
    assert gpufs._tensors.current_stream(numpy.zeros(1)) is None
    Tensor.is_cuda = False  # also if it is pinned
    assert gpufs._tensors.current_stream(Tensor()) is None


@pytest.mark.skipif(gpufs.device_kind != "emulated", reason="the stream does not exist")
def test_offsets_on_the_device_say_the_stream_of_a_tensor_in_host_memory(fs, path, monkeypatch):
    offsets, out = numpy.zeros(1, numpy.int64), numpy.zeros(8, numpy.uint8)
    with fs.open(path) as file:
        monkeypatch.setattr(gpufs._gpufs, "device_kind", "cuda")
        monkeypatch.setattr(gpufs._tensors, "current_stream",
                            lambda tensor: 77 if tensor is offsets else None)
        with pytest.raises(ValueError, match="stream: the emulated device has none"):
            file.gather(offsets, 8, out)


def test_wrong_arguments(fs, path):
    out = numpy.empty((2, 8), numpy.uint8)
    with fs.open(path) as file:
        for wrong in (0, -1, 1 << 63):
            with pytest.raises(ValueError, match="size"):
                file.gather([0, 8], wrong)
        with pytest.raises(TypeError, match="size"):
            file.gather([0], 1.5)
        with pytest.raises(ValueError, match="size"):
            file.gather([0])
        with pytest.raises(ValueError, match="records"):
            file.gather([0, 8], 9, out)
        with pytest.raises(ValueError, match="size"):
            file.gather([0, 8, 9], out=out)
        with pytest.raises(ValueError, match="writable"):
            file.gather([0], 4, b"1234")
        with pytest.raises(ValueError, match="order"):
            file.gather([0, 8], 4, out[:, ::2])
        with pytest.raises(TypeError, match="int64"):
            file.gather(numpy.array([0, 8], numpy.int32), 8, out)
        for each in (numpy.array([0, 8, 16], numpy.int32), numpy.zeros(3, numpy.float64)):
            with pytest.raises(TypeError, match="int64"):
                file.gather(each, out=out)
            with pytest.raises(TypeError, match="int64"):
                file.gather(each, 1 << 40)
            with pytest.raises(TypeError, match="int64"):
                file.scatter(each, out)
        with pytest.raises(TypeError, match="offsets"):
            file.gather([0.5], 8)
        with pytest.raises(TypeError, match="offsets"):
            file.gather(7, 8)
        with pytest.raises(TypeError, match="out"):
            file.gather([0], 8, object())
        with pytest.raises(TypeError, match="size"):
            file.gather([0], out=object())
        for objects in (numpy.zeros(1, object), numpy.zeros(1, [("a", "i8"), ("b", object)])):
            with pytest.raises(TypeError, match="objects"):
                file.gather([0], out=objects)
        file.gather([0], out=numpy.zeros(1, [("O", "i8")]))
        with pytest.raises(TypeError, match="file"):
            fs.gather("name", [0], 8)
        with pytest.raises(IndexError):
            file.gather([1 << 70], 8)
        with pytest.raises(ValueError, match="out"):
            file.gather([0], 8, wait=False)
        if gpufs.device_kind == "emulated":
            with pytest.raises(ValueError, match="stream"):
                file.gather([0], 8, stream=1)
        with pytest.raises(TypeError, match="stream"):
            file.gather([0], 8, stream="1")


@pytest.mark.parametrize("wrong", [-1, 3_000_001 - 7, 1 << 47, (1 << 63) - 1, -(1 << 63)])
def test_records_beyond_the_file(fs, path, wrong):
    out = numpy.full((3, 8), 7, numpy.uint8)
    with fs.open(path) as file:
        with pytest.raises(IndexError, match="record 1 "):
            file.gather(numpy.array([0, wrong, wrong]), out=out)
    assert (out == 7).all()  # nothing was started


@pytest.mark.parametrize("offsets, says", [
    (numpy.array([(1 << 64) - 1], numpy.uint64), "record 0 at offset 18446744073709551615,"),
    (numpy.array([-1]), "record 0 at offset -1,"),
    ([0, 1 << 64], "offsets: must fit .* one is 18446744073709551616"),
])
def test_offsets_are_named_as_they_were_given(fs, path, offsets, says):
    with fs.open(path) as file, pytest.raises(IndexError, match=says):
        file.gather(offsets, 16)


def test_other_threads_run_while_offsets_are_checked(path):
    """Nothing but the check lets them run here: if it keeps Python's lock, the program hangs."""
    run("""
        import sys, threading
        import gpufs, numpy
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0)
        file = fs.open(sys.argv[1])
        offsets = numpy.zeros(1_000_000, numpy.int64)
        offsets[-1] = -1
        begun, go, ran = threading.Event(), threading.Event(), []
        def work():
            begun.set()
            go.wait()
            ran.append(True)
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
        sys.setswitchinterval(1000)
        go.set()
        while not ran:
            try: fs._core.device_bytes(file.fd, offsets, 8)
            except IndexError: pass
    """, str(path))


def test_records_are_checked_before_memory_for_them_is_made(fs, path, data):
    with fs.open(path) as file, pytest.raises(IndexError, match="record 0 at offset 1,"):
        file.gather(numpy.ones(1 << 20, numpy.int64), len(data))  # 3 TB


def test_descriptors_that_are_not_open(fs, path):
    for fd in (0, -1, 12345, 1 << 30):
        with pytest.raises(OSError) as found:
            fs.gather(fd, [0], 8)
        assert found.value.errno == errno.EBADF
    file = fs.open(path)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.gather([0], 8)


def test_files_that_are_only_written_or_only_read(fs, path, tmp_path):
    with fs.open(path) as file:
        with pytest.raises(OSError) as found:
            file.scatter([0], b"12345678")
        assert found.value.errno == errno.EBADF and "record 0 at offset 0" in str(found.value)
    with fs.open(tmp_path / "once", gpufs.O_GWRONCE | 0o100) as file:
        file.scatter([0, 8], b"12345678abcdefgh")
    assert (tmp_path / "once").read_bytes() == b"12345678abcdefgh"


def test_scatter_and_gather_again(fs, tmp_path, rng):
    size = 777
    want = rng.integers(0, 256, (2000, size), dtype=numpy.uint8)
    places = rng.permutation(2000)
    with fs.open(tmp_path / "out", "w+") as file:
        file.scatter(places * size, want)
        assert file.size == 2000 * size
        assert numpy.array_equal(on_host(file.gather(places * size, size)), want)
        file.sync()
        assert not fs.unwritten()
    whole = numpy.fromfile(tmp_path / "out", numpy.uint8).reshape(2000, size)
    assert numpy.array_equal(whole[places], want)


def test_close_waits_for_a_scatter_that_is_dropped(fs, tmp_path, rng):
    size = 777
    want = rng.integers(0, 256, (2000, size), dtype=numpy.uint8)
    for name in map(str, range(20)):
        file = fs.open(tmp_path / name, "w+")
        begun = threading.Event()

        def drop(file=file, begun=begun):
            begun_scatter = file.scatter(numpy.arange(2000) * size, want, wait=False)
            begun.set()
            del begun_scatter

        thread = threading.Thread(target=drop)
        thread.start()
        begun.wait()
        file.close()
        thread.join()
        assert numpy.array_equal(numpy.fromfile(tmp_path / name, numpy.uint8), want.reshape(-1))


def test_scatter_beyond_the_largest_file(fs, tmp_path):
    with fs.open(tmp_path / "out", "w+") as file:
        with pytest.raises(IndexError):
            file.scatter([(1 << 48) - 1], b"12345678")
        with pytest.raises(IndexError):
            file.scatter([-8], b"12345678")


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("wrong, size, says", [
    (-1, 8, "record 1 at offset -1, 8 bytes: must lie within the"),
    (-(1 << 63), 8, "must lie within the"), (-4096, 9999, "must lie within the"),
])
def test_kernels_check_offsets_that_the_host_does_not_know(fs, tmp_path, writes, wrong, size, says):
    with fs.open(tmp_path / "file", "w+") as file:
        file.write(bytes(10_000))
        moved = fs._core.start(fd=file.fd, offsets=numpy.array([0, wrong]), size=size,
                               data=bytearray(2 * size), writes=writes, stream=None, staged=False,
                               unchecked=True)
        for _ in range(2):
            with pytest.raises(IndexError, match=says):
                moved.wait()


def test_a_negative_offset_hides_no_other_error(fs):
    moved = fs._core.start(fd=12345, offsets=numpy.array([-8]), size=8, data=bytearray(8),
                           writes=False, stream=None, staged=False, unchecked=True)
    with pytest.raises(OSError) as found:
        moved.wait()
    assert found.value.errno == errno.EBADF


def test_kernels_check_where_files_end(fs, path, data):
    def start(offset, writes):
        return fs._core.start(fd=file.fd, offsets=numpy.array([offset]), size=9999,
                              data=bytearray(9999), writes=writes, stream=None, staged=False,
                              unchecked=True)

    with fs.open(path, "r+") as file:
        for offset in (len(data) - 5000, len(data), 1 << 50):
            with pytest.raises(IndexError, match="record 0 .*the file has less than 9999 bytes"):
                start(offset, False).wait()
        with pytest.raises(IndexError, match="within the 281474976710656 bytes that a file may"):
            start(1 << 50, True).wait()


def test_transfers_without_waiting(fs, path, data, rng):
    with fs.open(path) as file:
        started = []
        for _ in range(20):
            offsets = rng.integers(0, len(data) - 100, 50)
            out = numpy.empty((50, 100), numpy.uint8)
            started.append((file.gather(offsets, out=out, wait=False), offsets, out))
        for transfer, offsets, out in started:
            assert transfer.done() in (True, False)
            transfer.wait()
            transfer.wait()
            assert transfer.done()
            assert numpy.array_equal(out, records_of(data, offsets, 100))
        file.gather([0], out=numpy.empty((1, 8)), wait=False)  # dropped at once


def test_close_waits_for_transfers(path, data, rng):
    fs = gpufs.Filesystem(SMALL)
    file = fs.open(path)
    offsets = rng.integers(0, len(data) - 5000, 300)
    out = numpy.empty((300, 5000), numpy.uint8)
    transfer = file.gather(offsets, out=out, wait=False)
    fs.close()
    transfer.wait()
    assert numpy.array_equal(out, records_of(data, offsets, 5000))
