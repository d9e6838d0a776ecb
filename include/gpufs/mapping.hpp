// Memory that CPU and GPU share: one pointer that is valid on both, for kernels that know nothing
// of gpufs (ADSM). docs/mapping.md says who sees what when.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping_options.hpp>
#include <gpufs/mapping_settings.hpp>
#include <gpufs/mapping_statistics.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpufs {

namespace shared {
class address_space;
struct object;
}  // namespace shared
namespace detail {
class window_loop;
}

/// Bytes of an object.
struct byte_range {
  std::uint64_t first;  ///< offset in the object
  std::uint64_t bytes;  ///< how many
};

/// One object: a range of addresses that CPU and GPU both use. Owns it.
///
/// The CPU reads and writes through data() as it likes between calls; kernels do so through the
/// same address. A moved-from or empty mapping may only be destroyed or assigned to.
class mapping {
 public:
  mapping() = default;
  /// As unmap(), but failures go to stderr.
  ~mapping();
  /// Takes over the object. The other is empty afterwards.
  mapping(mapping&& other) noexcept
      : space_(std::move(other.space_)), object_(std::exchange(other.object_, nullptr)) {}
  /// Unmaps the former object as the destructor does.
  mapping& operator=(mapping&& other) noexcept;

  [[nodiscard]] void* data() const;          ///< the first byte, for CPU and GPU; null: it is empty
  [[nodiscard]] std::uint64_t size() const;  ///< bytes of the object
  /// data() as a pointer to T, for the CPU and for kernels.
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data());
  }

  /// Makes bytes [first, first + bytes) ready for `use` by the CPU now instead of by faults. They
  /// stay ready until a call uses bytes of their chunk, or they are written back. Waits for calls
  /// that may write them. Any host thread calls.
  ///
  /// access::write promises that all of these bytes will be written: what they were is lost.
  /// Returns 0, or
  ///   -EINVAL not all of them lie in the object | -EIO the device failed
  ///   -EACCES the object is only read | -EIO, -ESTALE, -errno its file could not be read
  ///   -ENOMEM no host memory, or no more mappings (vm.max_map_count) | -ECANCELED exit() has begun
  int acquire(std::uint64_t first, std::uint64_t bytes, access use);

  /// Says where the chunks of bytes [first, first + bytes) should lie, from the next launch on. Any
  /// host thread calls. Returns 0, or -EINVAL as acquire().
  int advise(std::uint64_t first, std::uint64_t bytes, memory_advice advice);

  /// Bytes of the object's chunks in each tier.
  [[nodiscard]] memory_tiers tiers() const;

  /// Sends what the CPU has written of bytes [first, first + bytes), so that the next launch need
  /// not. Any host thread calls. Returns 0, -EINVAL, -ENOMEM or -EIO as acquire().
  int prefetch_to_device(std::uint64_t first, std::uint64_t bytes);

  /// Writes to the file what kernels and the CPU have changed in bytes [first, first + bytes), by
  /// pages of 4 KiB, and makes it durable. Waits for calls that may write them. Any host thread
  /// calls. Objects without a file and scratch objects: does nothing.
  ///
  /// If fdatasync(2) fails, the disk may have lost bytes. Those that have not left memory are
  /// written again by the next call. For others every call returns that error, until discard().
  ///
  /// Returns 0, or the first error, once. What could not be written stays for the next call:
  ///   -EINVAL not all of them lie in the object | -EIO the device or the disk failed
  ///   -ENOSPC | -EDQUOT | -EFBIG | -ENOMEM | -errno as pread(2), pwrite(2) or fdatasync(2)
  int sync(std::uint64_t first, std::uint64_t bytes);
  /// The same for all bytes. Returns as that.
  int sync();

  /// As sync(), but the bytes need not be durable. Returns as that.
  int write_back();

  /// Lets later calls and touches see what others have written to the file. Blocks that a call or
  /// the CPU may have changed since they were written back stay. Scratch objects: does nothing.
  ///
  /// Stores of others through mmap(2) count as soon as they are synced. Objects of access::write
  /// see others' changes only where they have written back themselves. May wait for kernels if the
  /// object is only read and has bytes in memory_tiers::host. Returns 0, or
  ///   -EBUSY a call uses the object | -ESTALE the file became shorter | -EIO | -errno as fstat(2)
  ///   -ENOMEM no host memory or no more mappings
  ///   -EOPNOTSUPP managed memory of an object that is written
  int refresh();

  /// Drops what was changed and not written back. Later calls and touches see the file as with
  /// refresh(), scratch objects have zeros. Returns as refresh().
  int discard();

  /// As sync(), and changes how the object is used from now on. The address and the bytes of the
  /// file stay. If the object is used so already: as write_back(). Returns 0, as sync() or
  /// refresh(), or
  ///   -EINVAL an anonymous or scratch object | -EBUSY another object writes to it, or it was
  ///   written meanwhile | -EOPNOTSUPP managed memory | -EACCES, ... as open(2)
  int remap(access use);

  /// The errors of the file so far, with its path and the offset, a line each.
  [[nodiscard]] std::vector<std::string> errors() const;

  /// Parts of the object that may differ from the file, by blocks. First those that were refused.
  [[nodiscard]] std::vector<byte_range> unwritten() const;

  /// Frees the object after the calls that use it have ended, and writes back what was changed. No
  /// CPU thread uses it any more. The mapping is empty afterwards, also if it fails.
  /// Returns 0, -EIO the device failed, or as write_back(). What was not written then is lost.
  int unmap();

  /// Counters of this object.
  [[nodiscard]] mapping_statistics stats() const;

 private:
  friend class shared_memory;
  friend class shared_call;
  friend class detail::window_loop;
  mapping(std::shared_ptr<shared::address_space> space, shared::object& what)
      : space_(std::move(space)), object_(&what) {}

  std::shared_ptr<shared::address_space> space_;
  shared::object* object_ = nullptr;
};

