// What the daemon's fuzz target runs the daemon in: shared memory without a device, files that
// requests cannot leave, and stand-ins for the device's copies and mappings.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/device_work/transfer_engine.hpp>
#include <host-daemon/device_work/window_registrar.hpp>
#include <host-daemon/serve/server.hpp>

#include <test/fuzz/input.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace gpufs::fuzz {

using word = std::atomic_ref<std::uint64_t>;

/// Memory for one region, each part exactly as long as the region says: AddressSanitizer sees a
/// look beyond it. It is used again for each input.
class shared_memory {
 public:
  static constexpr std::uint64_t slots = 64, channels = 64, staging = 128 << 10, buffers = 16,
                                 page_shift = 12, descriptors = 16;

  shared_memory() {
    region_.ring = part<rpc::slot>(2 * slots);
    region_.slots = slots;
    region_.completions = part<rpc::completion>(channels);
    region_.channels = channels;
    region_.staging = part<std::byte>(staging);
    region_.staging_bytes = staging;
    region_.open_files = part<rpc::open_file_record>(descriptors);
    region_.max_open_files = descriptors;
    region_.control = part<rpc::control_block>(1);
    region_.writes = {.headers = part<rpc::buffer_header>(buffers),
                      .posted = part<std::uint64_t>(buffers),
                      .written = part<std::uint64_t>(buffers),
                      .marks = part<std::uint64_t>(rpc::mark_words(buffers)),
                      .bytes = part<std::byte>(buffers << page_shift),
                      .errors = part<std::uint64_t>(descriptors),
                      .count = buffers,
                      .page_shift = page_shift};
    twin_ = part<std::byte>(staging);
  }

  /// The region, zeroed, with `rings` rings: 1 or 2.
  rpc::shared_region fresh(std::uint64_t rings) {
    for (auto const& p : parts_) std::memset(p.first.get(), 0, p.second);
    region_.rings = rings;
    return region_;
  }
  [[nodiscard]] std::byte* twin() const { return twin_; }

 private:
  struct release {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{4096}); }
  };
  template <class T>
  T* part(std::size_t count) {
    auto const bytes = count * sizeof(T);
    void* const p = ::operator new (bytes, std::align_val_t{4096});
    parts_.emplace_back(p, bytes);
    return static_cast<T*>(p);
  }

  std::vector<std::pair<std::unique_ptr<void, release>, std::size_t>> parts_;
  rpc::shared_region region_;
  std::byte* twin_ = nullptr;
};

