// A list of greads that a kernel carries out, and the comparison of what they gave with what pread
// gives.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::test {

/// The callers of gread: whole threadblocks, or each 32-thread tile of them.
enum class caller_kind { block, tile };

/// One gread, as the kernel sees it.
struct read_op {
  std::int32_t fd;
  std::uint32_t reserved;
  std::int64_t offset;
  std::uint64_t count;
  std::uint64_t place;  ///< where its buffer starts in the output
  std::int64_t result;  ///< what gread returned
};

/// Collects greads, runs them, and says what was wrong with the results.
class read_batch {
 public:
  /// Adds a gread whose buffer lies `misalign` bytes (0..63) beyond a multiple of 64. pread of
  /// `file`, now, says what is expected.
  void add(int fd, std::string const& file, std::int64_t offset, std::uint64_t count,
           unsigned misalign = 0);

  /// Adds a gread that shall return `result`: 0, and leave its buffer as it was, or an error (then
  /// `count` is 1 MiB at most, and what the buffer holds afterwards is not looked at).
  void add_failing(int fd, std::int64_t offset, std::uint64_t count, std::int64_t result);

  /// Adds a gread that meets an error behind its first `there` bytes. Of at most 1 MiB; what its
  /// buffer holds behind them afterwards is not looked at.
  void add_cut(int fd, std::string const& file, std::int64_t offset, std::uint64_t count,
               std::uint64_t there);

  /// Carries all of them out, op i by caller i modulo the number of callers, and waits for the
  /// kernel.
  void run(fs_ref const& fs, unsigned blocks, unsigned threads,
           caller_kind who = caller_kind::block, stream* on = nullptr);

  /// run(), anew up to 20 times while something is wrong: a time-out that was too short for a slow
  /// host is no error. Returns problems().
  std::string run_patiently(fs_ref const& fs, unsigned blocks, unsigned threads);

  /// The two halves of run().
  void start(fs_ref const& fs, unsigned blocks, unsigned threads,
             caller_kind who = caller_kind::block, stream* on = nullptr);
  void finish(stream* on = nullptr);

  /// Empty if, in the last run, every gread returned what it should, wrote exactly those bytes, and
  /// none outside its buffer. Otherwise what was wrong first, and how many more greads were.
  [[nodiscard]] std::string problems() const;

  [[nodiscard]] std::vector<std::int64_t> results() const;
  [[nodiscard]] std::uint64_t bytes_expected() const;
  [[nodiscard]] std::size_t size() const { return ops_.size(); }

 private:
  struct expectation {
    std::int64_t result;
    std::vector<std::byte> bytes;
    std::uint64_t room;  // bytes between the guards: what a gread that ignores the end of the file
                         // would write, within reason
    std::uint64_t free;  // bytes between the guards that may hold anything afterwards
  };
  [[nodiscard]] std::string problem(std::size_t i) const;

  std::vector<read_op> ops_;
  std::vector<expectation> expected_;
  std::uint64_t output_bytes_ = 0;
  buffer<read_op> device_ops_;
  buffer<std::byte> output_;
  std::vector<read_op> done_;
  std::vector<std::byte> got_;
};

/// Runs the batch twice, the second time with the cache as the first has left it. Checks what the
/// greads gave, that no call failed or timed out, and the state that each run leaves behind.
void check_twice(filesystem& fs, read_batch& batch, unsigned blocks, unsigned threads,
                 caller_kind who);

}  // namespace gpufs::test
