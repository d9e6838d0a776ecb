// Shared by the daemon's tests: a region in plain memory, host threads that act as device callers,
// files to read.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/serve/server.hpp>

#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::test {

/// A shared region in zeroed host memory.
class region_memory {
  std::vector<std::unique_ptr<void, void (*)(void*)>>
      owned_;  // made before `region`, whose parts it owns

 public:
  explicit region_memory(std::uint64_t slots = 64, std::uint64_t channels = 64,
                         std::uint64_t staging = 4 << 20, std::uint64_t max_open_files = 64,
                         std::uint64_t write_buffers = 0)
      : region{.ring = allocate<rpc::slot>(slots),
               .rings = 1,
               .slots = slots,
               .completions = allocate<rpc::completion>(channels),
               .channels = channels,
               .staging = allocate<std::byte>(staging),
               .staging_bytes = staging,
               .open_files = allocate<rpc::open_file_record>(max_open_files),
               .max_open_files = max_open_files,
               .control = allocate<rpc::control_block>(1),
               .writes = {.headers = allocate<rpc::buffer_header>(write_buffers),
                          .posted = allocate<std::uint64_t>(write_buffers),
                          .written = allocate<std::uint64_t>(write_buffers),
                          .marks = allocate<std::uint64_t>(rpc::mark_words(write_buffers)),
                          .bytes = allocate<std::byte>(write_buffers * page_bytes),
                          .errors = allocate<std::uint64_t>(max_open_files),
                          .count = write_buffers,
                          .page_shift = page_shift}} {}

  // Pages of the write buffers.
  static constexpr std::uint32_t page_shift = 12;
  static constexpr std::uint64_t page_bytes = 1 << page_shift;

  rpc::shared_region const region;

  [[nodiscard]] std::uint64_t epoch() const { return load(region.control->epoch); }
  [[nodiscard]] std::uint64_t stopped() const { return load(region.control->stop[0].stopped); }
  [[nodiscard]] std::uint64_t version(std::int32_t fd) const {
    return load(region.open_files[rpc::descriptor_index(fd)].version);
  }
  [[nodiscard]] std::uint64_t size(std::int32_t fd) const {
    return load(region.open_files[rpc::descriptor_index(fd)].size);
  }
  [[nodiscard]] std::uint64_t tag(std::int32_t fd) const {
    return load(region.open_files[rpc::descriptor_index(fd)].tag);
  }

 private:
  template <class T>
  T* allocate(std::uint64_t count) {
    if (count == 0) return nullptr;
    auto const bytes = (count * sizeof(T) + 4095) / 4096 * 4096;
    void* const p = std::aligned_alloc(4096, bytes);
    if (p == nullptr) throw std::bad_alloc{};
    std::memset(p, 0, bytes);
    owned_.emplace_back(p, &std::free);
    return static_cast<T*>(p);
  }

  static std::uint64_t load(std::uint64_t& word) {
    return std::atomic_ref<std::uint64_t>{word}.load(std::memory_order_acquire);
  }
};

/// The device side of the ring: hands out tickets. Thread-safe.
class ticket_source {
 public:
  explicit ticket_source(rpc::shared_region const& region) : region_{region} {}

  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }

  void write(std::uint64_t ticket, rpc::request const& request) {
    auto& slot = region_.ring[ticket % region_.slots];
    for (unsigned i = 0; i < rpc::words_per_slot; ++i)
      // Pairs with the acquire in request_queue::take().
      std::atomic_ref<std::uint64_t>{slot.word[i]}.store(
          rpc::pack_word(request, i, rpc::lap_tag(ticket, region_.slots)),
          std::memory_order_release);
  }

 private:
  rpc::shared_region region_;
  std::atomic<std::uint64_t> next_{0};
};

/// One channel and its part of staging. It belongs to one thread at a time and has one request
/// under way.
class caller {
 public:
  caller(rpc::shared_region const& region, ticket_source& tickets, std::uint32_t channel)
      : region_{region},
        tickets_{&tickets},
        channel_{channel},
        staging_bytes_{region.staging_bytes / region.channels / 4096 * 4096},
        staging_{channel * staging_bytes_} {}

