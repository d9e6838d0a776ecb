"""What the package asks of tensors before C++ sees them."""
from __future__ import annotations

import array
import operator
import sys
from typing import Any

from gpufs import _gpufs


def integer(value: Any, name: str) -> int:
    """An argument as an int. Raises TypeError naming it."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: must be an int, not {type(value).__name__}") from None


def byte_number(value: Any, name: str, least: int = 0) -> int:
    """An argument that counts bytes. Raises TypeError and ValueError naming it."""
    number = integer(value, name)
    if not least <= number < 1 << 63:
        raise ValueError(f"{name}: must be from {least} to {(1 << 63) - 1} bytes, is {number}")
    return number


def boolean(value: Any, name: str, or_none: bool = False) -> Any:
    """An argument that is True or False, or None if it may be. Raises TypeError naming it."""
    if isinstance(value, bool) or (or_none and value is None):
        return value
    raise TypeError(f"{name}: must be True{', False or None' if or_none else ' or False'}, not "
                    f"{value!r}")


def offsets_of(offsets: Any) -> Any:
    """`offsets` as an object that has memory. Sequences of int become an array."""
    if hasattr(offsets, "__dlpack__") or _has_buffer(offsets):
        return offsets
    try:
        return array.array("q", offsets)
    except OverflowError:
        raise IndexError("offsets: must fit a signed number of 64 bits"
                         f"{_beyond(offsets)}") from None
    except TypeError:
        raise TypeError("offsets: must be a tensor of int64 or uint64, or a sequence of int, not "
                        f"{type(offsets).__name__}") from None


def _beyond(offsets: Any) -> str:
    """The first offset that does not fit, where it can be told."""
    fits = range(-(1 << 63), 1 << 63)
    return next((f", one is {o}" for o in offsets if isinstance(o, int) and o not in fits), "")


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, BufferError):  # BufferError: it has memory, but of a device
        return False
    return True


def byte_count(tensor: Any) -> int:
    """The bytes of a tensor's elements."""
    if hasattr(tensor, "nbytes"):
        return int(tensor.nbytes)
    if hasattr(tensor, "element_size"):  # PyTorch before 2.1
        return int(tensor.element_size() * tensor.numel())
    if not hasattr(tensor, "__dlpack__") and not _has_buffer(tensor):
        raise TypeError(f"size: must be given, as {type(tensor).__name__} has no nbytes")
    return _gpufs.byte_count(tensor)


def stream_number(stream: Any) -> int | None:
    """A stream of CUDA as a number: of PyTorch, CuPy, cuda.core, Numba, or a number."""
    number = _stream_number(stream)
    if number is not None and not 0 <= number < 1 << 64:
        raise ValueError(f"stream: must be a number of 64 bits without a sign, is {number}")
    return number


def _stream_number(stream: Any) -> int | None:
    if stream is None or isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    handle = getattr(stream, "handle", None)
    value = getattr(handle, "value", handle)
    if isinstance(value, int):
        return value
    raise TypeError("stream: must be a CUDA stream of PyTorch, CuPy or Numba, an object with "
                    f"__cuda_stream__, a number or None, not {type(stream).__name__}")


def current_stream(tensor: Any) -> int | None:
    """The stream on which the package of a tensor works now. None: it has none."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if _is_one(tensor, torch, "Tensor") and tensor.is_cuda:
        return int(torch.cuda.current_stream(tensor.device).cuda_stream)
    if _is_one(tensor, cupy, "ndarray"):
        with tensor.device:  # each device has its own
            return int(cupy.cuda.get_current_stream().ptr)
    return None


def _is_one(value: Any, package: Any, name: str) -> bool:
    """Whether it is of a class, or of one made from it, of a package that may be there."""
    kind = getattr(package, name, None)
    return isinstance(kind, type) and isinstance(value, kind)
