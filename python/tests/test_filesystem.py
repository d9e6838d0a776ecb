"""Filesystem and File: settings, modes, host reads and writes, failures, ends."""
import errno
import gc
import os
import threading

import numpy
import pytest

import gpufs
from conftest import SMALL, on_host, records_of, run


def test_settings_come_from_dict_keywords_file_and_environment(tmp_path, monkeypatch):
    with gpufs.Filesystem(dict(SMALL, page_size="8K"), page_size=16384) as fs:
        assert fs.settings["page_size"] == "16K"
    (tmp_path / "gpufs.toml").write_text('page_size = "32K"\n')
    with gpufs.Filesystem(SMALL) as fs:
        assert fs.settings["page_size"] == "32K"
    monkeypatch.setenv("GPUFS_PAGE_SIZE", "2K")
    with gpufs.Filesystem(SMALL) as fs:
        assert fs.settings["page_size"] == "2K"
    with gpufs.Filesystem(SMALL, overrides=False) as fs:
        assert fs.settings["page_size"] == "4K"
    assert "page_size" in gpufs.settings() and set(fs_keys()) == set(gpufs.settings())


def fs_keys():
    with gpufs.Filesystem(SMALL, overrides=False) as fs:
        return list(fs.settings)


@pytest.mark.parametrize("wrong, says", [
    (dict(page_size=3000), "page_size=3000"), (dict(page_sise=4096), "page_sise"),
    (dict(page_size=None), "page_size"), (dict(page_size=True), "page_size"),
    (dict(page_size=4096.0), "page_size"), (dict(cache_size="1K"), "cache_size"),
    (dict(io_backend="magic"), "magic"), ({"": 1}, "unknown"),
])
def test_wrong_settings(wrong, says):
    with pytest.raises(ValueError, match=says) as found:
        gpufs.Filesystem(wrong)
    assert isinstance(found.value, gpufs.ConfigError)


@pytest.mark.parametrize("wrong, says", [
    (dict(page_size="4K\0x"), r"page_size=4K\\0x: must be "),
    (dict(trace="a\0b"), r"trace=a\\0b: must be text without zero bytes"),
    ({"page_size\0x": 4096}, r"page_size\\0x: .*unknown"),
])
def test_zero_bytes_do_not_cut_the_remedy_off(wrong, says):
    with pytest.raises(gpufs.ConfigError, match=says):
        gpufs.Filesystem(wrong)


def test_errors_may_have_any_bytes():
    with pytest.raises(gpufs.ConfigError) as found:
        gpufs.Filesystem(log="caf\udce9")
    assert str(found.value).startswith("log=caf\udce9: must be ")


def test_wrong_layers(tmp_path, monkeypatch):
    (tmp_path / "gpufs.toml").write_text("page_size = \n")
    with pytest.raises(gpufs.ConfigError, match="gpufs.toml:1"):
        gpufs.Filesystem()
    monkeypatch.setenv("GPUFS_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(gpufs.ConfigError, match="missing.toml"):
        gpufs.Filesystem()


def test_no_such_device():
    with pytest.raises(gpufs.DeviceError, match="device=77: there is no such device"):
        gpufs.Filesystem(SMALL, device=77)


def test_modules_for_other_packages_come_with_the_package():
    assert run("""
        import sys, gpufs
        print(gpufs.torch.RecordDataset.__name__, gpufs.cupy.raw_module.__name__,
              gpufs.numba.address.__name__, {"torch", "cupy", "numba"} & set(sys.modules))
        try: gpufs.jax
        except AttributeError as error: print(error)
    """) == ("RecordDataset raw_module address set()\n"
            "module gpufs has no attribute 'jax'\n")


def test_open_modes(fs, tmp_path):
    name = tmp_path / "file"
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError) as found:
            fs.open(name, mode)
        assert found.value.filename == str(name) and found.value.errno == errno.ENOENT
    with fs.open(str(name), "x+") as file:
        assert file.write(b"abc") == 3
    with pytest.raises(FileExistsError):
        fs.open(os.fsencode(name), "xb")
    with fs.open(name, "r+b") as file:
        assert file.read() == b"abc"
        file.write(b"Z", 1)
    assert name.read_bytes() == b"aZc"
    with fs.open(name, "w+") as file:
        assert file.read() == b"" and file.size == 0
    with fs.open(name, os.O_RDWR) as file:
        assert file.fd > 0
    for wrong in ("", "q", "rw", "rbb"):
        with pytest.raises(ValueError, match="mode"):
            fs.open(name, wrong)
    with pytest.raises(IsADirectoryError):
        fs.open(tmp_path)
    with pytest.raises(OSError):
        fs.open("/dev/null")
    with pytest.raises(OSError):
        fs.open("a\0b")


