#include <apps/common/file_io.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/open_file.hpp>
#include <apps/gpufs-stress/verify.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <ranges>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::stress {

namespace {

/// Bytes of the cells that a thread makes or compares at once, at least one cell.
constexpr std::uint64_t piece_bytes = 1 << 20;

/// Calls work(first, count) for all cells, on a few threads, with a piece's cells each. A piece
/// that throws or gives false is the last of its thread, and none begins after it.
template <class Work>
void for_pieces(round_plan const& plan, Work const& work) {
  std::uint64_t const each = std::max<std::uint64_t>(piece_bytes / plan.cell_bytes, 1);
  std::uint64_t const pieces = (plan.cells + each - 1) / each;
  auto const threads = std::min<std::uint64_t>(apps::io_threads(), pieces);
  std::atomic<std::uint64_t> next{0};
  apps::run_on_threads(static_cast<unsigned>(threads), [&](unsigned) {
    for (;;) {
      // Relaxed: a number. The end of the threads orders what they have done.
      std::uint64_t const first = next.fetch_add(1, std::memory_order_relaxed) * each;
      if (first >= plan.cells) return;
      bool goes_on = false;
      try {
        goes_on = work(first, std::min(each, plan.cells - first));
      } catch (...) {
        next.store(pieces, std::memory_order_relaxed);
        throw;
      }
      if (!goes_on) next.store(pieces, std::memory_order_relaxed);
    }
  });
}

void store_cell(round_plan const& plan, std::uint64_t cell, std::uint32_t version,
                std::byte* bytes) {
  std::uint64_t const key = cell_key(plan.seed, cell);
  for (std::uint64_t w = 0; w < plan.cell_bytes / 8; ++w) {
    std::uint64_t const word = cell_word(key, version, w, plan.filled);
    std::memcpy(bytes + 8 * w, &word, 8);
  }
}

/// Index of the first byte of a cell that is of none of the versions, or cell_bytes. Mostly a word
/// is of the version of the word before.
std::uint64_t first_wrong(round_plan const& plan, std::uint64_t cell, std::byte const* bytes,
                          cell_versions allowed) {
  std::uint64_t const key = cell_key(plan.seed, cell);
  auto const [low, high] = allowed;
  auto const word_of = [&](std::uint32_t v, std::uint64_t w) {
    return cell_word(key, v, w, plan.filled);
  };
  auto const is_byte = [&](std::uint64_t w, unsigned k, std::uint64_t value) {
    for (std::uint64_t v = low; v <= high; ++v) {
      if (((word_of(static_cast<std::uint32_t>(v), w) ^ value) >> 8 * k & 0xff) == 0) return true;
    }
    return false;
  };
  std::uint32_t usual = low;
  for (std::uint64_t w = 0; w < plan.cell_bytes / 8; ++w) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes + 8 * w, 8);
    if (value == word_of(usual, w)) continue;
    std::uint64_t v = low;
    while (v <= high && value != word_of(static_cast<std::uint32_t>(v), w)) ++v;
    if (v <= high) {
      usual = static_cast<std::uint32_t>(v);
      continue;
    }
    for (unsigned k = 0; k < 8; ++k) {
      if (!is_byte(w, k, value)) return 8 * w + k;
    }
  }
  return plan.cell_bytes;
}

/// All bytes of a file. Throws std::system_error naming it.
std::vector<std::byte> file_contents(std::string const& path) {
  apps::host_file const file(path);
  std::vector<std::byte> bytes(file.size());
  file.read(bytes.data(), bytes.size(), 0);
  return bytes;
}

}  // namespace

std::vector<std::byte> cell_bytes_of(round_plan const& plan, std::uint64_t cell,
                                     std::uint32_t version) {
  std::vector<std::byte> bytes(plan.cell_bytes);
  store_cell(plan, cell, version, bytes.data());
  return bytes;
}

