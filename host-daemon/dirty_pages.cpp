// What is dirty: asked for, listed, dropped.
#include <host-daemon/write_back.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace gpufs::daemon {

namespace {

// How long to try for a buffer that others hold: they write it, or the device adds bytes.
constexpr std::chrono::seconds patience{10};
// How long to try to list for one that the device adds bytes to, which may be a kernel that has
// died.
constexpr std::chrono::milliseconds listing_patience{1};

}  // namespace

// True: `held` is buffer i, dirty and as `wanted` asks. False: it is clean or not wanted now, or
// others have held it all the time until `end`.
template <class Wanted>
bool write_back::wait_for_buffer(std::uint32_t i, time_point end, held_buffer& held,
                                 Wanted wanted) {
  while (is_dirty(i) && wanted(i)) {
    if (hold_buffer(i, insist::no, held)) return true;
    if (clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
  return false;
}

std::uint64_t write_back::page_of(std::uint32_t i) const {
  return std::atomic_ref<std::uint64_t>{region_.headers[i].page}.load(std::memory_order_relaxed);
}

void write_back::discard(written_file const& file, std::uint64_t from) {
  for (std::uint32_t i = 0; i < region_.count; ++i) {
    held_buffer held;
    auto const wanted = [&](std::uint32_t b) {
      return file_of(b).get() == &file && page_of(b) << region_.page_shift >= from;
    };
    if (wait_for_buffer(i, clock::now() + patience, held, wanted)) release_buffer(held, true);
  }
}

bool write_back::dirty(written_file const& file) const {
  for (std::uint32_t i = 0; i < region_.count; ++i)
    if (is_dirty(i) && file_of(i).get() == &file) return true;
  return false;
}

std::uint64_t write_back::dirty_end(written_file const& file) {
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < region_.count; ++i) {
    held_buffer held;
    if (!wait_for_buffer(i, clock::now() + patience, held,
                         [&](std::uint32_t b) { return file_of(b).get() == &file; }))
      continue;
    for (auto const& p : pieces_of(held)) end = std::max(end, p.offset + p.length);
    release_buffer(held, false);
  }
  return end;
}

// A page that is being written now stays in the list until the file has it: it may yet fail.
std::vector<std::string> write_back::unwritten() {
  std::vector<std::string> lines;
  auto const end = clock::now() + patience;
  for (std::uint32_t i = 0; i < region_.count; ++i) {
    held_buffer held;
    auto const busy_end = clock::now() + listing_patience;
    auto const wanted = [&](std::uint32_t b) {
      return (posted(b) & rpc::posted_busy) == 0 || clock::now() < busy_end;
    };
    bool const is_held = wait_for_buffer(i, end, held, wanted);
    if (!is_held && !is_dirty(i)) continue;
    auto const file = is_held ? held.file : file_of(i);
    auto line = fmt::format("{}: bytes", file ? file->path : "a file that is closed");
    if (is_held) {
      for (auto const& p : pieces_of(held))
        line += fmt::format(" {}..{}", p.offset, p.offset + p.length - 1);
      release_buffer(held, false);
    } else {  // a kernel adds bytes or died doing so, or a write takes as long as that: which of
              // the page's bytes, nobody can say now
      auto const first = page_of(i) << region_.page_shift;
      line +=
          fmt::format(" in {}..{}", first, first + (std::uint64_t{1} << region_.page_shift) - 1);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace gpufs::daemon
