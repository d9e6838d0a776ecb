// Rows of `gpufs bench nvme` that read block files through a filesystem.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/pass.hpp>
#include <apps/bench/study.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/temp_file.hpp>

#include <cstdint>
#include <string>

namespace gpufs::apps {

/// What is read, and by whom.
struct block_reads_setup {
  config settings;
  std::string folder;       ///< of the temporary file
  std::uint64_t bytes = 0;  ///< of it and of the memory namespace
  std::uint64_t seed = 1;
  std::int64_t blocks = 1;
  std::int64_t threads = 32;
};

/// Random reads of one temporary file and of namespaces that have its bytes. Each pass has a
/// filesystem of its own, and an empty cache of an eighth of the file, without readahead. Bytes are
/// compared with pread's if `check` is true. Functions throw as read_once(), and
/// std::runtime_error if kernels did not read the namespace by commands of their own.
class block_reads {
 public:
  /// Throws usage_error, std::system_error.
  explicit block_reads(block_reads_setup const& setup);

  /// 4 KiB by warps: of memory behind a software controller, of the file behind one, and of the
  /// file itself with io_path=pull.
  [[nodiscard]] pass_result memory_4k(bool check) const;
  [[nodiscard]] pass_result namespace_4k(bool check) const;
  [[nodiscard]] pass_result file_4k(bool check) const;
  /// 4 KiB by warps, of the file behind a software controller that reads it past the OS page cache.
  [[nodiscard]] pass_result direct_4k(bool check) const;
  /// The limit of it, in GB/s: the storage with random reads of 4 KiB past the OS page cache.
  /// Throws std::runtime_error that says why it cannot be measured.
  [[nodiscard]] double storage_GBps() const;

  /// 512 bytes by array, pages of 512 bytes, of memory behind a software controller.
  [[nodiscard]] pass_result memory_512(bool check) const;
  /// The limit of it, in GB/s: as many random 512 bytes of pinned memory.
  [[nodiscard]] double pull_512_GBps() const;

 private:
  [[nodiscard]] study study_of(host_file const& file, bool check) const;

  block_reads_setup const setup_;
  study_options const options_;
  temp_file const made_;
  host_file const file_;    ///< the file itself
  host_file const memory_;  ///< kernels read a memory namespace with its bytes
  host_file const namespace_;
  host_file const direct_;
};

}  // namespace gpufs::apps