/// The path of a file of 70,000 bytes in the folder for temporary files. It has no name there.
/// Mostly it lies on a disk, and can be read past the OS page cache, as files in memory cannot.
inline std::string const& file_on_disk() {
  static std::string const path = [] {
    auto name = (std::filesystem::temp_directory_path() / "gpufs-fuzz-XXXXXX").string();
    int const fd = ::mkostemp(name.data(), O_CLOEXEC);
    std::string const contents(70'000, 'd');
    if (fd < 0 || ::unlink(name.c_str()) != 0 ||
        ::write(fd, contents.data(), contents.size()) != ssize_t(contents.size()))
      throw std::system_error(errno, std::generic_category(), name);
    return "/proc/self/fd/" + std::to_string(fd);
  }();
  return path;
}

/// Files of folder() by their names, and file_on_disk() as f3, for reading. Paths that lead
/// elsewhere are refused.
class fenced_storage final : public daemon::storage_backend {
 public:
  [[nodiscard]] daemon::opened_file open(std::string const& path, int flags,
                                         unsigned mode) override {
    if (!is_name(path) || (path == on_disk && (flags & O_ACCMODE) != O_RDONLY))
      return {nullptr, -EACCES};
    return files_.open(inside(path), flags, mode);
  }
  [[nodiscard]] int status(std::string const& path, struct ::stat& out) noexcept override {
    return is_name(path) ? files_.status(inside(path), out) : -EACCES;
  }
  [[nodiscard]] int unlink(std::string const& path) noexcept override {
    return is_name(path) && path != on_disk ? files_.unlink(inside(path)) : -EACCES;
  }

 private:
  static constexpr std::string_view on_disk = "f3";
  static bool is_name(std::string const& path) {
    return !path.empty() && path != "." && path != ".." && path.find('/') == path.npos;
  }
  static std::string inside(std::string const& name) {
    return name == on_disk ? file_on_disk() : folder() + "/" + name;
  }

  daemon::host_storage files_;
};

/// Copies staging to the twin at once.
class copier final : public daemon::twin_copier {
 public:
  copier(std::byte const* from, std::byte* to) : from_{from}, to_{to} {}
  [[nodiscard]] unsigned depth() const noexcept override { return 3; }
  [[nodiscard]] bool start(std::span<daemon::copy_range const> ranges) noexcept override {
    for (auto const& r : ranges) {
      require(r.bytes != 0 && r.bytes <= shared_memory::staging &&
                  r.offset <= shared_memory::staging - r.bytes,
              "copies lie in staging");
      std::memcpy(to_ + r.offset, from_ + r.offset, r.bytes);
    }
    return true;
  }
  [[nodiscard]] state look_at_oldest() noexcept override { return state::copied; }

 private:
  std::byte const* from_;
  std::byte* to_;
};

/// Maps windows of files for nobody.
class mapper final : public daemon::window_mapper {
 public:
  static constexpr std::uint64_t window_bytes = 16 << 10;

  [[nodiscard]] outcome map(int fd, std::uint64_t offset, std::uint64_t bytes,
                            daemon::registered_window& out, std::string& why) override {
    require(bytes != 0 && bytes <= window_bytes && offset % window_bytes == 0,
            "windows have their size and place");
    void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, off_t(offset));
    if (at == MAP_FAILED) {
      why = "mmap";
      return outcome::no_file;
    }
    out = {reinterpret_cast<std::uint64_t>(at), bytes, at};
    return outcome::mapped;
  }
  void unmap(daemon::registered_window const& window) noexcept override {
    ::munmap(window.host, window.bytes);
  }
  [[nodiscard]] std::uint64_t entries() const noexcept override { return 32; }
  [[nodiscard]] bool publish(std::uint64_t entry,
                             daemon::published_window const& window) noexcept override {
    require(entry < entries() && window.bytes != 0 && window.bytes <= window_bytes,
            "an entry of the table, with some bytes");
    return true;
  }
  [[nodiscard]] bool withdraw(std::uint64_t entry) noexcept override {
    require(entry < entries(), "an entry of the table");
    return true;
  }
  [[nodiscard]] bool idle() noexcept override { return true; }
};

/// One device of a run: its region, and the daemon's threads that work for it.
struct device {
  device(shared_memory& memory, std::uint64_t rings, bool copies, bool maps)
      : region{memory.fresh(rings)} {
    if (copies)
      transfers.emplace(std::make_unique<copier>(region.staging, memory.twin()), region.channels,
                        std::chrono::milliseconds{100});
    if (maps)
      windows.emplace(std::make_unique<mapper>(),
                      daemon::window_settings{.window_bytes = mapper::window_bytes,
                                              .budget = 4 * mapper::window_bytes,
                                              .turn = std::chrono::milliseconds{1},
                                              .which = registered_files::all,
                                              .cachestat = {}});
  }

  [[nodiscard]] daemon::endpoint endpoint() {
    return {region, transfers ? &*transfers : nullptr, windows ? &*windows : nullptr};
  }

  rpc::shared_region region;
  std::optional<daemon::transfer_engine> transfers;
  std::optional<daemon::window_registrar> windows;
  std::uint64_t tickets[2] = {0, 0};  // by ring
  std::uint32_t pending[64] = {};     // by channel: the sequence that is not answered yet
  bool in_order = true;               // no slot was written out of turn
  bool detached = false;
};

}  // namespace gpufs::fuzz
