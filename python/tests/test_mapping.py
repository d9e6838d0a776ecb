"""Mappings: bytes, modes, write-back, ends."""
import errno
import gc
import os
import threading

import numpy
import pytest

import gpufs
from conftest import on_host


def test_reads_a_file(fs, path, data):
    with fs.map(path) as m:
        assert len(m) == m.size == len(data) and m.path == str(path) and m.address != 0
        found = m.numpy()
        assert numpy.array_equal(found, data) and not found.flags.writeable
        assert numpy.array_equal(m.numpy("uint8", (-1,))[:10], data[:10])
        with pytest.raises(ValueError):
            found[0] = 1
        del found
        with gpufs.using(reads=[m]):  # outside of it the device may not have the bytes
            assert numpy.array_equal(on_host(m.tensor()), data)


def test_writes_back(fs, path, data):
    with fs.map(path, "r+", length=8192) as m:
        whole = m.numpy("<u4")
        whole[3] = 77
        m.sync()
        assert numpy.fromfile(path, "<u4", 4)[3] == 77
        whole[1025] = 78
        m.sync(4096, 4096)
        assert numpy.fromfile(path, "<u4", 1026)[1025] == 78
        whole[5] = 79
        m.write_back()
        whole[6] = 80
        del whole
    found = numpy.fromfile(path, numpy.uint8)
    want = data.copy()
    want[:28].view("<u4")[[3, 5, 6]] = 77, 79, 80
    want[4100:4104].view("<u4")[0] = 78
    assert numpy.array_equal(found, want)


def test_closes_while_a_cycle_has_a_tensor(fs, path):
    class Holder:
        pass

    gc.disable()
    try:
        m = fs.map(path)
        holder = Holder()
        holder.itself, holder.tensor = holder, m.tensor()
        with pytest.raises(BufferError):
            m.close()
        del holder
        m.close()
        assert m.closed
    finally:
        gc.enable()


def test_makes_a_file(tmp_path):
    memory = gpufs.SharedMemory()
    with memory.map(tmp_path / "new", "w", length=10_000, create=True) as m:
        m.numpy()[:] = numpy.arange(10_000) % 251
    assert numpy.array_equal(numpy.fromfile(tmp_path / "new", numpy.uint8),
                             numpy.arange(10_000) % 251)


def test_memory_without_a_file():
    memory = gpufs.SharedMemory()
    m = memory.allocate(100_000)
    floats = m.numpy("float32", (100, 250))
    assert not floats.any()
    floats[:] = 2
    memory.synchronize()
    assert floats.sum() == 50_000 and m.path == "" and isinstance(memory.notes(), list)
    del floats
    m.close()


@pytest.mark.parametrize("staged", [False, True])
def test_gather_into_a_mapping(fs, path, data, tmp_path, staged):
    """A kernel writes to the memory of a mapping, which writes it back."""
    with fs.open(path) as file, fs.map(tmp_path / "out", "w", length=4096, create=True) as m:
        for out in (m.tensor(), m.numpy()):
            file.gather([0, 1024, 2048, 5000], 1024, out, _staged=staged)
        del out
    want = numpy.concatenate([data[o:o + 1024] for o in (0, 1024, 2048, 5000)])
    assert numpy.array_equal(numpy.fromfile(tmp_path / "out", numpy.uint8), want)


@pytest.mark.parametrize("staged", [False, True])
def test_scatter_out_of_a_mapping_at_offsets_in_another(fs, path, data, tmp_path, staged):
    places = numpy.array([4096, 0, 1024], numpy.int64)
    places.tofile(tmp_path / "places")
    with fs.open(tmp_path / "out", "w+") as file, fs.map(path, length=4096) as m, (
            fs.map(tmp_path / "places")) as p:
        out = m.tensor()[:3072] if gpufs.device_kind == "emulated" else m.numpy()[:3072]
        file.scatter(p.numpy("int64"), out, _staged=staged)
        found = numpy.frombuffer(file.read(), numpy.uint8)
        del out
    for i, place in enumerate(places):
        assert numpy.array_equal(found[place:place + 1024], data[i * 1024:(i + 1) * 1024])


