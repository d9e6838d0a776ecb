"""SharedMemory and Mapping: files, and memory, at one address for CPU and GPU."""
from __future__ import annotations

import gc
import os
from types import TracebackType
from typing import Any, Iterable

from gpufs import _gpufs, _tensors

_MODES = {"r": "read", "r+": "read_write", "w": "write"}


class SharedMemory:
    """An address space of mappings on the current device.

    While it lives, gpufs catches SIGSEGV: faulthandler.enable() must come before it, not after.
    """

    def __init__(self, *, _device: int | None = None) -> None:
        self._core = _gpufs.SpaceCore(_device)

    def map(self, path: str | os.PathLike[str], mode: str = "r", *, length: int = 0,
            offset: int = 0, create: bool = False, truncate: bool = False, scratch: bool = False,
            eager: bool | None = None) -> Mapping:
        """Maps bytes of a file. They are read when somebody needs them.

        `mode`: "r" is only read; "r+" is read and written; "w" is written, and what the file had
        is never read. `length` 0: up to the end of the file; more than the file has needs `create`.
        `offset`: a multiple of 4096. gpufs::map_options says the rest.

        Raises OSError as open(2), and EBUSY, EINVAL, ENOMEM as gpufs::shared_memory::map().
        """
        if mode not in _MODES:
            raise ValueError(f"mode: must be one of {', '.join(_MODES)}, not {mode!r}")
        return Mapping(self, self._core.map(
            path=os.fsencode(path), access=_MODES[mode],
            create=_tensors.boolean(create, "create"),
            truncate=_tensors.boolean(truncate, "truncate"),
            length=_tensors.byte_number(length, "length"),
            offset=_tensors.byte_number(offset, "offset"),
            scratch=_tensors.boolean(scratch, "scratch"),
            eager=_tensors.boolean(eager, "eager", or_none=True)))

    def allocate(self, size: int) -> Mapping:
        """Makes `size` bytes of zeros without a file."""
        return Mapping(self, self._core.allocate(_tensors.byte_number(size, "size", 1)))

    def synchronize(self) -> None:
        """Waits for everything that was launched on the device."""
        self._core.synchronize()

    def notes(self) -> list[str]:
        """What this address space could not have as its settings say."""
        return self._core.notes()


class Mapping:
    """Bytes of a file, or memory, at one address for CPU and GPU.

    Tensors that numpy() and tensor() give see the memory itself. Kernels of other packages may use
    it within using(). close() writes back what was changed, and so does `with`.
    """

    def __init__(self, memory: SharedMemory, core: Any) -> None:
        self._memory, self._core = memory, core

    def numpy(self, dtype: Any = "uint8", shape: Any = None) -> Any:
        """A numpy array of the memory, of whole elements of `dtype`. Read-only for mode "r"."""
        found = self._core.bytes(False).view(dtype)
        return found if shape is None else found.reshape(shape)

    def tensor(self) -> Any:
        """The memory as bytes, for from_dlpack() of other packages: device memory on CUDA.

        On the emulated device it is a numpy array.
        """
        return self._core.bytes(_gpufs.device_kind == "cuda")

    @property
    def address(self) -> int:
        return self._core.address()

    @property
    def size(self) -> int:
        return self._core.size()

    def __len__(self) -> int:
        return self._core.size()

    @property
    def path(self) -> str:
        """Empty for memory without a file."""
        return os.fsdecode(self._core.name())

    def sync(self, first: int | None = None, length: int | None = None) -> None:
        """Writes changed pages to the file and makes them durable. Raises OSError, once.

        Raises OSError (EBUSY) within using() of this thread.
        """
        if first is None and length is None:
            self._core.sync()
        else:
            self._core.sync_range(*self._range(0 if first is None else first, length))

    def write_back(self) -> None:
        """As sync(), but the bytes need not be durable."""
        self._core.write_back()

    def refresh(self) -> None:
        """Lets later uses see what others have written to the file."""
        self._core.refresh()

    def discard(self) -> None:
        """Drops what was changed and not written back."""
        self._core.discard()

    def prefetch(self, first: int = 0, length: int | None = None) -> None:
        """Sends what the CPU has written of these bytes to the device."""
        self._core.prefetch(*self._range(first, length))

    def errors(self) -> list[str]:
        """The errors of the file so far, a line each."""
        return self._core.errors()

    @property
    def closed(self) -> bool:
        return self._core.closed()

    def close(self) -> None:
        """Writes back what was changed, and frees the address. Closing twice is fine.

        Waits for calls that other threads have begun. Raises BufferError while tensors see the
        memory and within using() of it, OSError if it could not be written: then it is lost.
        """
        try:
            self._core.close()
        except BufferError:
            gc.collect()  # a tensor that nothing names may still be in a cycle
            self._core.close()

    def __enter__(self) -> Mapping:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        what = repr(self.path) if self.path else "memory"
        try:
            state = "closed" if self.closed else f"{self.size} bytes"
        except OSError:
            state = "of another process"
        return f"<gpufs.Mapping of {what}, {state}>"

    def _range(self, first: int, length: int | None) -> tuple[int, int]:
        size, first = self.size, _tensors.integer(first, "first")
        length = size - first if length is None else _tensors.integer(length, "length")
        if not (0 <= first <= size and 0 <= length <= size - first):
            raise ValueError(f"first {first}, length {length}: must lie within the {size} bytes "
                             "of the mapping")
        return first, length


class using:
    """Lets kernels that are launched within `with` on a stream use mappings.

        with gpufs.using(reads=[a], writes=[b], stream=stream): ...launch on that stream...

    `stream`: as for gather(); None: the legacy default stream. What kernels have written can be
    used by the CPU afterwards: a touch of the memory waits for them. One `with` statement uses it:
    a second one raises RuntimeError, a closed mapping ValueError.
    """

    def __init__(self, *, reads: Iterable[Mapping] = (), writes: Iterable[Mapping] = (),
                 reads_writes: Iterable[Mapping] = (), stream: Any = None) -> None:
        self._core = _gpufs.LaunchCore(_tensors.stream_number(stream))
        for name, how, mappings in (("reads", "read", reads), ("writes", "write", writes),
                                    ("reads_writes", "read_write", reads_writes)):
            for m in _mappings_of(mappings, name):
                self._core.uses(m._core, how)

    def __enter__(self) -> using:
        self._core.release()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._core.launched()


def _mappings_of(given: Any, name: str) -> list[Mapping]:
    found = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(m, Mapping) for m in found):
        raise TypeError(f"{name}: must be a sequence of gpufs.Mapping, not {given!r}")
    return found
