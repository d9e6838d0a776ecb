// Addresses that are valid on the CPU and on the device, with memory of their own on each side. One
// implementation per device.
#pragma once

#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/types.h>

namespace gpufs::device_memory {

/// The unit of protections.
inline constexpr std::uint64_t host_page = 4096;

/// The next multiple of `unit`.
constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// What the CPU may do with bytes at their shared address.
enum class host_access { none, read, read_write };

/// The same for mprotect() and mmap().
constexpr int protection_for(host_access what) {
  return what == host_access::none   ? PROT_NONE
         : what == host_access::read ? PROT_READ
                                     : PROT_READ | PROT_WRITE;
}

/// What kernels may do with the device's bytes at their shared address.
enum class device_access { read, read_write };

/// A reservation of addresses. Bytes are named by their offset in it.
///
/// GPU: CPU and device have page tables of their own, so a kernel and a CPU thread that use one
/// address use different memory. Emulated: both use the CPU's page tables. While a call uses bytes,
/// the device's memory lies at their address (begin_use(), end_use()).
///
/// Callers see to it that calls for overlapping bytes do not run side by side.
class shared_range {
 public:
  /// The unit in which memory is attached.
  static constexpr std::uint64_t granularity = 2 << 20;

  /// Least addresses that are worth having.
  static constexpr std::uint64_t least_bytes = 64ull << 30;

  /// More addresses than a process has.
  static constexpr std::uint64_t all_addresses = 1ull << 47;

