"""Filesystem and File."""
from __future__ import annotations

import atexit
import errno
import os
import sys
import weakref
from types import TracebackType
from typing import Any, Mapping as Dictionary, Union

from gpufs import _gpufs, _tensors
from gpufs._mapping import Mapping, SharedMemory
from gpufs._gpufs import Transfer

O_GWRONCE: int = _gpufs.O_GWRONCE

_MODES = {
    "r": os.O_RDONLY,
    "r+": os.O_RDWR,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "x+": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "a+": os.O_RDWR | os.O_CREAT | os.O_APPEND,
}
_ADVICE = {"normal": 0, "random": 1, "sequential": 2, "willneed": 3, "dontneed": 4}

_open_filesystems: weakref.WeakSet[Filesystem] = weakref.WeakSet()


def settings() -> dict[str, str]:
    """The names of all settings, and what each is."""
    return dict(_gpufs.setting_names())


class Filesystem:
    """A page cache in GPU memory and the threads that serve it.

    `config` and keywords are settings by name: sizes as int or as text such as "64K". Keywords
    come before `config`. As in C++, gpufs.toml and GPUFS_* variables override both, unless
    `overrides` is False. `device`: the number of the CUDA device; None: the current one.

    Raises ConfigError (a ValueError) for a wrong setting, DeviceError (a RuntimeError) if there is
    no device or no memory. All methods may be called by any thread. close() ends it, and so do
    `with` and the end of the program.
    """

    def __init__(self, config: Dictionary[str, Any] | None = None, *, device: int | None = None,
                 overrides: bool = True, **settings: Any) -> None:
        if config is not None and not isinstance(config, Dictionary):
            raise TypeError(f"config: must be a dict of settings or None, not {config!r}")
        values = {**(config or {}), **settings}
        self._core = _gpufs.make_core(
            [(os.fsencode(str(k)), os.fsencode(_text_of(k, v))) for k, v in values.items()],
            _tensors.boolean(overrides, "overrides"), _device_number(device))
        self._shared: SharedMemory | None = None
        _open_filesystems.add(self)

    def open(self, path: str | os.PathLike[str], mode: str | int = "r",
             permissions: int = 0o644) -> File:
        """Opens a regular file. `mode` is as for open() of Python, always binary, or O_* flags. If
        the file is open in this filesystem, "w" drops nothing and "x" opens it.

        Raises OSError as open(2).
        """
        flags = _fitting(mode, "mode", 32) if isinstance(mode, int) else _flags_of(mode)
        fd = self._core.open(os.fsencode(path), flags, _permission_bits(permissions))
        return File(self, fd, os.fsdecode(path), flags & os.O_APPEND != 0)

    def gather(self, file: File | int, offsets: Any, size: int | None = None, out: Any = None, *,
               stream: Any = None, wait: bool = True, _staged: bool = False) -> Any:
        """Reads the records of `size` bytes at `offsets` into `out`, one after the other.

        `offsets`: bytes, as a tensor of int64 or uint64 or a sequence of int. `out`: a tensor
        without gaps, in host memory or on the device, of len(offsets) * size bytes; None: a new
        one of uint8, (records, size). `size` None: what `out` has per record.

        `stream`: the CUDA stream to work on; None: the one on which PyTorch or CuPy works now if
        `out` or else `offsets` is theirs and on the GPU, else the legacy default stream. `wait`
        False: returns a Transfer at once.

        Returns `out`. Raises IndexError for a record that does not lie within the file, ValueError
        or TypeError for wrong sizes, types or devices, OSError if the file cannot be read.
        """
        offsets = _tensors.offsets_of(offsets)
        if size is None:
            if out is None:
                raise ValueError("size: must be given if out is None")
            size = _size_of_records(out, _gpufs.record_count(offsets))
        size = _positive(size)
        if out is None:
            if not wait:
                raise ValueError("out: must be given with wait=False")
            if size > (most := self.size(file)) and _gpufs.record_count(offsets) != 0:
                raise IndexError(f"size: records of {size} bytes do not lie within the {most} "
                                 "bytes of the file")
            out = self._core.device_bytes(_fd(file), offsets, size)
        transfer = self._start(file, offsets, size, out, False, stream, _staged)
        if not wait:
            return transfer
        transfer.wait()
        return out

    def scatter(self, file: File | int, offsets: Any, data: Any, size: int | None = None, *,
                stream: Any = None, wait: bool = True, _staged: bool = False) -> Transfer | None:
        """Writes the records of `data`, one after the other, to the file at `offsets`.

        Arguments and errors are those of gather(). Records may lie beyond the end of the file.
        Where records overlap, either may be last. sync() makes them durable. Returns None, or with
        `wait` False a Transfer.
        """
        offsets = _tensors.offsets_of(offsets)
        if size is None:
            size = _size_of_records(data, _gpufs.record_count(offsets))
        transfer = self._start(file, offsets, _positive(size), data, True, stream, _staged)
        if not wait:
            return transfer
        transfer.wait()
        return None

    def read(self, file: File | int, count: int = -1, offset: int = 0) -> bytes:
        """Reads up to `count` bytes from byte `offset`; negative: to the end of the file.

        Sees what kernels have written. Returns fewer bytes at the end of the file.
        """
        count, offset = _fitting(count, "count"), _not_negative(file, offset, "offset")
        left = max(0, self.size(file) - offset)
        return self._core.read(_fd(file), left if count < 0 else min(count, left), offset)

    def readinto(self, file: File | int, buffer: Any, offset: int = 0) -> int:
        """Reads into writable host memory. Returns the number of bytes."""
        return self._core.read_into(_fd(file), buffer, _not_negative(file, offset, "offset"))

    def write(self, file: File | int, data: Any, offset: int = 0) -> int:
        """Writes host memory to byte `offset`. Returns the number of bytes.

        A File that appends gets the bytes at its end, whatever `offset` is, by a kernel as
        scatter() does. Its number alone does not: that raises OSError (EOPNOTSUPP).
        """
        offset = _not_negative(file, offset, "offset")
        if not isinstance(file, File) or not file._appends:
            return self._core.write(_fd(file), data, offset)
        count = _gpufs.byte_count(data)
        if count != 0:
            self.scatter(file, [0], data, count)
        return count

    def size(self, file: File | int) -> int:
        """The bytes of the file, with those that kernels have added."""
        return self._core.status(_fd(file))["size"]

    def stat(self, file: File | int) -> dict[str, int]:
        """Size, times and identity of the file: the members of gpufs::file_status."""
        return self._core.status(_fd(file))

    def advise(self, file: File | int, what: str, offset: int = 0, length: int = 0) -> None:
        """Says how bytes will be used: normal, random, sequential, willneed or dontneed.

        `length` 0: up to the end of the file.
        """
        if what not in _ADVICE:
            raise ValueError(f"what: must be one of {', '.join(_ADVICE)}, not {what!r}")
        self._core.advise(_fd(file), _not_negative(file, offset, "offset"),
                          _not_negative(file, length, "length"), _ADVICE[what])

    def sync(self, file: File | int | None = None) -> None:
        """Writes the file's dirty pages and makes them durable. None: all files', not durably.

        Raises OSError: the first error since the last sync.
        """
        if file is None:
            self._core.sync_all()
        else:
            self._core.sync(_fd(file))

    def discard(self, file: File | int) -> None:
        """Drops the dirty pages of a file that cannot be written, and its error."""
        self._core.discard(_fd(file))

    def stats(self) -> dict[str, int]:
        """The counters since the filesystem was made. Exact while no kernel runs."""
        return self._core.counters()

    def notes(self) -> list[str]:
        """Where the filesystem departs from its settings, and why."""
        return self._core.notes()

    def unwritten(self) -> list[str]:
        """The bytes that are dirty now, a line per page."""
        return self._core.unwritten()

    @property
    def settings(self) -> dict[str, str]:
        """The settings that hold."""
        return self._core.settings()

    @property
    def backend(self) -> str:
        """The host I/O engine: "io_uring" or "pread"."""
        return self._core.backend()

    @property
    def device(self) -> int:
        """The number of the device."""
        return self._core.device()

    @property
    def ref(self) -> bytes:
        """The gpufs::fs_ref that kernels take by value. Valid while the filesystem is open."""
        return self._core.ref()

    @property
    def ref_address(self) -> int:
        """The address of the same gpufs::fs_ref in GPU memory, for kernels that take a pointer."""
        return self._core.ref_address()

    def map(self, path: str | os.PathLike[str], mode: str = "r", **options: Any) -> Mapping:
        """Maps a file at one address for CPU and the filesystem's device, as SharedMemory.map()."""
        if self._core.closed():
            raise ValueError("the filesystem is closed")
        if self._shared is None:
            self._shared = SharedMemory(_device=self.device)
        return self._shared.map(path, mode, **options)

    @property
    def closed(self) -> bool:
        return self._core.closed()

    def close(self) -> None:
        """Waits for transfers, writes all dirty pages and frees everything. Closing twice is fine.

        No kernel of others that uses the filesystem may be running. Mappings live on. Raises
        OSError: bytes that could not be written are lost. After a signal whose handler raises the
        transfers stop, the filesystem stays open, and that is raised. In a handler that interrupts
        such a transfer RuntimeError is raised, with the same effect.
        """
        try:
            self._core.close()
        finally:
            if self._core.closed():
                _open_filesystems.discard(self)

    def __enter__(self) -> Filesystem:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"device {self.device}"
        return f"<gpufs.Filesystem, {_gpufs.device_kind}, {state}>"

    def _start(self, file: File | int, offsets: Any, size: int, data: Any, writes: bool,
               stream: Any, staged: bool) -> Transfer:
        number = _tensors.stream_number(stream)
        if number is None and _gpufs.device_kind == "cuda":
            number = _tensors.current_stream(data)
            if number is None:
                number = _tensors.current_stream(offsets)
        return self._core.start(fd=_fd(file), offsets=offsets, size=size, data=data, writes=writes,
                                stream=number, staged=staged, stream_owner=stream)


