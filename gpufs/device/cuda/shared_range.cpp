// Shared addresses on a GPU: one reservation of GPU addresses. The CPU's side is a memory file that
// is mapped over the same addresses, and elsewhere for the library.
#include <gpufs/base/above_stderr.hpp>
#include <gpufs/device/cuda/check.hpp>
#include <gpufs/device/cuda/reservation.hpp>
#include <gpufs/device/memory.hpp>
#include <gpufs/device/shared_range.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::device_memory {

namespace {

using cuda_device::check;

constexpr char remedy[] =
    "; lower address_space, or raise the limits on memory and files (ulimit -v, -f), or set "
    "backing = managed";

[[noreturn]] void fail(char const* what) {
  throw device_error(std::string("shared memory: ") + what + ": " + std::strerror(errno) + remedy);
}

/// A core file would have memory for every hole of it. A child of fork() would write to its
/// parent's objects, unseen.
void keep_from_others(std::byte* at, std::uint64_t bytes) {
  ::madvise(at, bytes, MADV_DONTDUMP);
  ::madvise(at, bytes, MADV_DONTFORK);
}

}  // namespace

shared_range::shared_range(std::uint64_t bytes, bool is_guarded) {
  check(cudaFree(nullptr), "cudaFree");  // makes the context, which the driver's calls need
  if (bytes == 0) return;
  implementation_ = std::make_unique<implementation>();
  auto& own = *implementation_;
  check(cudaGetDevice(&own.device), "cudaGetDevice");
  own.host_file = base::above_stderr(::memfd_create("gpufs shared, host", MFD_CLOEXEC));
  if (own.host_file < 0) fail("memfd_create");
  CUresult refused = CUDA_SUCCESS;
  for (bytes_ = bytes;; bytes_ = bytes_ / 2 / granularity * granularity) {
    errno = EFBIG;  // as ftruncate(2) would say
    if (bytes_ <= longest_file() && ::ftruncate(own.host_file, off_t(bytes_)) == 0 &&
        (refused = own.cuda.reserve(&own.reserved, bytes_, granularity, 0, 0)) == CUDA_SUCCESS) {
      void* const alias = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_NORESERVE, own.host_file, 0);
      if (alias != MAP_FAILED) {
        // A core file would have memory for every hole of it.
        ::madvise(alias, bytes_, MADV_DONTDUMP);
        base_ = reinterpret_cast<std::byte*>(own.reserved);
        device_ = is_guarded ? own.reserve_for_library(bytes_) : base_;
        host_ = static_cast<std::byte*>(alias);
        try {
          test_sides();
          return;
        } catch (...) {
          give_up_addresses();
          throw;
        }
      }
      own.cuda.release_addresses(own.reserved, bytes_);
    }
    if (bytes_ / 2 >= least_bytes) continue;
    own.cuda.expect(refused, "cuMemAddressReserve");
    fail("no addresses");
  }
}

shared_range::~shared_range() {
  if (implementation_ != nullptr && !cuda_device::in_forked_child()) give_up_addresses();
}

void shared_range::give_up_addresses() noexcept {
  ::munmap(host_, bytes_);
  // Frees what lies on the CPU's side, too. Objects have left mappings without access there.
  implementation_->cuda.release_addresses(implementation_->reserved, bytes_);
  if (auto const library = std::exchange(implementation_->library, 0); library != 0)
    implementation_->cuda.release_addresses(library, bytes_);
}

void shared_range::add_device(std::uint64_t at, std::uint64_t bytes, std::uint64_t zeros) {
  implementation_->add(at, bytes);
  try {
    if (zeros != 0) zero_device(device_ + at + bytes - zeros, zeros);
  } catch (...) {
    remove_device(at);
    throw;
  }
}

void shared_range::remove_device(std::uint64_t at) noexcept {
  auto const piece = [&] {
    std::lock_guard const lock(implementation_->mutex);
    return implementation_->pieces.extract(at);
  }();
  if (!piece.empty()) implementation_->remove(at, piece.mapped());
}

