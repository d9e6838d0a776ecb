"""The file API for kernels of numba-cuda: gopen, gread, gwrite, gfsync, gsize, gclose.

Needs the CUDA package of gpufs, and numba-cuda with nvJitLink. The functions are linked as LTO-IR.

    @numba.cuda.jit
    def kernel(fs, fd, to): got = gpufs.numba.gread(fs, fd, to, 4096, 0)
    kernel[1, 128](fs.ref_address, file.fd, gpufs.numba.address(device_array))

`fs` and addresses are numbers of 64 bits. All threads of a block call with the same arguments; for
names that end in _warp all threads of a warp do. Results are those of the C++ calls: bytes, 0 or
-errno. A kernel that calls them many times is better written in C++, as each call looks for a free
seat of the filesystem anew.
"""
from __future__ import annotations

import pathlib
from typing import Any

from gpufs import _gpufs

_SIGNATURES = {
    "gopen": "int32(uint64, uint64, int32, int32)",  # fs, address of the path, flags, mode
    "gclose": "int32(uint64, int32)",
    "gread": "int64(uint64, int32, uint64, int64, int64)",  # fs, fd, to, count, offset
    "gwrite": "int64(uint64, int32, uint64, int64, int64)",
    "gfsync": "int32(uint64, int32)",
    "gsize": "int64(uint64, int32)",
}
__all__ = ["address", *_SIGNATURES, *(f"{name}_warp" for name in _SIGNATURES)]

_made: dict[str, Any] = {}


def address(array: Any) -> int:
    """The address of a device array, for the calls."""
    return int(array.__cuda_array_interface__["data"][0])


def _make() -> None:
    path = pathlib.Path(_gpufs.__file__).with_name("device_calls.ltoir")
    if not path.exists():
        raise ImportError(f"gpufs.numba needs the CUDA package of gpufs; this one is for the "
                          f"{_gpufs.device_kind} device. Install it with nvcc on PATH, or with "
                          f"GPUFS_DEVICE=cuda")
    from numba import cuda

    code = cuda.LTOIR(path.read_bytes(), name="device_calls.ltoir")
    for name, signature in _SIGNATURES.items():
        for suffix in ("", "_warp"):
            _made[name + suffix] = cuda.declare_device(f"gpufs_{name}{suffix}", signature,
                                                       link=[code], abi="c")


def __getattr__(name: str) -> Any:
    if name.removesuffix("_warp") not in _SIGNATURES:
        raise AttributeError(f"module gpufs.numba has no attribute {name!r}")
    if not _made:
        _make()
    return _made[name]