/// Most bytes that one I/O call of a shared_memory moves, as with Linux's read(2).
inline constexpr std::uint64_t most_io_bytes = 0x7ffff000;

/// An object and the offset of an address in it.
struct shared_place {
  void* object;          ///< its first byte
  std::uint64_t offset;  ///< of the address in the object
  std::uint64_t size;    ///< of the object
};

/// An address space of objects on one device. Any host thread calls its members.
///
/// While it lives, gpufs catches SIGSEGV, unless its setting is managed memory. Faults outside of
/// its objects go to the handler that was there before. Plain launches by gpufs::launch() use all
/// objects of all address spaces.
///
/// In a child of fork() objects cannot be used, and the destructors do nothing. read(), copy() and
/// the like return -EFAULT there; but with addresses of managed memory, which they do not know
/// there, they may end the child.
///
/// The service thread allocates memory: a signal handler that interrupts malloc() or a call of CUDA
/// and then waits for bytes of an object may wait for ever.
class shared_memory {
 public:
  /// Without settings: those of gpufs.toml and the environment.
  /// Throws config_error for bad settings. Throws device_error, with the remedy, if the device or
  /// the system has no such memory.
  explicit shared_memory(mapping_config const& settings = load_mapping_config());

  /// The addresses stay reserved until the last of its mappings has gone, too.
  ~shared_memory();
  shared_memory(shared_memory const&) = delete;
  shared_memory& operator=(shared_memory const&) = delete;

  /// Makes an object of `bytes` zeros. No bytes move.
  /// Throws shared_memory_error (EINVAL for 0 bytes, ENOMEM, EIO in a child of fork()),
  /// config_error for bad options.
  [[nodiscard]] mapping allocate(std::uint64_t bytes, map_options const& options = {});

  /// Makes an object of bytes of a file, which are read when a call or a CPU thread needs them, or
  /// from now on (map_options::eager). Managed memory: now.
  ///
  /// A process has one writable object of a file at a time. Other processes see what is written
  /// back, and this object sees what they write before its bytes are read, or after refresh().
  ///
  /// In a child of fork() it throws shared_memory_error (EIO).
  ///
  /// Throws config_error for bad options, and shared_memory_error with the path:
  ///   EINVAL no bytes, bad offset, zero byte in path, beyond the end | EBUSY has a writable object
  ///   ENOMEM | ENOSPC | EISDIR, EOPNOTSUPP no regular file | EACCES, ... as open(2), pread(2)
  [[nodiscard]] mapping map(std::string const& path, map_options const& options = {});
  /// The same for the file behind an open descriptor, which may be closed then. EBADF: it is not
  /// open.
  [[nodiscard]] mapping map(int fd, map_options const& options = {});

  /// Waits for everything that was launched on the device, and makes the CPU's side ready as the
  /// protocols say: batch objects are fetched. Throws device_error if a kernel failed.
  void synchronize();

  /// Waits for the work of `on` so far, and does the same for objects that no call uses any more.
  void synchronize(stream& on);

  /// As read(2), where the memory is an object's: bytes move
  /// between the file and the side that has the newest bytes, without faults. It waits for calls
  /// that use these bytes. Other memory is passed on to the system.
  ///
  /// At most most_io_bytes at once. Pipes, sockets and terminals: 4 MiB. Not in signal handlers.
  /// Returns the number of bytes, which may be less, 0: the end of the file, or
  ///   -EFAULT the memory is not all of one object | -EACCES the object is only read
  ///   -ENOMEM no memory can be pinned, or the system has no more mappings
  ///   -EIO the device failed, so that bytes are lost | -errno as the system call
  ///   -ESTALE, -errno bytes of the object's own file could not be read
  /// A failure behind the first bytes: their number. What a pipe gave before -EIO is lost. If the
  /// memory cannot be had, nothing is read: the position stays, and so do a pipe's bytes.
  ///
  /// Parts of 32 MiB and more of a file are read by mapping_config::fill_threads threads. If fewer
  /// bytes are returned, the memory behind them may have changed.
  std::int64_t read(int fd, void* to, std::uint64_t bytes);
  /// As pread(2), else as read(). Returns as that.
  std::int64_t pread(int fd, void* to, std::uint64_t bytes, std::uint64_t offset);
  /// As write(2), else as read(). Returns as that. The object may be one that is only read.
  std::int64_t write(int fd, void const* from, std::uint64_t bytes);
  /// As pwrite(2), else as write(). Returns as that.
  std::int64_t pwrite(int fd, void const* from, std::uint64_t bytes, std::uint64_t offset);

  /// As memmove(), with objects on one side or on both, in the same way. Returns 0, or an error as
  /// read(). A failure may leave a part of the bytes done.
  int copy(void* to, void const* from, std::uint64_t bytes);
  /// As memset(), else as copy(). Returns as that.
  int set(void* to, int value, std::uint64_t bytes);

  /// The object that an address lies in. Its object member is null if it lies in none.
  [[nodiscard]] shared_place find(void const* address) const;

  /// Bytes of all chunks in each tier.
  [[nodiscard]] memory_tiers tiers() const;
  /// Counters of all objects, also of those that have gone.
  [[nodiscard]] mapping_statistics stats() const;

  /// What this address space could not have as its settings say, a line each.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  friend class shared_call;
  friend class detail::window_loop;
  std::shared_ptr<shared::address_space> space_;
};

}  // namespace gpufs

#include <gpufs/shared_call.hpp>