// CUDA looks at the CPU's pages as the CPU may use them.
bool shared_range::add_host(std::uint64_t at, std::uint64_t bytes, bool is_written) noexcept try {
  bytes = rounded_up(bytes, host_page);
  auto const kind = cudaHostRegisterMapped | (is_written ? 0u : unsigned{cudaHostRegisterReadOnly});
  if (is_written && protect(at, bytes, host_access::read_write) != 0) return false;
  {
    std::lock_guard const lock(implementation_->mutex);
    implementation_->host_pieces.emplace(at, bytes);
  }
  void* address = nullptr;
  bool const is_known = cudaHostRegister(base_ + at, bytes, kind) == cudaSuccess;
  if (is_known && cudaHostGetDevicePointer(&address, base_ + at, 0) == cudaSuccess &&
      address == base_ + at)
    return true;
  if (is_known) cudaHostUnregister(base_ + at);
  cudaGetLastError();
  std::lock_guard const lock(implementation_->mutex);
  implementation_->host_pieces.erase(at);
  return false;
} catch (std::bad_alloc const&) {
  return false;
}

void shared_range::remove_host(std::uint64_t at) noexcept {
  {
    std::lock_guard const lock(implementation_->mutex);
    if (implementation_->host_pieces.erase(at) == 0) return;
  }
  if (cudaHostUnregister(base_ + at) != cudaSuccess) cudaGetLastError();
}

void shared_range::attach(std::uint64_t at, std::uint64_t bytes) {
  if (::mmap(base_ + at, rounded_up(bytes, host_page), PROT_READ, MAP_SHARED | MAP_FIXED,
             implementation_->host_file, off_t(at)) == MAP_FAILED)
    fail("mmap");
  keep_from_others(base_ + at, rounded_up(bytes, host_page));
}

void shared_range::attach_file(std::uint64_t at, std::uint64_t bytes, int fd,
                               std::uint64_t file_offset) {
  set_host_side(at, bytes, fd, file_offset);
}

void shared_range::set_host_side(std::uint64_t at, std::uint64_t bytes, int fd,
                                 std::uint64_t file_offset) {
  std::uint64_t const length = rounded_up(bytes, host_page);
  bool const is_file = fd >= 0;
  int const from = is_file ? fd : implementation_->host_file, to = is_file ? PROT_READ : PROT_NONE;
  auto const offset = off_t(is_file ? file_offset : at);
  auto const map_host = [&](int file, off_t first, int protection) {
    bool const is_done = ::mmap(host_ + at, length, protection,
                                MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, first) != MAP_FAILED;
    if (is_done) ::madvise(host_ + at, length, MADV_DONTDUMP);
    return is_done;
  };
  constexpr int both = PROT_READ | PROT_WRITE;
  if (!map_host(from, offset, is_file ? PROT_READ : both)) fail("mmap");
  if (::mmap(base_ + at, length, to, MAP_SHARED | MAP_FIXED, from, offset) == MAP_FAILED) {
    int const error = errno;
    if (is_file) map_host(implementation_->host_file, off_t(at), both);  // needs no more mappings
    errno = error;
    fail("mmap");
  }
  // Memory of zeros may follow. What cannot be given back is cleared then.
  implementation_->give_back(is_file ? nullptr : host_, at, length);
  if (!is_file) keep_from_others(base_ + at, length);
}

void shared_range::detach(std::uint64_t at, std::uint64_t bytes) noexcept {
  auto& own = *implementation_;
  std::uint64_t const room = rounded_up(bytes, granularity);
  // Registered memory is given up while it is there.
  while (auto const piece = own.first_of(own.host_pieces, at, room)) remove_host(*piece);
  // Not a bare munmap: another thread's mapping could move in.
  ::mmap(base_ + at, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
         0);
  while (auto const piece = own.first_of(own.pieces, at, room)) remove_device(*piece);
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

std::vector<std::pair<std::uint64_t, std::uint64_t>> shared_range::host_data(
    std::uint64_t at, std::uint64_t bytes) const {
  return data_of(implementation_->host_file, at, bytes);
}

void shared_range::drop_host(std::uint64_t at, std::uint64_t bytes) noexcept {
  implementation_->give_back(host_, at, bytes);
}

// CPU and GPU have page tables of their own.
void shared_range::begin_use(std::uint64_t, std::uint64_t, bool) {}
bool shared_range::end_use(std::uint64_t, std::uint64_t) noexcept { return true; }

}  // namespace gpufs::device_memory