  /// Reserves `bytes` of addresses, or, if they are refused, half of them and so on, down to
  /// least_bytes. Throws device_error with the remedy. With 0 bytes: reserves nothing.
  /// `is_guarded`: set_device_access() will be called. GPU: the library then reaches the device's
  /// bytes at addresses of their own, as it always does on the emulated device.
  shared_range(std::uint64_t bytes, bool is_guarded);
  ~shared_range();
  shared_range(shared_range const&) = delete;
  shared_range& operator=(shared_range const&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Any address has an offset, modulo 2^64. Those from bytes() on are of other memory, which is
  /// one for both sides: it only has address_of(), host_bytes() and device_bytes(), all the same.
  [[nodiscard]] bool has(std::uint64_t at) const { return at < bytes_; }
  [[nodiscard]] std::uint64_t offset_of(void const* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_);
  }
  [[nodiscard]] std::byte* address_of(std::uint64_t at) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base_) + at);
  }

  /// Gives the CPU's side of [at, at + bytes) memory of zeros, which the CPU may read. `at` is a
  /// multiple of granularity. Throws device_error.
  void attach(std::uint64_t at, std::uint64_t bytes);

  /// The same, but the CPU's side is bytes of a file from `file_offset` on, a multiple of
  /// host_page. The CPU may read them. Nobody may be allowed to write. Throws device_error.
  void attach_file(std::uint64_t at, std::uint64_t bytes, int fd, std::uint64_t file_offset);

  /// The CPU's side of attached bytes becomes bytes of a file, as attach_file() has it, or, if
  /// fd < 0, memory of zeros with which the CPU may do nothing until protect(). No call uses them,
  /// they are not pinned, and add_host() does not hold there. Throws device_error.
  void set_host_side(std::uint64_t at, std::uint64_t bytes, int fd, std::uint64_t file_offset);

  /// Takes all memory away. The device does not use it any more.
  void detach(std::uint64_t at, std::uint64_t bytes) noexcept;

  /// Gives the device memory of its own for attached bytes. Both numbers are multiples of
  /// granularity. The last `zeros` bytes of it are zeros, others may be anything. Throws
  /// device_error: the device has no more.
  void add_device(std::uint64_t at, std::uint64_t bytes, std::uint64_t zeros);

  /// Sets what kernels may do with memory that was added at `at`, which no call uses. They may do
  /// everything at first. Returns false if the driver refuses. Emulated: begin_use() says it.
  [[nodiscard]] bool set_device_access(std::uint64_t at, device_access to) noexcept;
  /// Why kernels may store everywhere, although the range is guarded, or nothing.
  [[nodiscard]] std::string why_not_guarded() const;

  /// Takes that memory away, as it was added. GPU: may wait for kernels.
  void remove_device(std::uint64_t at) noexcept;

  /// Lets the device use the CPU's side of attached bytes, over the bus and at the same addresses.
  /// It has no memory of its own there. `is_written`: kernels may store to them, and the CPU may
  /// read and write them until protect(). Else they are bytes of a file.
  /// Returns false if the system or the device refuses.
  [[nodiscard]] bool add_host(std::uint64_t at, std::uint64_t bytes, bool is_written) noexcept;

  /// Ends that, as it was added. GPU: may wait for kernels.
  void remove_host(std::uint64_t at) noexcept;

  /// The parts of the CPU's side that have memory, from the begin of the reservation. Others are
  /// zeros. Not of files. `bytes` > 0.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> host_data(
      std::uint64_t at, std::uint64_t bytes) const;

  /// Gives the memory of the CPU's side of these bytes back. They are zeros then. Not of files.
  void drop_host(std::uint64_t at, std::uint64_t bytes) noexcept;

  /// Sets what the CPU may do. Both numbers are multiples of 4096. Returns 0, or ENOMEM: the system
  /// has no more mappings (vm.max_map_count).
  [[nodiscard]] int protect(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept;

  /// Where the library reaches the CPU's bytes, whatever the CPU may do at the shared address.
  [[nodiscard]] std::byte* host_bytes(std::uint64_t at) const {
    return has(at) ? host_ + at : address_of(at);
  }

  /// Makes copies of these bytes fast: the system keeps their host memory where it is, and the
  /// device reads it by itself. One copy lies in bytes that one call pinned, or in others only.
  /// Returns false if the system refuses. Emulated: does nothing.
  [[nodiscard]] bool pin(std::uint64_t at, std::uint64_t bytes) noexcept;

  /// Before detach(). GPU: may wait for kernels.
  void unpin(std::uint64_t at) noexcept;

  /// Gives the bytes memory that the CPU then writes to without a fault for each page, if it may
  /// read them. Emulated: does nothing, as pages are not pinned there.
  void populate(std::uint64_t at, std::uint64_t bytes) noexcept;

  /// What copies name as the device's bytes.
  [[nodiscard]] std::byte* device_bytes(std::uint64_t at) const {
    return has(at) ? device_ + at : address_of(at);
  }

  /// Emulated: the CPU reaches the device's bytes while a call uses them. GPU: never.
  /// GPUFS_SEPARATE_SIDES: a test's build, in which it does not either. There kernels get
  /// device_bytes() instead of shared addresses.
#if defined(GPUFS_EMULATED) && !defined(GPUFS_SEPARATE_SIDES)
  static constexpr bool hands_over = true;
#else
  static constexpr bool hands_over = false;
#endif

  /// A call uses the bytes from now on; kernels may store to them if `writes`. Multiples of 4096.
  /// GPU: does nothing. Throws device_error: also if the device has no memory there.
  void begin_use(std::uint64_t at, std::uint64_t bytes, bool writes);

  /// No call uses the bytes any more. Emulated: the CPU may do nothing with them until protect().
  /// Returns false if the system has no more mappings: the device's bytes lie there still.
  [[nodiscard]] bool end_use(std::uint64_t at, std::uint64_t bytes) noexcept;

 private:
  // GPU.
  void test_sides();
  void give_up_addresses() noexcept;

  struct implementation;
  std::unique_ptr<implementation> implementation_;
  std::byte* reserved_ = nullptr;
  std::byte* base_ = nullptr;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Whether launches on the stream are recorded for later (CUDA graphs).
[[nodiscard]] bool is_captured(stream& on);

/// The parts of [at, at + bytes) of a file that are no holes: first byte, and the one behind.
[[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> data_of(int file,
                                                                           std::uint64_t at,
                                                                           std::uint64_t bytes);

/// Bytes of device memory that are free.
[[nodiscard]] std::uint64_t free_device_bytes();

/// The longest file that this process may make. Longer ones would end it by a signal.
[[nodiscard]] std::uint64_t longest_file();

/// True in a thread that runs a kernel. GPU: never.
[[nodiscard]] bool in_kernel() noexcept;
/// The kernel that this thread runs fails, as by an illegal access, and the thread does not go on.
/// Safe in the handler of the access. GPU: does nothing, as the device sees to that.
void fail_kernel(char const* why) noexcept;
/// Whether the thread with this number of the system runs kernels and nothing else. GPU: none does.
[[nodiscard]] bool runs_kernels(pid_t thread) noexcept;

}  // namespace gpufs::device_memory