class File:
    """An open file of a Filesystem. close() ends it, and so does `with`."""

    def __init__(self, fs: Filesystem, fd: int, path: str, appends: bool = False) -> None:
        self._fs, self._fd, self._path, self._appends = fs, fd, path, appends

    @property
    def fs(self) -> Filesystem:
        return self._fs

    @property
    def fd(self) -> int:
        """The descriptor, for kernels. It is none of the operating system's."""
        if self._fd < 0:
            raise ValueError(f"{self._path}: the file is closed")
        return self._fd

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._fs.size(self)

    @property
    def closed(self) -> bool:
        return self._fd < 0 or self._fs.closed

    def gather(self, offsets: Any, size: int | None = None, out: Any = None,
               **options: Any) -> Any:
        """As Filesystem.gather()."""
        return self._fs.gather(self, offsets, size, out, **options)

    def scatter(self, offsets: Any, data: Any, size: int | None = None,
                **options: Any) -> Transfer | None:
        """As Filesystem.scatter()."""
        return self._fs.scatter(self, offsets, data, size, **options)

    def read(self, count: int = -1, offset: int = 0) -> bytes:
        """As Filesystem.read()."""
        return self._fs.read(self, count, offset)

    def readinto(self, buffer: Any, offset: int = 0) -> int:
        """As Filesystem.readinto()."""
        return self._fs.readinto(self, buffer, offset)

    def write(self, data: Any, offset: int = 0) -> int:
        """As Filesystem.write()."""
        return self._fs.write(self, data, offset)

    def advise(self, what: str, offset: int = 0, length: int = 0) -> None:
        """As Filesystem.advise()."""
        self._fs.advise(self, what, offset, length)

    def sync(self) -> None:
        """Writes the file's dirty pages and makes them durable."""
        self._fs.sync(self)

    def close(self) -> None:
        """Closes the file once. The last close writes its dirty pages to the host file.

        Waits for transfers of the file. After a signal whose handler raises they stop, the file
        stays open, and that is raised. In a handler that interrupts such a transfer RuntimeError is
        raised, with the same effect.
        Closing twice is fine, also after the filesystem. Raises the OSError of the write-back.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0 and not self._fs.closed:
            try:
                self._fs._core.finish_transfers(fd)
            except BaseException:  # a signal: the file stays open
                self._fd = fd
                raise
            self._fs._core.close_file(fd)

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpufs.File {self._path!r}, {'closed' if self.closed else f'fd {self._fd}'}>"


def _fd(file: Union[File, int]) -> int:
    if isinstance(file, File):
        return file.fd
    if isinstance(file, int):
        return _fitting(file, "file", 32)
    raise TypeError(f"file: must be a gpufs.File or its fd, not {type(file).__name__}")


def _fitting(value: Any, name: str, bits: int = 64) -> int:
    number = _tensors.integer(value, name)
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise OverflowError(f"{name}: must fit a signed number of {bits} bits, is {number}")
    return number


def _not_negative(file: File | int, value: Any, name: str) -> int:
    """Raises OSError (EINVAL) as the system does, naming the argument."""
    number, _ = _fitting(value, name), _fd(file)
    if number < 0:
        path = [file.path] if isinstance(file, File) else []
        raise OSError(errno.EINVAL, f"{os.strerror(errno.EINVAL)}: {name}: must be at least 0, is "
                      f"{number}", *path)
    return number


def _device_number(device: Any) -> int | None:
    if device is None:
        return None
    number = _tensors.integer(device, "device")
    if not 0 <= number < 1 << 31:
        raise _gpufs.DeviceError(f"device={number}: there is no such device")
    return number


def _permission_bits(permissions: Any) -> int:
    number = _tensors.integer(permissions, "permissions")
    if not 0 <= number < 1 << 16:
        raise ValueError(f"permissions: must be from 0 to 0o177777, is {number}")
    return number


def _flags_of(mode: str) -> int:
    if not isinstance(mode, str):
        raise TypeError(f"mode: must be a str or flags, not {type(mode).__name__}")
    flags = _MODES.get(mode.replace("b", ""))
    if flags is None or mode.count("b") > 1:
        raise ValueError(f"mode: must be one of {', '.join(_MODES)} or flags, not {mode!r}")
    return flags


def _positive(size: Any) -> int:
    number = _tensors.integer(size, "size")
    if not 1 <= number < 1 << 63:
        raise ValueError(f"size: must be at least 1 byte, not {number}")
    return number


def _size_of_records(tensor: Any, count: int) -> int:
    total = _tensors.byte_count(tensor)
    if count == 0 or total == 0 or total % count != 0:
        raise ValueError(f"size: must be given, as {total} bytes are not {count} records of a size")
    return total // count


def _text_of(key: Any, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _gpufs.ConfigError(f"{key}: must be an int or a str such as \"64K\", not "
                                 f"{type(value).__name__}")
    return str(value)


@atexit.register
def _close_all() -> None:
    for fs in list(_open_filesystems):
        while not fs.closed:
            try:
                fs.close()
            except Exception as error:  # the program ends: nobody else can be told
                print(f"gpufs: {error}", file=sys.stderr)
                break
            except BaseException:  # Ctrl-C: transfers stop, but nothing that was written is lost
                continue