comparison compare_cells(std::string const& path, round_plan const& plan,
                         std::vector<std::optional<cell_versions>> const& expected) {
  apps::host_file const file(path);
  if (file.size() != plan.file_bytes())
    return {fmt::format("{} has {} bytes, not {}", path, file.size(), plan.file_bytes()), 0};
  std::mutex mutex;
  comparison all;
  for_pieces(plan, [&](std::uint64_t first, std::uint64_t count) {
    auto const is_expected = [&](std::uint64_t c) { return expected[c].has_value(); };
    auto cells = std::views::iota(first, first + count) | std::views::filter(is_expected);
    if (cells.empty()) return true;
    comparison piece;
    std::vector<std::byte> bytes(count * plan.cell_bytes);
    file.read(bytes.data(), bytes.size(), first * plan.cell_bytes);
    for (std::uint64_t const c : cells) {
      std::byte const* const cell = bytes.data() + (c - first) * plan.cell_bytes;
      std::uint64_t const k = first_wrong(plan, c, cell, *expected[c]);
      piece.bytes += std::min(k + 1, plan.cell_bytes);
      if (k == plan.cell_bytes) continue;
      piece.problem = fmt::format(
          "{}: byte {} of cell {} (byte {} of the file) is {:#x}, which is of "
          "none of the versions {} to {}",
          path, k, c, c * plan.cell_bytes + k, static_cast<unsigned>(cell[k]),
          expected[c]->acknowledged, expected[c]->begun);
      break;
    }
    std::lock_guard const lock(mutex);
    all.bytes += piece.bytes;
    if (all.problem.empty()) all.problem = piece.problem;
    return piece.problem.empty();
  });
  return all;
}

void make_cells(std::string const& path, round_plan const& plan) {
  open_file const file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  if (::ftruncate(file.number(), static_cast<off_t>(plan.file_bytes())) != 0)
    throw std::system_error(errno, std::generic_category(), path);
  if (!plan.filled) return;
  for_pieces(plan, [&](std::uint64_t first, std::uint64_t count) {
    std::vector<std::byte> bytes(count * plan.cell_bytes);
    for (std::uint64_t c = 0; c < count; ++c)
      store_cell(plan, first + c, 0, bytes.data() + c * plan.cell_bytes);
    if (int const error = apps::write_at(file.number(), bytes, first * plan.cell_bytes); error != 0)
      throw std::system_error(-error, std::generic_category(), path);
    return true;
  });
}

std::vector<std::uint32_t> most_versions(round_plan const& plan) {
  std::vector<std::uint32_t> most(plan.cells);
  unsigned const owners = plan.filesystems * plan.workers();
  apps::run_on_threads(apps::io_threads(), [&](unsigned thread) {
    for (std::uint32_t o = thread; o < owners; o += apps::io_threads()) {
      for (std::uint32_t i = 0; i < plan.launches * plan.operations; ++i) {
        std::uint64_t const operation =
            operation_seed(plan.seed, i / plan.operations, o, i % plan.operations);
        if (is_write(operation, plan.writes))
          ++most[written_cell(operation, o, plan.cells, plan.owners())];
      }
    }
  });
  return most;
}

std::string wrong_record(std::string const& path, round_plan const& plan,
                         std::vector<append_state> const& appends) {
  auto const file = file_contents(path);
  std::uint32_t const each = plan.launches * plan.operations;
  std::vector<char> found(appends.size());
  for (std::uint64_t at = 0; at < file.size(); at += record_bytes) {
    std::uint64_t words[record_bytes / 8] = {};
    std::memcpy(words, file.data() + at, std::min<std::uint64_t>(record_bytes, file.size() - at));
    auto const number = static_cast<std::uint32_t>(words[0]);
    std::uint64_t const name = (words[0] >> 32) - 1;
    std::uint64_t const index = name * each + number;
    if (words[0] == 0) continue;  // checked below: no acknowledged record is missing
    if (name >= plan.workers() || number >= each)
      return fmt::format("{}: the record at byte {} is none of ours", path, at);
    if (appends[index] == append_state::not_tried)
      return fmt::format("{}: the record at byte {} was never appended", path, at);
    if (found[index]++ != 0)
      return fmt::format("{}: the record at byte {} is there twice", path, at);
    if (appends[index] == append_state::failed) continue;  // a part of it may be there
    for (unsigned w = 0; w < record_bytes / 8; ++w) {
      if (words[w] != record_word(static_cast<std::uint32_t>(name), number, w))
        return fmt::format("{}: the record at byte {} is damaged", path, at);
    }
  }
  for (std::uint64_t i = 0; i < appends.size(); ++i) {
    if (appends[i] == append_state::acknowledged && found[i] == 0) {
      return fmt::format("{}: record {} of worker {} was acknowledged and is not there", path,
                         i % each, i / each);
    }
  }
  return {};
}

}  // namespace gpufs::stress
