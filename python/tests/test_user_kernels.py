"""What kernels of other packages are compiled with: the headers by NVRTC, the functions by nvcc.

Nothing runs here: that needs a GPU. python/examples/ has programs for one.
"""
import ctypes
import ctypes.util
import glob
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import gpufs

SOURCES = pathlib.Path(__file__).parents[2]
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def nvrtc():
    """The library and a folder of the CUDA headers; the test is skipped without one of them."""
    found = sorted(glob.glob(str(CUDA / "lib64" / "libnvrtc.so*")))
    name = found[0] if found else ctypes.util.find_library("nvrtc")
    if not name or not (CUDA / "include" / "cooperative_groups.h").exists():
        pytest.skip("no NVRTC with the headers of CUDA")
    return ctypes.CDLL(name)


def compile_with(library, code, options):
    """Compiles to PTX. Returns NVRTC's result and its log."""
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None,
                                      None) == 0
    given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    result = library.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return result, log.value.decode()


KERNEL = """
#include <gpufs/gpufs.hpp>
#include <sys/mman.h>

extern "C" __global__ void all_calls(gpufs::fs_ref fs, char const* path, float* out, long* got) {
  __shared__ char chunk[4096];
  gpufs::io_context io(fs, cooperative_groups::this_thread_block());
  int const fd = gpufs::gopen(io, path, O_RDWR | O_CREAT, 0600);
  got[0] = gpufs::gread(io, fd, chunk, sizeof(chunk), 0);
  got[1] = gpufs::gwrite(io, fd, chunk, sizeof(chunk), 4096);
  auto later = gpufs::gread_async(io, fd, chunk, sizeof(chunk), 8192);
  got[2] = gpufs::gwait(io, later);
  gpufs::array<float const> const a(io, fd);
  out[threadIdx.x] = a[threadIdx.x] + *a.pointer(threadIdx.x);
  void* address;
  got[3] = gpufs::gmmap(io, fd, 16, 0, PROT_READ, &address);
  if (got[3] > 0) gpufs::gmunmap(io, address);
  got[4] = gpufs::gfsync(io, fd);
  gpufs::file_status status;
  got[5] = gpufs::gfstat(io, fd, &status);
  got[6] = gpufs::gfadvise(io, fd, 0, 0, gpufs::advice::random);
  got[7] = gpufs::gclose(io, fd);
  auto const warp =
      cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  gpufs::io_context of_warp(fs, warp);
  got[8] = gpufs::gread(of_warp, fd, chunk, 32, 0) == -EBADF;
}
"""


def options_of_cupy():
    import gpufs.cupy

    return list(gpufs.cupy.compiler_options())


def test_nvrtc_compiles_the_installed_headers():
    library = nvrtc()
    options = options_of_cupy() + ["--gpu-architecture=compute_90", f"-I{CUDA}/include",
                                   f"-I{CUDA}/include/cccl"]
    result, log = compile_with(library, KERNEL, options)
    assert result == 0, log


def test_nvrtc_still_tells_errors():
    """The stand-ins hide no misuse."""
    library = nvrtc()
    options = options_of_cupy() + ["--gpu-architecture=compute_90", f"-I{CUDA}/include",
                                   f"-I{CUDA}/include/cccl"]
    result, log = compile_with(library, KERNEL.replace("gread(io", "greed(io"), options)
    assert result != 0 and "greed" in log


def test_folders_of_headers_exist():
    for folder in gpufs.include_directories():
        assert os.path.isdir(folder)
    first = pathlib.Path(gpufs.include_directories()[0])
    assert (first / "gpufs" / "io.hpp").exists() and (first / "gpufs" / "gpufs.h").exists()


