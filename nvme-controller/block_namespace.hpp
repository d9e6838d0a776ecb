// What commands read and write: memory, a file or a block device, or nothing.
#pragma once

#include <host-daemon/base/file_view.hpp>

#include <nvme-controller/prp_walk.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace gpufs::nvme_controller {

/// The blocks of a namespace. Threads of the controller call, several at once. Ranges lie within
/// the namespace. Functions return a status code.
class block_namespace {
 public:
  virtual ~block_namespace() = default;

  [[nodiscard]] virtual std::uint32_t lba_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t blocks() const = 0;

  virtual std::uint16_t read(std::uint64_t offset, std::span<segment const> to) = 0;
  /// A descriptor that gives the same bytes at the same offset, where it pays to have many reads
  /// under way. -1: read() them.
  [[nodiscard]] virtual int descriptor_of_read(std::uint64_t offset,
                                               std::span<segment const> to) const {
    static_cast<void>(offset), static_cast<void>(to);
    return -1;
  }
  virtual std::uint16_t write(std::uint64_t offset, std::span<segment const> from) = 0;
  virtual std::uint16_t write_zeroes(std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual std::uint16_t flush() = 0;
  /// Whether flush() may wait for a disk.
  [[nodiscard]] virtual bool flush_waits() const { return false; }
};

/// Zeroed memory.
class memory_namespace final : public block_namespace {
 public:
  /// `bytes` are rounded up to whole blocks. `lba_bytes` is 512 or 4096. Throws
  /// std::invalid_argument for other sizes, std::bad_alloc if there is no memory.
  memory_namespace(std::uint64_t bytes, std::uint32_t lba_bytes);
  ~memory_namespace() override;
  memory_namespace(memory_namespace const&) = delete;
  memory_namespace& operator=(memory_namespace const&) = delete;

  /// The contents. Change them only while no command does.
  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_, bytes_}; }

  [[nodiscard]] std::uint32_t lba_bytes() const override { return lba_; }
  [[nodiscard]] std::uint64_t blocks() const override { return bytes_ / lba_; }
  std::uint16_t read(std::uint64_t offset, std::span<segment const> to) override;
  std::uint16_t write(std::uint64_t offset, std::span<segment const> from) override;
  std::uint16_t write_zeroes(std::uint64_t offset, std::uint64_t bytes) override;
  std::uint16_t flush() override;

 private:
  std::uint64_t bytes_;
  std::uint32_t lba_;
  std::byte* memory_;
};

/// Blocks without contents: reads leave the memory as it is. For benchmarks of commands.
class null_namespace final : public block_namespace {
 public:
  null_namespace(std::uint64_t blocks, std::uint32_t lba_bytes);

  [[nodiscard]] std::uint32_t lba_bytes() const override { return lba_; }
  [[nodiscard]] std::uint64_t blocks() const override { return blocks_; }
  std::uint16_t read(std::uint64_t, std::span<segment const>) override { return 0; }
  std::uint16_t write(std::uint64_t, std::span<segment const>) override { return 0; }
  std::uint16_t write_zeroes(std::uint64_t, std::uint64_t) override { return 0; }
  std::uint16_t flush() override { return 0; }

 private:
  std::uint64_t blocks_;
  std::uint32_t lba_;
};

/// A regular file or a block device, through the page cache of the operating system or past it
/// (O_DIRECT). Its size is fixed: bytes of the last block beyond the end read as zeros, and are
/// dropped when written.
class file_namespace final : public block_namespace {
 public:
  enum class mode { read_only, read_write };
  /// past  With O_DIRECT, where a transfer is aligned to 4096 bytes in the file and in memory.
  enum class page_cache { used, past };

  /// A writable member is locked (flock) against other users of this class.
  /// Throws std::invalid_argument for a bad block size, an empty file, or a path of another kind,
  /// std::system_error if the path cannot be opened, or not so, or is in use.
  file_namespace(std::filesystem::path const& path, std::uint32_t lba_bytes, mode how,
                 page_cache cache = page_cache::used);
  ~file_namespace() override;
  file_namespace(file_namespace const&) = delete;
  file_namespace& operator=(file_namespace const&) = delete;

  [[nodiscard]] std::uint32_t lba_bytes() const override { return lba_; }
  [[nodiscard]] std::uint64_t blocks() const override { return (size_ + lba_ - 1) / lba_; }
  /// Bytes of the file or device.
  [[nodiscard]] std::uint64_t bytes() const { return size_; }
  std::uint16_t read(std::uint64_t offset, std::span<segment const> to) override;
  /// Reads past the OS page cache: from the OS page cache one read at a time is as fast.
  [[nodiscard]] int descriptor_of_read(std::uint64_t offset,
                                       std::span<segment const> to) const override;
  std::uint16_t write(std::uint64_t offset, std::span<segment const> from) override;
  std::uint16_t write_zeroes(std::uint64_t offset, std::uint64_t bytes) override;
  std::uint16_t flush() override;
  [[nodiscard]] bool flush_waits() const override { return !read_only_; }

 private:
  std::uint32_t lba_;
  bool read_only_;
  [[nodiscard]] int descriptor_for(std::uint64_t offset, std::span<segment const> parts) const;
  [[nodiscard]] int descriptor_at(int fd, std::int64_t at) const;

  [[nodiscard]] bool copy(std::uint64_t offset, std::span<segment const> to) const;

  int fd_ = -1;
  std::unique_ptr<daemon::file_view> view_;  // null: reads go past the OS page cache
  int direct_fd_ = -1;                       // with O_DIRECT, of the same file
  std::uint64_t size_ = 0;
};

}  // namespace gpufs::nvme_controller
