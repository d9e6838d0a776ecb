// Dirty pages: whether there are any, their list, their removal.
#include <host-daemon/write_back/write_back.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace gpufs::daemon {

namespace {

// The longest wait for a buffer that is locked or to which the device adds bytes.
constexpr std::chrono::seconds patience{10};
// The longest wait, for a list, for a buffer to which the device adds bytes. The kernel may have
// died.
constexpr std::chrono::milliseconds listing_patience{1};

}  // namespace

// Locks buffer i. gone: it is clean, or `wanted` says no. timed_out: others had it until `end`.
template <class Wanted>
write_back::hold write_back::wait_for_buffer(std::uint32_t i, time_point end, locked_buffer& locked,
                                             Wanted wanted) {
  while (is_dirty(i) && wanted(i)) {
    if (lock_buffer(i, busy_pages::wait, locked)) return hold::locked;
    if (clock::now() >= end) return hold::timed_out;
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
  return hold::gone;
}

// Locks buffer i if it has a dirty page of the file, at or behind byte `from`.
write_back::hold write_back::lock_page_of(written_file const& file, std::uint64_t from,
                                          std::uint32_t i, time_point end, locked_buffer& locked) {
  auto const wanted = [&](std::uint32_t b) {
    return file_of(b).get() == &file && page_of(b) << buffers_.page_shift() >= from;
  };
  auto const got = wait_for_buffer(i, end, locked, wanted);
  // Before it was locked, its page may have been written, and the device may have taken it for a
  // page of another file.
  if (got != hold::locked || wanted(i)) return got;
  release_buffer(locked, false);
  return hold::gone;
}

int write_back::discard(written_file const& file, std::uint64_t from,
                        std::function<int()> const& first) {
  std::vector<locked_buffer> held;
  auto const end = clock::now() + patience;
  int error = 0;
  marks_.each(0, buffers_.count(), marks_of(&file), [&](std::uint32_t i) {
    locked_buffer locked;
    auto const got = lock_page_of(file, from, i, end, locked);
    if (got == hold::timed_out) error = -ETIMEDOUT;
    if (!first) {
      if (got == hold::locked) release_buffer(locked, true);
      return true;
    }
    try {
      if (got == hold::locked) held.push_back(std::move(locked));
    } catch (std::bad_alloc const&) {
      release_buffer(locked, false);
      error = -ENOMEM;
    }
    return error == 0;
  });
  if (first && error == 0) error = first();
  for (auto const& h : held) release_buffer(h, error == 0);
  return error;
}

bool write_back::dirty(written_file const& file) const {
  bool found = false;
  marks_.each(0, buffers_.count(), marks_of(&file), [&](std::uint32_t i) {
    found = is_dirty(i) && file_of(i).get() == &file;
    return !found;
  });
  return found;
}

std::optional<std::uint64_t> write_back::dirty_end(written_file const& file) {
  std::uint64_t reached = 0;
  bool is_known = true;
  auto const end = clock::now() + patience;
  each_marked(&file, [&](std::uint32_t i) {
    locked_buffer locked;
    auto const got = lock_page_of(file, 0, i, end, locked);
    if (got == hold::timed_out) is_known = false;
    if (got != hold::locked) return;
    buffer_pieces pieces;
    static_cast<void>(pieces_of(locked, pieces));
    release_buffer(locked, false);
    for (auto const& p : pieces) reached = std::max(reached, p.offset + p.length);
  });
  return is_known ? std::optional(reached) : std::nullopt;
}

// A page that is being written stays in the list until the file has it, as the write may fail.
std::vector<std::string> write_back::unwritten() {
  std::vector<std::string> lines;
  auto const end = clock::now() + patience;
  each_marked(nullptr, [&](std::uint32_t i) {
    locked_buffer locked;
    auto const busy_end = clock::now() + listing_patience;
    auto const wanted = [&](std::uint32_t b) {
      return (posted(b) & rpc::posted_busy) == 0 || clock::now() < busy_end;
    };
    bool const is_locked = wait_for_buffer(i, end, locked, wanted) == hold::locked;
    if (!is_locked && !is_dirty(i)) return;
    auto const file = file_of(i);
    buffer_pieces pieces;
    if (is_locked) {  // given back before anything can throw
      static_cast<void>(pieces_of(locked, pieces));
      release_buffer(locked, false);
    }
    auto line = fmt::format("{}: bytes", file ? file->path : "a file that is closed");
    if (is_locked) {
      for (auto const& p : pieces)
        line += fmt::format(" {}..{}", p.offset, p.offset + p.length - 1);
    } else {  // a kernel adds bytes, or died while it did, or a write is slow: the ranges are
              // unknown
      auto const first = page_of(i) << buffers_.page_shift();
      line +=
          fmt::format(" in {}..{}", first, first + (std::uint64_t{1} << buffers_.page_shift()) - 1);
    }
    lines.push_back(std::move(line));
  });
  return lines;
}

void write_back::report_lost() noexcept {
  try {
    for (auto const& line : unwritten())
      std::fprintf(stderr, "gpufs: lost, could not be written: %s\n", line.c_str());
  } catch (std::bad_alloc const&) {
    std::fputs("gpufs: lost: there is no memory to list the bytes that could not be written\n",
               stderr);
  }
}

}  // namespace gpufs::daemon
