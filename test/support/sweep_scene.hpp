// A small scenario on one file, for suites that run it again and again with another fault each
// time.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/filesystem.hpp>

#include <test/support/files.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::test {

/// What the fault of a run explains.
struct sweep_fault {
  virtual ~sweep_fault() = default;
  /// Whether it has happened.
  [[nodiscard]] virtual bool happened() const = 0;
  /// Whether a call may give `error`, a -errno, for it.
  [[nodiscard]] virtual bool explains(std::int64_t error) const = 0;
};

/// Settings of a small filesystem that is quick to make: `pages` of the scene fit it twice.
[[nodiscard]] config sweep_config();

/// The filesystem and the file of a scenario, and what the file must have in the end. Its calls are
/// those of kernels. They check their results.
struct sweep_scene {
  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t pages = 6;

  explicit sweep_scene(sweep_fault const& of_run) : fault(of_run) {}

  sweep_fault const& fault;
  scratch_folder folder;
  std::string path = make_file(folder, "file", pages* page);
  std::vector<std::byte> expected = pread_bytes(path, 0, ~0ull);
  /// As `expected`, but with the bytes of a write that failed: some of them may be written.
  std::vector<std::vector<std::byte>> perhaps;
  std::unique_ptr<filesystem> fs;
  std::size_t descriptors = 0;  ///< of the process, when the filesystem was made
  std::vector<int> opened;

  void make_filesystem(config const& c);

  /// The call gave what it should, or the fault explains its error.
  void check_result(std::int64_t got, std::int64_t wanted) const;
  /// Returns how many of `count` bytes a call was about that gave `got`: all of them, or fewer if
  /// the fault has happened, or none if the fault explains the error.
  [[nodiscard]] std::size_t check_bytes(std::int64_t got, std::uint64_t count) const;

  int open(int flags);
  /// The same by a call of the host. `fd`: its result.
  int opened_by_host(int fd);
  void close(int fd);
  /// Writes at `offset`, or appends. Returns whether all bytes were written.
  bool write(int fd, std::uint64_t seed, std::uint64_t offset, std::uint64_t count);
  void read(int fd, std::uint64_t offset = 0, std::uint64_t count = ~0ull);
  void sync(int fd);
  void truncate(int fd, std::uint64_t size);
  void unlink();

  /// Notes what became of a write of `bytes`, of which `acknowledged` are in the file.
  void put(std::uint64_t offset, std::vector<std::byte> const& bytes, std::size_t acknowledged);
  void resize(std::size_t size);
  /// Whether these bytes can be the file's from `offset` on.
  [[nodiscard]] bool holds(std::vector<std::byte> const& bytes, std::uint64_t offset = 0) const;

  /// Checks what must hold once the fault is over: no pins, locks or channels are left, an error
  /// that was not reported comes once, all acknowledged bytes arrive, the file can be opened and
  /// read, and no descriptor stays open.
  void check_afterwards();
};

}  // namespace gpufs::test
