// Sequences of file calls carried out by kernels, for suites that write.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <test/support/reads.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::test {

enum class call : std::uint32_t { read, write, sync, truncate, close, size };

/// One call, as the kernel sees it.
struct file_op {
  call what;
  std::int32_t fd;
  std::int64_t offset;  ///< truncate: the size
  std::uint64_t count;
  std::uint64_t place;  ///< where its buffer starts
  std::int64_t result;
  std::uint32_t caller;
  std::uint32_t reserved;
};

/// Collects calls, runs them, keeps their results. Each caller carries out its own in order;
/// callers run side by side.
class op_batch {
 public:
  /// All return the number of the call. write: `bytes` may lie misaligned.
  std::size_t write(unsigned caller, int fd, std::int64_t offset,
                    std::vector<std::byte> const& bytes, unsigned misalign = 0);
  std::size_t read(unsigned caller, int fd, std::int64_t offset, std::uint64_t count,
                   unsigned misalign = 0);
  std::size_t sync(unsigned caller, int fd) { return add({call::sync, fd, 0, 0, 0, 0, caller, 0}); }
  std::size_t truncate(unsigned caller, int fd, std::int64_t size) {
    return add({call::truncate, fd, size, 0, 0, 0, caller, 0});
  }
  std::size_t close(unsigned caller, int fd) {
    return add({call::close, fd, 0, 0, 0, 0, caller, 0});
  }
  std::size_t size_of(unsigned caller, int fd) {
    return add({call::size, fd, 0, 0, 0, 0, caller, 0});
  }

  void run(fs_ref const& fs, unsigned blocks, unsigned threads,
           caller_kind who = caller_kind::block);
  void start(fs_ref const& fs, unsigned blocks, unsigned threads,
             caller_kind who = caller_kind::block);
  void finish();

  [[nodiscard]] std::int64_t result(std::size_t op) const { return done_[op].result; }
  /// What a read delivered.
  [[nodiscard]] std::vector<std::byte> bytes(std::size_t op) const;
  [[nodiscard]] std::size_t size() const { return ops_.size(); }
  void clear();

 private:
  std::size_t add(file_op const& op);
  std::uint64_t room(std::uint64_t count, unsigned misalign);

  std::vector<file_op> ops_, done_;
  std::vector<std::byte> memory_, after_;
  buffer<file_op> device_ops_;
  buffer<std::byte> device_memory_;
};

/// Bytes that depend on `seed` and their place in the file only.
[[nodiscard]] std::vector<std::byte> some_bytes(std::uint64_t seed, std::uint64_t offset,
                                                std::uint64_t count);

}  // namespace gpufs::test
