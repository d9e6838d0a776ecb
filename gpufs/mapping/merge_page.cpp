#include <gpufs/mapping/merge_page.hpp>
#include <gpufs/mapping/page_work.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace gpufs::shared {

namespace {

constexpr std::uint64_t words_of_page = file_page / sizeof(std::uint64_t);

}  // namespace

std::uint64_t bytes_until(std::uint64_t end, std::uint64_t page) {
  return std::min(end - page, file_page);
}

merged_page merge_page(std::byte* page, std::uint64_t bytes, backing_file const& file,
                       std::uint64_t offset, std::uint64_t key) {
  std::array<std::uint64_t, words_of_page> words;
  std::memcpy(words.data(), page, file_page);
  std::array<bool, words_of_page> is_old{};
  std::uint64_t const count = bytes / sizeof words[0], rest = bytes % sizeof words[0];
  std::uint64_t old_words = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    is_old[i] = words[i] == unwritten_word(key, offset / sizeof words[0] + i);
    old_words += is_old[i] ? 1 : 0;
  }
  if (old_words == 0 && count != 0) return {true, 0, 0};
  alignas(file_page) std::array<std::byte, file_page> old{};
  auto const got = file.read(old, offset);
  if (got.bytes < 0) return {true, 0, int(got.bytes)};
  // Behind the end of the file there are zeros.
  for (std::uint64_t i = 0; i < words_of_page; ++i) {
    if (is_old[i]) std::memcpy(page + i * sizeof words[0], old.data() + i * sizeof words[0], 8);
  }
  auto const end = count * sizeof words[0];
  bool const is_last_written = std::memcmp(page + end, old.data() + end, rest) != 0;
  return {old_words < count || is_last_written, std::uint64_t(got.bytes), 0};
}

int write_bytes(file_side const& f, std::byte const* bytes, byte_run r) {
  auto const end = f.offset + r.end;
  if (f.begins_with != first_bytes::unwritten)
    return f.file->write({bytes, r.end - r.first}, f.offset + r.first);
  for (auto at = f.offset + r.first; at < end; at += file_page, bytes += file_page) {
    std::array<std::byte, file_page> page{};
    std::span const some(page.data(), std::min(end - at, file_page));
    std::memcpy(some.data(), bytes, some.size());
    auto const merged = merge_page(page.data(), bytes_until(end, at), *f.file, at, f.unwritten_key);
    if (merged.error != 0) return merged.error;
    if (!merged.is_written) continue;
    if (int const error = f.file->write(some, at); error != 0) return error;
  }
  return 0;
}

}  // namespace gpufs::shared
