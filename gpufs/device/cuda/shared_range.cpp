// Shared addresses on a GPU: one reservation of GPU addresses. The CPU's side is a memory file that
// is mapped over the same addresses, and elsewhere for the library.
#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/memory.hpp>
#include <gpufs/device/shared_range.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::device_memory {

namespace {

using cuda_device::check;

constexpr char remedy[] = "; lower address_space, or raise the limits on memory (ulimit -v)";

[[noreturn]] void fail(char const* what) {
  throw device_error(std::string("shared memory: ") + what + ": " + std::strerror(errno) + remedy);
}

/// A function of the driver. Programs are not linked with the driver's library, so that they start
/// where there is none.
template <class Function>
Function* driver_function(char const* name) {
  void* found = nullptr;
  auto status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned version = 12000;  // of the functions below
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status),
        "cudaGetDriverEntryPointByVersion");
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status),
        "cudaGetDriverEntryPoint");
#endif
  if (status != cudaDriverEntryPointSuccess || found == nullptr)
    throw device_error(std::string("shared memory: the driver has no ") + name +
                       "; it must be of CUDA 12 or later");
  return reinterpret_cast<Function*>(found);
}

struct driver {
  decltype(cuMemAddressReserve)* reserve =
      driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(cuMemAddressFree)* release_addresses =
      driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree");
  decltype(cuMemCreate)* create = driver_function<decltype(cuMemCreate)>("cuMemCreate");
  decltype(cuMemRelease)* release = driver_function<decltype(cuMemRelease)>("cuMemRelease");
  decltype(cuMemMap)* map = driver_function<decltype(cuMemMap)>("cuMemMap");
  decltype(cuMemUnmap)* unmap = driver_function<decltype(cuMemUnmap)>("cuMemUnmap");
  decltype(cuMemSetAccess)* set_access =
      driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");
  decltype(cuGetErrorName)* error_name =
      driver_function<decltype(cuGetErrorName)>("cuGetErrorName");

  void expect(CUresult result, char const* call) const {
    if (result == CUDA_SUCCESS) return;
    char const* name = nullptr;
    error_name(result, &name);
    throw device_error(std::string("shared memory: ") + call + ": " +
                       (name != nullptr ? name : "an unknown error") +
                       "; free GPU memory, or lower device_memory");
  }
};

}  // namespace

struct shared_range::implementation {
  driver const cuda;
  int device = 0;
  int host_file = -1;
  CUdeviceptr reserved = 0;
  std::mutex mutex;
  std::map<std::uint64_t, CUmemGenericAllocationHandle> chunks;  ///< by offset; needs the mutex

  void attach_device(std::uint64_t at, std::uint64_t room);

  /// The next object here has zeros.
  void give_back(std::byte* host, std::uint64_t at, std::uint64_t length) const noexcept {
    if (::fallocate(host_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(at),
                    off_t(length)) != 0)
      std::memset(host + at, 0, length);
  }
  ~implementation() {
    if (host_file >= 0) ::close(host_file);
  }
};

shared_range::shared_range(std::uint64_t bytes) {
  check(cudaFree(nullptr), "cudaFree");  // makes the context, which the driver's calls need
  implementation_ = std::make_unique<implementation>();
  auto& own = *implementation_;
  check(cudaGetDevice(&own.device), "cudaGetDevice");
  own.host_file = ::memfd_create("gpufs shared, host", MFD_CLOEXEC);
  if (own.host_file < 0) fail("memfd_create");
  CUresult refused = CUDA_SUCCESS;
  for (bytes_ = bytes;; bytes_ = bytes_ / 2 / granularity * granularity) {
    if (bytes_ <= longest_file() && ::ftruncate(own.host_file, off_t(bytes_)) == 0 &&
        (refused = own.cuda.reserve(&own.reserved, bytes_, granularity, 0, 0)) == CUDA_SUCCESS) {
      void* const alias = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_NORESERVE, own.host_file, 0);
      if (alias != MAP_FAILED) {
        // A core file would have memory for every hole of it.
        ::madvise(alias, bytes_, MADV_DONTDUMP);
        base_ = device_ = reinterpret_cast<std::byte*>(own.reserved);
        host_ = static_cast<std::byte*>(alias);
        return;
      }
      own.cuda.release_addresses(own.reserved, bytes_);
    }
    if (bytes_ / 2 >= least_bytes) continue;
    own.cuda.expect(refused, "cuMemAddressReserve");
    fail("no addresses");
  }
}

shared_range::~shared_range() {
  if (cuda_device::in_forked_child()) return;
  ::munmap(host_, bytes_);
  // Frees what lies on the CPU's side, too. Objects have left mappings without access there.
  implementation_->cuda.release_addresses(implementation_->reserved, bytes_);
}

