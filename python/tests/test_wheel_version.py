"""For which device a wheel says that it is."""
import pathlib
import sys

import pytest

SOURCES = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture
def wheel(monkeypatch):
    """The provider of the version, out of the folder of sources."""
    monkeypatch.syspath_prepend(str(SOURCES))
    monkeypatch.delitem(sys.modules, "wheel_version", raising=False)
    for name in ("GPUFS_PREFIX", "GPUFS_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    import wheel_version
    return wheel_version


@pytest.mark.parametrize("device", ["gpu", "CUDA", "none"])
def test_another_device_is_refused_by_its_name(wheel, monkeypatch, device):
    monkeypatch.setenv("GPUFS_DEVICE", device)
    with pytest.raises(RuntimeError,
                       match=f"^GPUFS_DEVICE={device}: must be one of cuda, emulated$"):
        wheel.label()


@pytest.mark.parametrize("folder", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_the_device_is_that_of_the_installed_library(wheel, monkeypatch, tmp_path, folder):
    package = tmp_path / folder / "cmake" / "gpufs"
    package.mkdir(parents=True)
    (package / "gpufs-config.cmake").write_text('set(GPUFS_DEVICE "emulated")\n', encoding="utf-8")
    monkeypatch.setenv("GPUFS_PREFIX", str(tmp_path))
    assert wheel.label() == "emulated"


def test_a_prefix_without_a_library_is_named(wheel, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUFS_PREFIX", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"^GPUFS_PREFIX={tmp_path}: no gpufs is installed"):
        wheel.label()
