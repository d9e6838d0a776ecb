// What the public classes of shared memory share.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <memory>

namespace gpufs::shared {
class address_space;
}

namespace gpufs::owner {

/// Hands all objects of the address space to launches that declare nothing, from now on.
void watch_launches(std::shared_ptr<shared::address_space> const& space);

/// When the process ends by exit(), what is changed in objects with files is written back, and
/// nothing is read any more.
void write_back_at_exit();
/// The living address space that has the address, or null. Any thread calls, also of a child of
/// fork(), where there are none.
[[nodiscard]] std::shared_ptr<shared::address_space> space_at(void const* address) noexcept;

/// Bytes that one of the program's own copies names. They may be anybody's.
struct named_bytes {
  void const* first;
  std::uint64_t bytes;
};

/// To be kept while the program puts a copy on a stream by the device's own functions. The device
/// uses its own side of objects. So a source's newest bytes are sent to it first, and the target's
/// blocks are at home there afterwards. Launches meanwhile hand over nothing.
///
/// A target that is the source is only sent. Objects are those of the current device.
class shared_copy {
 public:
  /// Throws shared_memory_error, device_error.
  shared_copy(stream& on, named_bytes to, named_bytes from);
  ~shared_copy();
  shared_copy(shared_copy const&) = delete;
  shared_copy& operator=(shared_copy const&) = delete;

 private:
  struct implementation;
  std::unique_ptr<implementation> implementation_;
};

/// Whether bytes [first, first + bytes) lie in an object of `size` bytes.
inline bool lies_in(std::uint64_t first, std::uint64_t bytes, std::uint64_t size) {
  return first <= size && bytes <= size - first;
}

}  // namespace gpufs::owner