void shared_range::implementation::attach_device(std::uint64_t at, std::uint64_t room) {
  auto& own = *this;
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = own.device};
  CUmemGenericAllocationHandle chunk = 0;
  own.cuda.expect(own.cuda.create(&chunk, room, &where, 0), "cuMemCreate");
  CUresult result = own.cuda.map(own.reserved + at, room, 0, chunk, 0);
  if (result != CUDA_SUCCESS) {
    own.cuda.release(chunk);
    own.cuda.expect(result, "cuMemMap");
  }
  {
    std::lock_guard const lock(own.mutex);
    own.chunks.emplace(at, chunk);  // detach() frees it from here on
  }
  CUmemAccessDesc access{};
  access.location = where.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  own.cuda.expect(own.cuda.set_access(own.reserved + at, room, &access, 1), "cuMemSetAccess");
}

void shared_range::attach(std::uint64_t at, std::uint64_t bytes) {
  std::uint64_t const room = rounded_up(bytes, granularity);
  implementation_->attach_device(at, room);
  zero_device(device_ + at, room);
  if (::mmap(base_ + at, rounded_up(bytes, host_page), PROT_READ, MAP_SHARED | MAP_FIXED,
             implementation_->host_file, off_t(at)) == MAP_FAILED)
    fail("mmap");
  ::madvise(base_ + at, rounded_up(bytes, host_page), MADV_DONTDUMP);
}

void shared_range::attach_file(std::uint64_t at, std::uint64_t bytes, int fd,
                               std::uint64_t file_offset) {
  std::uint64_t const room = rounded_up(bytes, granularity);
  implementation_->attach_device(at, room);
  // The file fills the rest. Behind its end there are zeros.
  std::uint64_t const last = room - granularity;
  zero_device(device_ + at + last, granularity);
  set_host_side(at, bytes, fd, file_offset);
}

void shared_range::set_host_side(std::uint64_t at, std::uint64_t bytes, int fd,
                                 std::uint64_t file_offset) {
  std::uint64_t const length = rounded_up(bytes, host_page);
  bool const is_file = fd >= 0;
  int const from = is_file ? fd : implementation_->host_file;
  auto const offset = off_t(is_file ? file_offset : at);
  if (is_file) implementation_->give_back(host_, at, length);  // memory of zeros may follow
  int const protection = is_file ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::mmap(host_ + at, length, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, from,
             offset) == MAP_FAILED ||
      ::mmap(base_ + at, length, PROT_READ, MAP_SHARED | MAP_FIXED, from, offset) == MAP_FAILED)
    fail("mmap");
  if (is_file) return;
  ::madvise(host_ + at, length, MADV_DONTDUMP);
  ::madvise(base_ + at, length, MADV_DONTDUMP);
}

void shared_range::detach(std::uint64_t at, std::uint64_t bytes) noexcept {
  auto& own = *implementation_;
  std::uint64_t const room = rounded_up(bytes, granularity);
  // Not a bare munmap: another thread's mapping could move in.
  ::mmap(base_ + at, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
         0);
  auto const chunk = [&] {
    std::lock_guard const lock(own.mutex);
    return own.chunks.extract(at);
  }();
  if (!chunk.empty()) {
    own.cuda.unmap(own.reserved + at, room);
    own.cuda.release(chunk.mapped());
  }
  ::mmap(host_ + at, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
         own.host_file, off_t(at));  // there may be a file
  ::madvise(host_ + at, room, MADV_DONTDUMP);
  own.give_back(host_, at, room);
}

int shared_range::protect(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept {
  return ::mprotect(base_ + at, bytes, protection_for(to)) == 0 ? 0 : errno;
}

// By the library's own address: CUDA takes the shared one for device memory.
bool shared_range::pin(std::uint64_t at, std::uint64_t bytes) noexcept {
  if (cudaHostRegister(host_ + at, rounded_up(bytes, host_page), cudaHostRegisterDefault) ==
      cudaSuccess)
    return true;
  cudaGetLastError();
  return false;
}

void shared_range::unpin(std::uint64_t at) noexcept {
  if (cudaHostUnregister(host_ + at) != cudaSuccess) cudaGetLastError();
}

void shared_range::populate(std::uint64_t at, std::uint64_t bytes) noexcept {
#if defined(MADV_POPULATE_READ)
  // Pages of memory files may be written as soon as the protection says so. Older systems refuse.
  ::madvise(base_ + at, rounded_up(bytes, host_page), MADV_POPULATE_READ);
#endif
}

// CPU and GPU have page tables of their own.
void shared_range::begin_use(std::uint64_t, std::uint64_t, bool) {}
bool shared_range::end_use(std::uint64_t, std::uint64_t) noexcept { return true; }

bool is_captured(stream& on) {
  auto status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(on.native(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::uint64_t free_device_bytes() {
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free;
}

bool in_kernel() noexcept { return false; }

}  // namespace gpufs::device_memory
