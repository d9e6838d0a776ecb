"""Ends while something is under way: close() beside other threads, signals, fork()."""
import contextlib
import errno
import functools
import os
import signal
import threading
import time

import numpy
import pytest

import gpufs
from conftest import SMALL, records_of, run


def test_close_may_be_the_last_that_has_a_transfer(path):
    """Other threads drop theirs meanwhile."""
    for _ in range(10):
        fs = gpufs.Filesystem(SMALL)
        file = fs.open(path)
        ended = []
        begun = threading.Barrier(4)

        def work():
            try:
                file.gather(range(0, 10_000, 100), 64)
                begun.wait(60)
                while True:
                    file.gather(range(0, 10_000, 100), 64)
            except (OSError, ValueError) as error:
                ended.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        begun.wait(60)
        fs.close()
        for t in threads:
            t.join()
        assert len(ended) == 3


def test_results_are_dropped_while_transfers_run(path, data):
    """Their memory is kept until none does."""
    with gpufs.Filesystem(SMALL) as fs, fs.open(path) as file:
        offsets = slow_offsets(data, 20_000)
        out = numpy.zeros((len(offsets), 64), numpy.uint8)
        transfer = file.gather(offsets, out=out, wait=False)
        threads = [threading.Thread(target=lambda: [file.gather(offsets[:9], 64, None)
                                                    for _ in range(20)]) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        transfer.wait()
        assert numpy.array_equal(out, records_of(data, offsets, 64))


def bytes_in_use():
    """Of addresses: pages that nobody touched count, too."""
    if gpufs.device_kind == "cuda":
        free, total = pytest.importorskip("torch").cuda.mem_get_info()
        return total - free
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("polled, results, most", [(True, 20, 2), (False, 100, 50)])
def test_results_are_freed_although_a_transfer_is_kept(fs, path, polled, results, most):
    """At once if done() has seen its end, else once they are 256 MiB. `most`: of 64 MiB each."""
    one = 64 << 20
    with fs.open(path) as file:
        transfer = file.gather([0], out=numpy.zeros(64, numpy.uint8), wait=False)
        while polled and not transfer.done():
            pass
        before = bytes_in_use()
        for _ in range(results):
            fs._core.device_bytes(file.fd, numpy.zeros(64, numpy.int64), 1 << 20)
        assert bytes_in_use() - before < most * one
        transfer.wait()


def test_results_are_freed_while_a_kernel_runs(slow_kernel):
    """The drop waits for it."""
    file, offsets, out = slow_kernel
    transfer = file.gather(offsets[:20_000], out=out[:20_000], wait=False)
    before = bytes_in_use()
    for _ in range(100):
        file.fs._core.device_bytes(file.fd, numpy.zeros(64, numpy.int64), 1 << 20)
    assert bytes_in_use() - before < 50 * (64 << 20)  # with the memory of the kernel's threads
    transfer.wait()


def slow_offsets(data, count):
    return numpy.arange(count) * 7919 % (len(data) - 64)


@pytest.fixture
def slow(path, data):
    """A file, and arguments of a gather that takes so long that tests stop it."""
    offsets = slow_offsets(data, 3_000_000)
    with gpufs.Filesystem(SMALL) as fs, fs.open(path) as file:
        yield file, offsets, numpy.zeros((len(offsets), 64), numpy.uint8)


@pytest.fixture
def slow_kernel(path, data):
    """The same, and the gather goes on behind its call. A GPU does so for its own memory alone."""
    if gpufs.device_kind == "cuda":
        torch = pytest.importorskip("torch")
        offsets = slow_offsets(data, 15_000_000)
        out = torch.zeros((len(offsets), 64), dtype=torch.uint8, device="cuda")
    else:
        offsets = slow_offsets(data, 3_000_000)
        out = numpy.zeros((len(offsets), 64), numpy.uint8)
    with gpufs.Filesystem(SMALL) as fs, fs.open(path) as file:
        yield file, offsets, out


def interrupt():
    raise KeyboardInterrupt


@contextlib.contextmanager
def alarm(handler):
    """`handler` runs in 0.2 s, and once."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: handler())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=["slow", "slow_kernel"])
def move(request):
    """A file, and what begins a long transfer: in pieces, or by a kernel that runs at once."""
    file, offsets, out = request.getfixturevalue(request.param)
    if request.param == "slow":
        return file, lambda: functools.partial(file.gather, offsets, out=out, _staged=True)
    return file, lambda: file.gather(offsets, out=out, wait=False).wait


def test_a_handler_cannot_close_the_filesystem(move):
    file, begin = move
    for closed_by in (file.fs, file):
        go_on = begin()
        with alarm(closed_by.close), pytest.raises(RuntimeError, match="handler cannot close"):
            go_on()
        assert not closed_by.closed and len(file.read(8)) == 8


def test_a_handler_that_goes_on_after_the_refusal(move):
    file, begin = move

    def handler():
        with pytest.raises(RuntimeError, match="handler cannot close"):
            file.fs.close()

    go_on = begin()
    with alarm(handler), pytest.raises(OSError) as found:
        go_on()
    assert found.value.errno == errno.ECANCELED


def test_a_handler_cannot_wait_for_what_it_interrupts(slow_kernel):
    file, offsets, out = slow_kernel
    seen = []

    def handler():
        with pytest.raises(RuntimeError, match="handler cannot wait"):
            transfer.wait()
        seen.append(transfer.done())
        seen.append(file.gather([0, 8], 8) is not None)  # others are no problem
        raise KeyboardInterrupt

    transfer = file.gather(offsets, out=out, wait=False)
    with alarm(handler), pytest.raises(KeyboardInterrupt):
        transfer.wait()
    assert seen == [False, True] and transfer.done()


def test_an_interrupted_transfer_tells_so_each_time(slow_kernel):
    file, offsets, out = slow_kernel
    transfer = file.gather(offsets, out=out, wait=False)
    with alarm(interrupt), pytest.raises(KeyboardInterrupt):
        transfer.wait()
    assert transfer.done()
    for _ in range(2):
        with pytest.raises(OSError) as found:
            transfer.wait()
        assert found.value.errno == errno.ECANCELED


@pytest.mark.parametrize("closed_by", [lambda file: file, lambda file: file.fs])
def test_a_signal_ends_a_close(slow_kernel, closed_by):
    """What was to be closed stays open, and is closed by the next call."""
    file, offsets, out = slow_kernel
    first, second = (file.gather(offsets, out=out, wait=False) for _ in range(2))
    with alarm(interrupt), pytest.raises(KeyboardInterrupt):
        closed_by(file).close()
    assert not file.closed and len(file.read(8)) == 8
    for transfer in (first, second):
        with pytest.raises(OSError) as found:
            transfer.wait()
        assert found.value.errno == errno.ECANCELED
    closed_by(file).close()
    assert closed_by(file).closed


def test_a_handler_cannot_close_what_is_being_closed(slow_kernel):
    file, offsets, out = slow_kernel
    transfer = file.gather(offsets, out=out, wait=False)
    with alarm(file.fs.close), pytest.raises(RuntimeError, match="handler cannot close"):
        file.close()
    assert transfer.done() and not file.closed


def test_a_signal_while_close_waits_for_what_another_thread_waits_for(slow):
    """That transfer goes on."""
    file, offsets, _ = slow
    offsets = offsets[:15_000]
    out = numpy.zeros((len(offsets), 64), numpy.uint8)
    thread = threading.Thread(target=lambda: file.gather(offsets, out=out, _staged=True))
    before = file.fs.stats()["misses"]
    thread.start()
    while file.fs.stats()["misses"] == before and thread.is_alive():
        pass
    with alarm(interrupt), contextlib.suppress(KeyboardInterrupt):  # or it has ended before
        file.close()
        while True:
            pass
    file.close()
    thread.join()
    assert file.closed and out[-1].any()


def test_a_signal_at_the_end_of_the_program(path, tmp_path):
    """The program's end stops its transfer, and writes what was written before."""
    other = tmp_path / "other"
    assert run("""
        import signal, sys, threading
        import gpufs, numpy
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for jobs
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0, write_memory="1M")
        fs.open(sys.argv[2], "w+").scatter([0], b"kept")
        file = fs.open(sys.argv[1])
        offsets = numpy.random.default_rng(1).integers(0, file.size - 2100, 1_000_000)
        transfer = file.gather(offsets, out=numpy.empty((1_000_000, 2100), "u1"), wait=False)
        closing = threading.Event()
        def close():
            closing.set()
            gpufs.Filesystem.close(fs)
        fs.close = close
        def interrupt():
            closing.wait()
            signal.raise_signal(signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
    """, str(path), str(other)) == ""
    assert other.read_bytes() == b"kept"


def test_a_child_of_fork_cannot_wait(slow_kernel):
    file, offsets, out = slow_kernel
    transfer = file.gather(offsets, out=out, wait=False)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (transfer.wait, transfer.done):
            try:
                call()
            except OSError as error:
                refused += error.errno == errno.EPERM
        os._exit(refused)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended == child:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 2
    with alarm(interrupt), pytest.raises(KeyboardInterrupt):
        transfer.wait()


@pytest.mark.skipif(gpufs.device_kind != "emulated", reason="CUDA cannot do without addresses")
def test_a_transfer_is_waited_for_where_no_thread_can_be_made(path):
    """For want of addresses for its stack."""
    assert run("""
        import resource, sys
        import gpufs, numpy
        fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                              prefetch_memory="1M", prefetch_size=0)
        file = fs.open(sys.argv[1])
        offsets = numpy.arange(20_000) * 7919 % (file.size - 64)
        out = numpy.zeros((len(offsets), 64), "u1")
        transfer = file.gather(offsets, out=out, wait=False)
        while fs.stats()["misses"] == 0: pass
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), -1))
        del transfer
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        print(out.any(1).all())
    """, str(path)) == "True\n"


def test_closing_a_file_waits_for_its_transfers(path, data):
    offsets = numpy.arange(5000) * 500
    out = numpy.zeros((len(offsets), 64), numpy.uint8)
    with gpufs.Filesystem(SMALL) as fs:
        file = fs.open(path)
        transfer = file.gather(offsets, out=out, wait=False)
        file.close()
        assert transfer.done()
        transfer.wait()
        assert numpy.array_equal(out, records_of(data, offsets, 64))


def test_closing_a_file_waits_for_a_transfer_that_is_being_checked(path):
    """Its kernel does not find the file closed."""
    offsets = numpy.zeros(4_000_000, numpy.int64)
    out = numpy.zeros((len(offsets), 1), numpy.uint8)
    with gpufs.Filesystem(SMALL) as fs:
        for _ in range(5):
            file = fs.open(path)
            begun, failed = threading.Event(), []

            def work():
                begun.set()
                try:
                    file.gather(offsets, out=out)
                except (OSError, ValueError) as error:  # closed before
                    failed.append(str(error))

            thread = threading.Thread(target=work)
            thread.start()
            begun.wait()
            file.close()
            thread.join()
            assert not any("record" in text for text in failed)


def test_closing_a_file_waits_for_a_staged_transfer_of_another_thread(path, data):
    offsets = numpy.arange(50_000) * 30
    out = numpy.zeros((len(offsets), 64), numpy.uint8)
    failed = []
    with gpufs.Filesystem(SMALL) as fs:
        file = fs.open(path)

        def work():
            try:
                file.gather(offsets, out=out, _staged=True)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while fs.stats()["misses"] == 0 and thread.is_alive():
            pass
        file.close()
        thread.join()
    assert not failed
    assert numpy.array_equal(out, records_of(data, offsets, 64))


@pytest.mark.parametrize("call", ["m.sync()", "memory.map(sys.argv[2]).close()", "memory.notes()",
                                  "file.gather([0], 64)", "fs.size(file)"])
def test_daemon_threads_in_calls_at_the_end_of_the_program(path, tmp_path, call):
    """What mappings have is written back all the same."""
    other = tmp_path / "other"
    other.write_bytes(bytes(8192))
    for _ in range(5):
        assert run("""
            import sys, threading, gpufs
            fs = gpufs.Filesystem(page_size="4K", cache_size="1M", staging_size="256K",
                                  prefetch_memory="1M", prefetch_size=0)
            file = fs.open(sys.argv[1])
            memory = gpufs.SharedMemory()
            m = memory.map(sys.argv[1], "r+")
            kept = memory.map(sys.argv[2], "r+")
            kept.numpy()[:] = int(sys.argv[3])
            begun = threading.Barrier(4)
            def work():
                call = eval("lambda: " + sys.argv[4])
                begun.wait()
                try:
                    while True: call()
                except (OSError, ValueError): pass
            for _ in range(3): threading.Thread(target=work, daemon=True).start()
            begun.wait()
        """, str(path), str(other), "7", call) == ""
        assert other.read_bytes() == bytes([7]) * 8192
        other.write_bytes(bytes(8192))
