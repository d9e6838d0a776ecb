// What is dirty: asked for, listed, dropped.
#include <host-daemon/write_back.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace gpufs::daemon {

namespace {

using clock = std::chrono::steady_clock;

// How long to try for a buffer that others hold: they write it, or the device adds bytes.
constexpr std::chrono::seconds patience{10};

}  // namespace

void write_back::discard(written_file const& file, std::uint64_t from) {
  for (std::uint32_t i = 0; i < region_.count; ++i) {
    for (auto const end = clock::now() + patience; is_dirty(i) && file_of(i).get() == &file && clock::now() < end;) {
      auto const page = std::atomic_ref<std::uint64_t>{region_.headers[i].page}.load(std::memory_order_relaxed);
      if (page << region_.page_shift < from) break;
      held_buffer held;
      if (hold_buffer(i, insist::no, held)) {
        release_buffer(held, true);
        break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
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
    for (auto const give_up = clock::now() + patience; is_dirty(i) && file_of(i).get() == &file && clock::now() < give_up;) {
      held_buffer held;
      if (hold_buffer(i, insist::no, held)) {
        for (auto const& p : pieces_of(held)) end = std::max(end, p.offset + p.length);
        release_buffer(held, false);
        break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
  }
  return end;
}

std::vector<std::string> write_back::unwritten() {
  std::vector<std::string> lines;
  for (std::uint32_t i = 0; i < region_.count; ++i) {
    held_buffer held;
    if (!is_dirty(i) || !hold_buffer(i, insist::no, held)) continue;
    auto line = fmt::format("{}: bytes", held.file ? held.file->path : "a file that is closed");
    for (auto const& p : pieces_of(held)) line += fmt::format(" {}..{}", p.offset, p.offset + p.length - 1);
    lines.push_back(std::move(line));
    release_buffer(held, false);
  }
  return lines;
}

}  // namespace gpufs::daemon
