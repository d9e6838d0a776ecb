"""Kernels of CuPy that call gpufs: the code is C++, compiled by NVRTC.

    module = gpufs.cupy.raw_module(code)  # code has #include <gpufs/io.hpp>
    module.get_function("kernel")((blocks,), (threads,), (fs.ref_address, file.fd, out))

Such a kernel is extern "C" and takes a `gpufs::fs_ref const*`: gpufs::io_context io(*fs, block).
"""
from __future__ import annotations

from typing import Any

from gpufs import include_directories

__all__ = ["compiler_options", "raw_module"]


def compiler_options() -> tuple[str, ...]:
    """The options of NVRTC for code that includes gpufs. The headers of CUDA come beside them."""
    return ("-std=c++20", "-default-device", *(f"-I{name}" for name in include_directories()))


def raw_module(code: str, options: tuple[str, ...] = (), **arguments: Any) -> Any:
    """A cupy.RawModule of code that includes gpufs."""
    import cupy

    return cupy.RawModule(code=code, options=(*compiler_options(), *options), backend="nvrtc",
                          **arguments)