def test_a_wrong_offset_in_a_mapping_is_named(fs, path, tmp_path):
    numpy.array([0, -5], numpy.int64).tofile(tmp_path / "places")
    with fs.open(path) as file, fs.map(tmp_path / "places") as p:
        with pytest.raises(IndexError, match="record 1 at offset -5,"):
            file.gather(p.numpy("int64"), 8)
        moved = fs._core.start(fd=file.fd, offsets=p.numpy("int64"), size=8, data=bytearray(16),
                               writes=False, stream=None, staged=False, unchecked=True)
        with pytest.raises(IndexError, match="record 1 at offset -5,"):
            moved.wait()
        del moved


def test_a_gather_uses_no_mapping_but_its_own(fs, path, data, tmp_path):
    """The other one's file cannot be read any more."""
    other = tmp_path / "other"
    other.write_bytes(bytes(100_000))
    broken = fs.map(other)
    os.truncate(other, 0)
    out = numpy.zeros(2048, numpy.uint8)
    with fs.open(path) as file, fs.map(tmp_path / "out", "w", length=4096, create=True) as m:
        file.gather([0, 1024], 1024, out)
        to = m.tensor()
        file.gather([0, 1024, 2048, 3072], 1024, to)
        del to
        with pytest.raises(OSError), gpufs.using(reads=[broken]):
            pass
    assert numpy.array_equal(out, data[:2048])
    assert numpy.array_equal(numpy.fromfile(tmp_path / "out", numpy.uint8), data[:4096])
    broken.close()


def test_a_mapping_is_on_the_device_of_its_filesystem(fs, path, monkeypatch):
    made = []

    class Core(gpufs._gpufs.SpaceCore):
        def __init__(self, device):
            made.append(device)
            super().__init__(device)

    monkeypatch.setattr(gpufs._gpufs, "SpaceCore", Core)
    with fs.map(path):
        assert made == [fs.device]


