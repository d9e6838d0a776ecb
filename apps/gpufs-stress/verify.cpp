#include <apps/common/host_file.hpp>
#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/verify.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gpufs::stress {

namespace {

bool has_version(round_plan const& plan, std::uint64_t cell, std::byte const* bytes,
                 std::uint32_t version) {
  for (std::uint64_t k = 0; k < plan.cell_bytes; ++k) {
    if (bytes[k] != cell_byte(plan.seed, cell, version, k)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::byte> cell_bytes_of(round_plan const& plan, std::uint64_t cell,
                                     std::uint32_t version) {
  std::vector<std::byte> bytes(plan.cell_bytes);
  for (std::uint64_t k = 0; k < bytes.size(); ++k)
    bytes[k] = cell_byte(plan.seed, cell, version, k);
  return bytes;
}

std::vector<std::byte> file_contents(std::string const& path) {
  apps::host_file const file(path);
  std::vector<std::byte> bytes(file.size());
  file.read(bytes.data(), bytes.size(), 0);
  return bytes;
}

std::string wrong_cell(std::string const& path, round_plan const& plan,
                       std::vector<std::optional<cell_versions>> const& expected) {
  auto const file = file_contents(path);
  if (file.size() != plan.file_bytes())
    return fmt::format("{} has {} bytes, not {}", path, file.size(), plan.file_bytes());
  for (std::uint64_t c = 0; c < plan.cells; ++c) {
    if (!expected[c]) continue;
    auto const [low, high] = *expected[c];
    std::byte const* const bytes = file.data() + c * plan.cell_bytes;
    if (has_version(plan, c, bytes, low)) continue;
    for (std::uint64_t k = 0; k < plan.cell_bytes; ++k) {
      bool known = false;
      for (std::uint64_t v = low; v <= high && !known; ++v)
        known = bytes[k] == cell_byte(plan.seed, c, static_cast<std::uint32_t>(v), k);
      if (!known) {
        return fmt::format(
            "{}: byte {} of cell {} (byte {} of the file) is {:#x}, which is of "
            "none of the versions {} to {}",
            path, k, c, c * plan.cell_bytes + k, static_cast<unsigned>(bytes[k]), low, high);
      }
    }
  }
  return {};
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
