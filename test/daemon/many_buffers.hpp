// A region of shared memory with many write buffers, and what the device does to them.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <test/daemon/harness.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace gpufs::test {

// A region with many write buffers. The functions are what the device does.
class many_buffers {
 public:
  static constexpr std::uint64_t buffers = 100'000;
  static constexpr std::uint32_t page_shift = 9;

 private:
  template <class T>
  using zeroed = std::unique_ptr<T[], decltype(&std::free)>;
  template <class T>
  static zeroed<T> make(std::uint64_t count) {  // memory that nobody touches costs nothing
    return {static_cast<T*>(std::calloc(count, sizeof(T))), &std::free};
  }

  region_memory rest_;
  zeroed<rpc::buffer_header> headers_ = make<rpc::buffer_header>(buffers + 1);
  zeroed<std::uint64_t> words_ = make<std::uint64_t>(2 * buffers + 64);
  zeroed<std::uint64_t> marks_ = make<std::uint64_t>(rpc::mark_words(buffers));
  zeroed<std::byte> bytes_ = make<std::byte>(buffers << page_shift);

 public:
  rpc::shared_region region = rest_.region;

  many_buffers() {
    region.writes = {.headers = headers_.get(),
                     .posted = words_.get(),
                     .written = words_.get() + buffers,
                     .marks = marks_.get(),
                     .bytes = bytes_.get(),
                     .errors = words_.get() + 2 * buffers,
                     .count = buffers,
                     .page_shift = page_shift};
  }

  [[nodiscard]] std::uint64_t version(std::int32_t fd) const { return rest_.version(fd); }

  void mark(std::uint64_t i, std::uint64_t version) const {
    std::atomic_ref{reinterpret_cast<std::uint8_t*>(marks_.get())[i]}.store(
        rpc::mark_of(version), std::memory_order_relaxed);
  }
  [[nodiscard]] bool marked(std::uint64_t i) const {
    return std::atomic_ref{reinterpret_cast<std::uint8_t*>(marks_.get())[i]}.load(
               std::memory_order_relaxed) != 0;
  }

  // Makes a clean buffer dirty: 'x' at the beginning of the page, up to `end`.
  void dirty(std::uint64_t i, std::uint64_t version, std::uint64_t page,
             std::uint32_t end = 1) const {
    auto const& w = region.writes;
    // Acquire pairs with the host's release: the host has read the bytes of before.
    while (std::atomic_ref{w.written[i]}.load(std::memory_order_acquire) >> rpc::written_shift !=
           w.posted[i] >> rpc::posted_shift)
      std::this_thread::yield();
    auto& h = headers_[i];
    std::atomic_ref{h.version}.store(version, std::memory_order_relaxed);
    std::atomic_ref{h.page}.store(page, std::memory_order_relaxed);
    mark(i, version);
    h.ranges = 1;
    h.range[0] = {0, end};
    std::memset(&bytes_[i << page_shift], 'x', end);
    std::atomic_ref{region.writes.posted[i]}.fetch_add(1 << rpc::posted_shift,
                                                       std::memory_order_release);
  }
};

}  // namespace gpufs::test