@pytest.fixture
def lto_ir(tmp_path):
    """The device functions for numba-cuda, compiled as python/user-kernels.cmake does."""
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc")
    if not nvcc or subprocess.run([nvcc, "--version"], capture_output=True).returncode != 0:
        pytest.skip("no working nvcc")
    out = tmp_path / "device_calls.ltoir"
    done = subprocess.run(
        [nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-dc", "-ltoir", "-gencode",
         "arch=compute_80,code=lto_80", f"-I{SOURCES}/include", f"-I{SOURCES}",
         SOURCES / "python" / "src" / "device_calls.cu", "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_numba_and_the_functions_have_the_same_names(lto_ir):
    import gpufs.numba

    names = [n for n in gpufs.numba.__all__ if n != "address"]
    assert len(names) == 12
    text = (SOURCES / "python" / "src" / "device_calls.cu").read_text()
    assert set(re.findall(r"gpufs_(\w+)##suffix", text)) == {n for n in names if "_" not in n}
    library = nvrtc()
    arguments = {"gopen": "fs, fs, 0, 0", "gread": "fs, fd, fs, 1, 2", "gwrite": "fs, fd, fs, 1, 2"}
    types = {"int32": "int", "int64": "long long", "uint64": "unsigned long long"}
    code, calls = "", ""
    for name in ("gread", "gclose_warp"):  # all of them take half a minute
        result, taken = re.fullmatch(r"(\w+)\((.*)\)", gpufs.numba._SIGNATURES[
            name.removesuffix("_warp")]).groups()
        taken = ", ".join(types[t.strip()] for t in taken.split(","))
        code += f'extern "C" __device__ {types[result]} gpufs_{name}({taken});\n'
        calls += f"  *out += gpufs_{name}({arguments.get(name.removesuffix('_warp'), 'fs, fd')});\n"
    code += ('extern "C" __global__ void kernel(unsigned long long fs, int fd, long long* out) {\n'
             + calls + "}\n")
    caller = compile_to_lto_ir(library, code)
    cubin = link([caller, lto_ir.read_bytes()])
    assert b"kernel" in cubin and cubin[1:4] == b"ELF"
    with pytest.raises(AssertionError):  # the linker tells of names that nobody has
        link([caller])


def compile_to_lto_ir(library, code):
    """As numba-cuda has it: LTO-IR of a kernel that calls functions from elsewhere."""
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"caller.cu", 0, None,
                                      None) == 0
    options = (ctypes.c_char_p * 3)(b"-dlto", b"-rdc=true", b"--gpu-architecture=compute_90")
    assert library.nvrtcCompileProgram(program, 3, options) == 0
    size = ctypes.c_size_t()
    assert library.nvrtcGetLTOIRSize(program, ctypes.byref(size)) == 0
    out = ctypes.create_string_buffer(size.value)
    assert library.nvrtcGetLTOIR(program, out) == 0
    return out.raw


def link(parts):
    """Links LTO-IR to code for compute capability 9.0 by nvJitLink, which numba-cuda uses."""
    found = sorted(glob.glob(str(CUDA / "lib64" / "libnvJitLink.so*")))
    if not found:
        pytest.skip("no nvJitLink")
    library = ctypes.CDLL(found[0])
    major, minor = ctypes.c_uint(), ctypes.c_uint()
    assert library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor)) == 0

    def call(name, *arguments):
        return getattr(library, f"__nvJitLink{name}_{major.value}_{minor.value}")(*arguments)

    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 2)(b"-lto", b"-arch=sm_90")
    assert call("Create", ctypes.byref(handle), 2, options) == 0
    lto_ir_kind = 3
    for number, part in enumerate(parts):
        assert call("AddData", handle, lto_ir_kind, part, ctypes.c_size_t(len(part)),
                    b"part%d" % number) == 0
    result = call("Complete", handle)
    call("GetErrorLogSize", handle, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(1, size.value))
    call("GetErrorLog", handle, log)
    assert result == 0, log.value
    assert call("GetLinkedCubinSize", handle, ctypes.byref(size)) == 0
    cubin = ctypes.create_string_buffer(size.value)
    assert call("GetLinkedCubin", handle, cubin) == 0
    call("Destroy", ctypes.byref(handle))
    return cubin.raw


def test_numba_without_the_cuda_package_is_told():
    import gpufs.numba

    with pytest.raises(AttributeError, match="gwhat"):
        gpufs.numba.gwhat
    if gpufs.device_kind == "emulated":
        with pytest.raises(ImportError, match="CUDA package"):
            gpufs.numba.gread
