"""gpufs: files for GPU kernels.

A Filesystem has a page cache in GPU memory. gather() and scatter() move records between files and
tensors by kernels that read and write files. A Mapping is a file at one address for CPU and GPU.

    import gpufs, numpy
    with gpufs.Filesystem() as fs, fs.open("records.bin") as file:
        records = file.gather(numpy.array([0, 4096, 512]), 512)

gpufs.torch, gpufs.cupy and gpufs.numba are for users of these packages.
docs/python.md of the repository has the whole of it.
"""
from typing import TYPE_CHECKING, Any

from gpufs._filesystem import File, Filesystem, O_GWRONCE, settings
from gpufs._gpufs import ConfigError, DeviceError, Transfer, device_available, device_kind
from gpufs._gpufs import version as __version__
from gpufs._mapping import Mapping, SharedMemory, using

if TYPE_CHECKING:
    from gpufs import cupy, numba, torch

__all__ = [
    "ConfigError", "DeviceError", "File", "Filesystem", "Mapping", "O_GWRONCE", "SharedMemory",
    "Transfer", "__version__", "device_available", "device_kind", "include_directories",
    "settings", "using",
]


def include_directories() -> list[str]:
    """Folders for the compiler of kernels that call gpufs, in this order.

    The last one has stand-ins for the headers of the C and C++ libraries, for NVRTC alone.
    """
    import pathlib

    root = pathlib.Path(__file__).parent / "include"
    return [str(root), str(root / "gpufs" / "nvrtc")]


def __getattr__(name: str) -> Any:
    """The modules for other packages, at their first use."""
    if name not in ("cupy", "numba", "torch"):
        raise AttributeError(f"module gpufs has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"gpufs.{name}")
