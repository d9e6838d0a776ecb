"""The version of a wheel: that of include/gpufs/version.hpp, and for which device the wheel is.

0.1.0+cu13 is for CUDA 13, 0.1.0+emulated for the emulated device. The device is chosen as
python/CMakeLists.txt does. A source distribution has no label: it is for both.
pyproject.toml names this provider of scikit-build-core.
"""
import os
import pathlib
import re
import subprocess

SOURCES = pathlib.Path(__file__).resolve().parent.parent
DEVICES = ("cuda", "emulated")


def first_match(pattern, text, where):
    found = re.search(pattern, text)
    if not found:
        raise RuntimeError(f"{where}: has nothing like {pattern}")
    return found.group(1)


def device_of_prefix(prefix):
    name = "cmake/gpufs/gpufs-config.cmake"
    # lib, lib64, or Debian's lib/x86_64-linux-gnu.
    root = pathlib.Path(prefix)
    found = [*sorted(root.glob(f"lib*/{name}")), *sorted(root.glob(f"lib/*/{name}"))]
    if not found:
        raise RuntimeError(f"GPUFS_PREFIX={prefix}: no gpufs is installed there: lib/{name} is "
                           "missing, and so is one in lib64")
    config = found[0]
    return first_match(r"GPUFS_DEVICE[ \"]+(\w+)", config.read_text(encoding="utf-8"), config)


def label():
    prefix, device = os.environ.get("GPUFS_PREFIX"), os.environ.get("GPUFS_DEVICE")
    if not device and prefix:
        device = device_of_prefix(prefix)
    if device and device not in DEVICES:
        raise RuntimeError(f"GPUFS_DEVICE={device}: must be one of {', '.join(DEVICES)}")
    nvcc = ""
    if device != "emulated":
        done = subprocess.run([SOURCES / "scripts" / "find_nvcc.sh"], capture_output=True,
                              text=True, check=False)
        nvcc = done.stdout.strip()
    if not device:
        device = "cuda" if nvcc else "emulated"
    if device == "emulated":
        return device
    if not nvcc:
        raise RuntimeError("GPUFS_DEVICE=cuda: no working nvcc on PATH or in CUDACXX")
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return "cu" + first_match(r"release (\d+)", said, nvcc)


class WheelVersion:
    """scikit-build-core makes one, says what it is going to build, and asks for the version."""

    def __init__(self):
        self.is_for_both = False

    def build_state(self, state):
        self.is_for_both = state == "sdist"

    def dynamic_metadata(self, _settings, _project):
        header = SOURCES / "include" / "gpufs" / "version.hpp"
        version = first_match(r'GPUFS_VERSION_STRING "([0-9.]+)"',
                              header.read_text(encoding="utf-8"), header)
        return {"version": version if self.is_for_both else f"{version}+{label()}"}