  [[nodiscard]] std::byte* data() const { return region_.staging + staging_; }
  [[nodiscard]] std::uint64_t staging() const { return staging_; }
  [[nodiscard]] std::uint64_t capacity() const { return staging_bytes_; }

  void post(rpc::request request) {
    request.channel = channel_;
    request.sequence = ++sequence_;
    tickets_->write(tickets_->take(), request);
  }

  [[nodiscard]] bool answered() const { return rpc::completion_sequence(word()) == sequence_; }

  std::int32_t wait() {
    wait_until([this] { return answered(); }, "an answer");
    return rpc::completion_result(word());
  }

  std::int32_t call(rpc::request const& request) {
    post(request);
    return wait();
  }

  void post_read(std::int32_t file, std::uint64_t offset, std::uint64_t length) {
    post({.op = rpc::operation::read,
          .file = file,
          .offset = offset,
          .length = length,
          .staging = staging_});
  }
  std::int32_t read(std::int32_t file, std::uint64_t offset, std::uint64_t length) {
    post_read(file, offset, length);
    return wait();
  }

  void post_open(std::string_view path, int flags = O_RDONLY) {
    std::memcpy(data(), path.data(), path.size());
    post({.op = rpc::operation::open,
          .length = path.size(),
          .staging = staging_,
          .argument = {std::uint64_t(flags), 0}});
  }
  std::int32_t open(std::string_view path, int flags = O_RDONLY) {
    post_open(path, flags);
    return wait();
  }
  std::int32_t unlink(std::string_view path) {
    std::memcpy(data(), path.data(), path.size());
    return call({.op = rpc::operation::unlink, .length = path.size(), .staging = staging_});
  }
  std::int32_t close(std::int32_t file) {
    return call({.op = rpc::operation::close, .file = file});
  }

 private:
  [[nodiscard]] std::uint64_t word() const {
    // Pairs with the release in worker::answer().
    return std::atomic_ref<std::uint64_t>{region_.completions[channel_].word}.load(
        std::memory_order_acquire);
  }

  rpc::shared_region region_;
  ticket_source* tickets_;
  std::uint32_t channel_;
  std::uint32_t sequence_ = 0;
  std::uint64_t staging_bytes_;
  std::uint64_t staging_;
};

/// The byte that test files hold at `offset`.
inline std::byte expected_byte(std::uint64_t offset) {
  return std::byte((offset * 0x9e3779b97f4a7c15ull) >> 56);
}

/// Writes expected_byte() at [offset, offset + length). Makes the file if there is none.
inline void write_range(std::string const& path, std::uint64_t offset, std::uint64_t length) {
  std::vector<std::byte> bytes(length);
  for (std::uint64_t i = 0; i < length; ++i) bytes[i] = expected_byte(offset + i);
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::pwrite(fd, bytes.data(), length, off_t(offset)) != ssize_t(length))
    throw std::system_error{errno, std::generic_category(), path};
  ::close(fd);
}

/// Returns how many bytes at `data` differ from those of the file from `offset` on.
inline std::uint64_t wrong_bytes(std::byte const* data, std::uint64_t offset,
                                 std::uint64_t length) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < length; ++i) wrong += data[i] != expected_byte(offset + i);
  return wrong;
}

// Runs `body` with each engine. If the kernel refuses io_uring, the daemon must say so clearly, and
// the test of that engine ends. It may refuse for a while only: rings that are gone still count
// against the locked-memory limit.
template <class Body>
void with_each_engine(Body const& body) {
  for (auto const backend : {io_backend::pread, io_backend::uring}) {
    CAPTURE(backend);
    try {
      body(backend);
    } catch (std::runtime_error const& e) {
      std::string_view const why = e.what();
      if (backend != io_backend::uring ||
          !why.starts_with("io_backend=uring: the kernel refuses io_uring"))
        throw;
      MESSAGE("not tested with io_uring: " << why);
    }
  }
}

/// Settings with a clock long past every stamp, so that no file is young.
inline daemon::registry_settings settled() {
  return {.now_ns = [] { return std::int64_t(1) << 62; }};
}

}  // namespace gpufs::test