def test_names_that_are_no_text(fs, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe"
    try:
        with open(name, "wb") as out:
            out.write(b"x")
    except OSError:
        pytest.skip("the file system refuses such names")
    with fs.open(name) as file:
        assert file.read() == b"x"


def test_host_reads_and_writes(fs, path, data):
    with fs.open(path, "r+") as file:
        assert file.read(100, 50) == data[50:150].tobytes()
        assert file.read(offset=len(data) - 5) == data[-5:].tobytes()
        assert file.read(10, len(data) + 10) == b"" == file.read(0)
        buffer = bytearray(1000)
        assert file.readinto(buffer, len(data) - 100) == 100
        assert buffer[:100] == data[-100:].tobytes()
        assert file.write(numpy.arange(4, dtype=numpy.int64), 8) == 32
        assert on_host(file.gather([8, 16], 16)).tobytes()[:16] == b"\0" * 8 + b"\1" + b"\0" * 7
        with pytest.raises(OSError) as found:
            file.read(1, -1)
        assert found.value.errno == errno.EINVAL
        with pytest.raises(TypeError):
            file.write("text")
        with pytest.raises(ValueError):
            file.readinto(b"123")
        assert file.size == fs.stat(file)["size"] == len(data)


def test_the_host_reads_what_kernels_wrote(fs, tmp_path):
    with fs.open(tmp_path / "out", "w+") as file:
        file.scatter([100_000], b"0123456789")
        assert file.read(10, 100_000) == b"0123456789"
        assert file.read(4, 99_998) == b"\0\0" + b"01"


def run_on_a_full_disk(code):
    """Runs `code` in a process in which `file` of `fs` has a page that can never be written."""
    if not os.path.exists("/dev/shm"):
        pytest.skip("no tmpfs")
    scene = """
        import errno, resource, signal, sys
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        import gpufs, numpy
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0, write_memory="1M")
        file = fs.open(sys.argv[1], "w+")
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        file.scatter([50000], numpy.ones((1, 4096), "u1"))
    """
    run(scene + code, "/dev/shm/gpufs_python_%d" % os.getpid())


def test_a_full_disk_is_told():
    run_on_a_full_disk("""
        for error in (errno.EFBIG, 0):
            try:
                file.sync()
                assert error == 0
            except OSError as found:
                assert found.errno == errno.EFBIG and found.filename == sys.argv[1], found
        assert fs.unwritten()
        fs.discard(file)
        assert not fs.unwritten()
        file.close(); fs.close()
    """)


def test_a_scatter_tells_of_an_earlier_write():
    """As an error of the file, also if that is what an offset that no file has would give."""
    run_on_a_full_disk("""
        def refused(call, number):
            try:
                call()
            except OSError as found:
                assert found.errno == number, found
            else:
                raise AssertionError("no error")
        refused(fs.sync, errno.EIO)
        refused(lambda: file.scatter([0], numpy.ones((1, 4096), "u1")), errno.EFBIG)
        fs.discard(file)
        file.close(); fs.close()
    """)


def test_advice(fs, path):
    with fs.open(path) as file:
        for what in ("normal", "random", "sequential", "willneed", "dontneed"):
            file.advise(what)
            file.advise(what, 4096, 100)
        with pytest.raises(ValueError, match="what"):
            file.advise("often")
        with pytest.raises(OSError) as found:
            file.advise("random", -1)
        assert found.value.errno == errno.EINVAL


def test_counters(fs, path):
    before = fs.stats()
    with fs.open(path) as file:
        file.gather([0, 100_000, 200_000], 4096)
    after = fs.stats()
    assert set(before) == set(after) and all(isinstance(n, int) for n in after.values())
    assert after["misses"] > before["misses"] and after["host_bytes"] > before["host_bytes"]
    assert fs.backend in ("io_uring", "pread") and isinstance(fs.notes(), list)


def test_handle(fs):
    assert len(fs.ref) % 64 == 0 and fs.ref_address != 0
    assert int.from_bytes(fs.ref[:8], "little") == fs.ref_address


def test_closed(path):
    fs = gpufs.Filesystem(SMALL)
    file = fs.open(path)
    fs.close()
    fs.close()
    file.close()
    assert fs.closed and file.closed and "closed" in repr(fs) + repr(file)
    for call in (lambda: fs.open(path), lambda: fs.stats(), lambda: fs.ref, lambda: fs.sync(),
                 lambda: fs.map(path), lambda: fs.gather(1, [0], 8)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_many_opens_and_filesystems(path, data):
    for _ in range(5):
        with gpufs.Filesystem(SMALL) as fs:
            for i in range(300):
                with fs.open(path) as file:
                    if i % 60 == 0:
                        assert on_host(file.gather([i], 8)).tobytes() == data[i:i + 8].tobytes()
    gc.collect()


def test_a_cache_of_eight_pages(path, data, rng):
    with gpufs.Filesystem(SMALL, cache_size="32K", write_memory="64K") as fs, fs.open(path) as file:
        offsets = rng.integers(0, len(data) - 6000, 200)
        found = on_host(file.gather(offsets, 6000))
        assert numpy.array_equal(found, records_of(data, offsets, 6000))


def test_threads(fs, path, data):
    failures = []

    def work(number):
        try:
            own = numpy.random.default_rng(number)
            with fs.open(path) as file:
                for _ in range(5):
                    offsets = own.integers(0, len(data) - 640, 100)
                    found = on_host(file.gather(offsets, 640))
                    assert numpy.array_equal(found, records_of(data, offsets, 640))
                    assert file.read(64, int(offsets[0])) == found[0, :64].tobytes()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_other_threads_run_during_a_gather(fs, path, data, rng):
    """The GIL is free: another thread ends its work before the gather has been waited for."""
    offsets = rng.integers(0, len(data) - 5000, 500)
    out = numpy.empty((500, 5000), numpy.uint8)
    ran = threading.Event()
    with fs.open(path) as file:
        transfer = file.gather(offsets, out=out, wait=False)
        thread = threading.Thread(target=ran.set)
        thread.start()
        transfer.wait()
        thread.join()
    assert ran.is_set()


def test_a_signal_ends_a_gather(path):
    """Its handler raises while a kernel runs that reads far more than is ever waited for."""
    run("""
        import signal, sys, threading
        import gpufs, numpy
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for jobs
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0)
        file = fs.open(sys.argv[1])
        offsets = numpy.random.default_rng(1).integers(0, file.size - 2100, 1_000_000)
        out = numpy.empty((1_000_000, 2100), "u1")
        def interrupt():
            while fs.stats()["misses"] == 0: pass
            signal.raise_signal(signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            file.gather(offsets, out=out)
        except KeyboardInterrupt:
            print("interrupted")
        else:
            sys.exit("not interrupted")
        thread.join()
        out = bytearray(8)
        file.gather([0], 8, out)
        assert out == file.read(8)
        fs.close()
    """, str(path))


def test_a_program_that_closes_nothing_loses_nothing(tmp_path):
    out = run("""
        import sys, gpufs
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0, write_memory="1M")
        file = fs.open(sys.argv[1], "w+")
        file.scatter([5], b"kept")
    """, str(tmp_path / "out"))
    assert out == ""
    assert (tmp_path / "out").read_bytes() == b"\0" * 5 + b"kept"


def test_a_child_of_fork_is_refused_and_the_parent_goes_on(path, data):
    run("""
        import errno, os, sys, gpufs
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0, write_memory="1M")
        file = fs.open(sys.argv[1], "r+")
        file.scatter([0], b"parent")
        m = fs.map(sys.argv[1])
        child = os.fork()
        if child == 0:
            good = 0
            for call in (lambda: file.gather([0], 8), lambda: fs.stats(), lambda: m.sync(),
                         lambda: fs.map(sys.argv[1])):
                try: call()
                except (OSError, ValueError): good += 1
            fs.close()
            os._exit(0 if good == 4 and fs.closed else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        child = os.fork()
        if child == 0: sys.exit(0)  # with handlers of exit
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        out = bytearray(6)
        file.gather([0], 6, out)
        assert out == b"parent"
        m.close(); fs.close()
    """, str(path))
    assert path.read_bytes()[:6] == b"parent"


@pytest.mark.parametrize("mode", ["a", "a+", os.O_WRONLY | os.O_APPEND])
def test_appends(fs, tmp_path, mode):
    """Host and kernels in turns; offsets say nothing."""
    (tmp_path / "log").write_bytes(b"line one\n")
    want = b"line one\n"
    with fs.open(tmp_path / "log", mode) as file:
        for part in (b"two\n", bytes(10_000), bytearray(b"three\n")):
            assert file.write(part) == len(part) and fs.write(file, part, 3) == len(part)
            file.scatter([0], part)
            want += bytes(part) * 3
            assert file.size == len(want)
        assert file.write(b"") == 0
        with pytest.raises(OSError) as found:
            fs.write(file.fd, b"over", 0)
        assert found.value.errno == errno.EOPNOTSUPP
        with pytest.raises(OSError):
            file.write(b"over", -1)
    assert (tmp_path / "log").read_bytes() == want


def test_names_that_are_not_utf_8(tmp_path):
    name = os.fsencode(tmp_path) + b"/no\xff"
    with pytest.raises(FileNotFoundError) as found:
        gpufs.SharedMemory().map(name)
    assert os.fsdecode(name) in str(found.value)
    trace = os.fsdecode(os.fsencode(tmp_path) + b"/no\xff/trace")
    with gpufs.Filesystem(SMALL, trace=trace) as fs:
        assert fs.settings["trace"] == trace and any(trace in note for note in fs.notes())
        with pytest.raises(FileNotFoundError) as found:
            fs.open(name)
        assert found.value.filename == os.fsdecode(name)
        with fs.open(name, "w+") as file:
            assert os.fsencode(file.path) == name

            def dirty():
                file.scatter([0], b"12345678")
                return fs.unwritten()  # write-behind may have been faster

            assert any(os.fsdecode(name) in line for _ in range(100) for line in dirty())
    with gpufs.SharedMemory().map(name, "r+") as m:
        os.truncate(name, 0)
        with pytest.raises(OSError):
            m.refresh()
        assert isinstance(m.errors(), list)


def test_numbers_that_do_not_fit(fs, path):
    with fs.open(path, "r+") as file:
        for call in (lambda: file.read(4, 1 << 63), lambda: file.readinto(bytearray(4), 1 << 63),
                     lambda: file.write(b"abc", -(1 << 63) - 1), lambda: fs.read(1 << 40, 4),
                     lambda: file.advise("random", 0, 1 << 64), lambda: fs.open(path, 1 << 40),
                     lambda: file.read(1 << 70), lambda: file.read(-(1 << 70))):
            with pytest.raises(OverflowError, match="must fit"):
                call()
        for call in (lambda: fs.open(path, None), lambda: file.read(4, 1.5)):
            with pytest.raises(TypeError):
                call()


@pytest.mark.parametrize("arguments, error, says", [
    (dict(config="x.toml"), TypeError, "config: must be a dict of settings or None, not 'x.toml'"),
    (dict(device="cuda:0"), TypeError, "device: must be an int, not str"),
    (dict(device=1 << 40), gpufs.DeviceError, "device=1099511627776: there is no such device"),
    (dict(overrides=7), TypeError, "overrides: must be True or False, not 7"),
])
def test_wrong_arguments_of_a_filesystem(arguments, error, says):
    with pytest.raises(error, match=says):
        gpufs.Filesystem(**arguments)


@pytest.mark.parametrize("call, error, says", [
    (lambda file: file.read(1.0), TypeError, "count: must be an int, not float"),
    (lambda file: file.read(1, "0"), TypeError, "offset: must be an int, not str"),
    (lambda file: file.write(None), TypeError, "data: must be a tensor .* not NoneType"),
    (lambda file: file.readinto(None), TypeError, "buffer: must be a tensor .* not NoneType"),
    (lambda file: file.scatter([0], None, 8), TypeError, "data: must be a tensor .* not NoneType"),
    (lambda file: file.gather([0], 8, stream=-1), ValueError, "stream: must be .* is -1"),
    (lambda file: file.fs.open("x", "w", -1), ValueError, "permissions: must be from 0 to"),
])
def test_wrong_arguments_of_a_file(fs, path, call, error, says):
    with fs.open(path, "r+") as file, pytest.raises(error, match=says):
        call(file)


@pytest.mark.parametrize("mode, call, says", [
    ("r", lambda file: file.write(b"x"), "must be open for writing"),
    ("w", lambda file: file.read(1), "must be open for reading"),
    ("w", lambda file: file.readinto(bytearray(1)), "must be open for reading"),
    ("r", lambda file: file.scatter([0], b"x"), "record 0 at offset 0: must be open for writing"),
    ("r", lambda file: file.read(1, -1), "offset: must be at least 0, is -1"),
    ("a", lambda file: file.write(b"x", -1), "offset: must be at least 0, is -1"),
    ("r", lambda file: file.advise("random", 0, -1), "length: must be at least 0, is -1"),
    ("a", lambda file: file.fs.write(file.fd, b"x"), "opened to append: use write"),
])
def test_errors_name_the_file(fs, tmp_path, mode, call, says):
    name = tmp_path / "named"
    name.write_bytes(bytes(10))
    with fs.open(name, mode) as file, fs.open(name, mode) as same:
        same.close()  # opens in the same way share a descriptor
        with pytest.raises(OSError, match=says) as found:
            call(file)
    assert found.value.filename == str(name)


def test_errors_name_a_descriptor_that_is_not_open(fs, path):
    fd = fs.open(path).fd
    fs._core.close_file(fd)
    for call in (lambda: fs.size(fd), lambda: fs.sync(fd), lambda: fs.gather(fd, [0], 8)):
        with pytest.raises(OSError, match=f"descriptor {fd}: must be open"):
            call()