def test_a_mapping_outlives_its_filesystem(path, data):
    with gpufs.Filesystem(page_size="4K", cache_size="1M") as fs:
        m = fs.map(path)
    assert numpy.array_equal(m.numpy()[:100], data[:100])
    m.close()
    m.close()
    assert m.closed and "closed" in repr(m)
    for call in (lambda: m.numpy(), lambda: m.sync(), lambda: m.address, lambda: len(m)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_tensors_keep_the_memory(path, data):
    m = gpufs.SharedMemory().map(path)
    part = m.numpy()[5000:5010]
    with pytest.raises(BufferError):
        m.close()
    assert not m.closed
    del m
    assert numpy.array_equal(part, data[5000:5010])


def test_using(path, data):
    memory = gpufs.SharedMemory()
    a, b = memory.map(path), memory.allocate(4096)
    with gpufs.using(reads=[a], writes=[b]):
        pass
    with pytest.raises(OSError) as found, gpufs.using(writes=[a]):
        pass
    assert found.value.errno == errno.EACCES and "map it with access" in str(found.value)
    assert not b.numpy().any()


def test_using_is_for_one_with_statement():
    memory = gpufs.SharedMemory()
    m = memory.allocate(4096)
    use = gpufs.using(writes=[m])
    with use:
        with pytest.raises(RuntimeError, match="make another one"), use:
            pass
    with pytest.raises(RuntimeError, match="make another one"), use:
        pass
    use = gpufs.using(writes=[m])
    m.close()
    with pytest.raises(ValueError, match="closed"), use:
        pass


def test_discard_and_refresh(path, data):
    m = gpufs.SharedMemory().map(path, "r+")
    view = m.numpy()
    view[0] = data[0] ^ 255
    m.discard()
    assert view[0] == data[0]
    m.refresh()
    m.prefetch(0, 4096)
    for call in (m.prefetch, m.sync):
        for first, length in ((-1, 1), (0, -1), (m.size + 1, None), (1, m.size), (0, 2**64)):
            with pytest.raises(ValueError, match="must lie within"):
                call(first, length)
    assert m.errors() == []
    del view
    m.close()


@pytest.mark.parametrize("options, error", [
    (dict(mode="r", length=1 << 40), errno.EINVAL), (dict(mode="r", offset=1), ValueError),
    (dict(mode="r", offset=4096 * 1000), errno.EINVAL), (dict(mode="rw"), ValueError),
    (dict(mode="r", length=-1), ValueError), (dict(mode="r", create=True), ValueError),
])
def test_wrong_options(path, options, error):
    with pytest.raises((OSError, ValueError)) as found:
        gpufs.SharedMemory().map(path, **options)
    if isinstance(error, int):
        assert found.value.errno == error


@pytest.mark.parametrize("call, error, says", [
    (lambda space, m: space.map(m.path, length=1 << 70), ValueError, "length: must be from 0 to"),
    (lambda space, m: space.map(m.path, offset="1"), TypeError, "offset: must be an int, not str"),
    (lambda space, m: space.map(m.path, eager=3), TypeError, "eager: must be .* None, not 3"),
    (lambda space, m: space.map(m.path, create=1), TypeError, "create: must be .* False, not 1"),
    (lambda space, m: space.allocate(1.5), TypeError, "size: must be an int, not float"),
    (lambda space, m: space.allocate("4K"), TypeError, "size: must be an int, not str"),
    (lambda space, m: space.allocate(1 << 64), ValueError, "size: must be from 1 to"),
    (lambda space, m: m.sync("x"), TypeError, "first: must be an int, not str"),
    (lambda space, m: gpufs.using(reads=[m, 3]), TypeError, "reads: must be .*, not .*3"),
    (lambda space, m: gpufs.using(writes=m), TypeError, "writes: must be .* gpufs.Mapping"),
])
def test_wrong_arguments_are_named(path, call, error, says):
    space = gpufs.SharedMemory()
    with space.map(path) as m, pytest.raises(error, match=says):
        call(space, m)


def test_wrong_files(path, tmp_path):
    memory = gpufs.SharedMemory()
    with pytest.raises(FileNotFoundError):
        memory.map(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        memory.map(tmp_path)
    with memory.map(path, "r+"):
        with pytest.raises(OSError) as found:
            memory.map(path, "r+")
        assert found.value.errno == errno.EBUSY
    for wrong in (0, -5):
        with pytest.raises(ValueError):
            memory.allocate(wrong)


@pytest.mark.parametrize("call", ["sync", "write_back", "refresh", "discard", "prefetch"])
def test_close_waits_for_calls_of_other_threads(path, call):
    memory = gpufs.SharedMemory()
    for i in range(20):
        m = memory.map(path, "r+")
        m.numpy()[:] = i
        failed = []

        def work():
            try:
                getattr(m, call)()
            except ValueError:
                pass  # closed
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work), threading.Thread(target=m.close)]
        for t in threads:
            t.start()
        m.close()
        assert m.closed
        for t in threads:
            t.join()
        assert not failed
        if call != "discard":
            assert (numpy.fromfile(path, numpy.uint8) == i).all()


def test_within_a_declaration_of_this_thread(path):
    m = gpufs.SharedMemory().map(path, "r+")
    with gpufs.using(reads_writes=[m, m]):
        for call in (m.sync, m.write_back, lambda: m.sync(0, 10)):
            with pytest.raises(OSError, match="using") as found:
                call()
            assert found.value.errno == errno.EBUSY
        with pytest.raises(BufferError, match="using"):
            m.close()
        other = threading.Thread(target=m.sync)  # waits for the launch
        other.start()
    other.join()
    m.sync()
    declared = gpufs.using(writes=[m])
    declared.__enter__()
    del declared
    m.close()


def test_a_declaration_keeps_what_it_uses():
    memory = gpufs.SharedMemory()
    with gpufs.using(writes=[memory.allocate(4096)]):
        gc.collect()


def test_a_path_with_a_zero_byte_names_no_other_file(path, data):
    with pytest.raises(OSError) as found:
        gpufs.SharedMemory().map(str(path) + "\0.new", "w", length=4096, create=True, truncate=True)
    assert found.value.errno == errno.EINVAL
    assert numpy.array_equal(numpy.fromfile(path, numpy.uint8), data)
