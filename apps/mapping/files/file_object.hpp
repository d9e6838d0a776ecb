// The objects of a workload whose data lie in files.
#pragma once

#include <apps/common/temp_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace gpufs::apps::workloads {

/// What becomes of an object.
/// input    A file that is read.
/// output   A file that is made, and written in full.
/// updated  A file that is read and written.
/// scratch  No file. Its bytes are zeros at first and gone at the end.
enum class object_use { input, output, updated, scratch };

struct file_object {
  std::string name;  ///< of the file, without .mem
  std::uint64_t bytes = 0;
  object_use use = object_use::input;
  fill_function fill = nullptr;                       ///< what is in the file at first
  std::optional<std::uint64_t> block = std::nullopt;  ///< bytes of a block in the variant `shared`
  bool is_gathered = false;  ///< in the variant `hand` the program reads parts of the file itself
};

[[nodiscard]] constexpr bool begins_with_bytes(object_use u) {
  return u == object_use::input || u == object_use::updated;
}
[[nodiscard]] constexpr bool is_written_home(object_use u) {
  return u == object_use::output || u == object_use::updated;
}

/// The block that an object has by default.
[[nodiscard]] constexpr std::uint64_t usual_block(std::uint64_t bytes) {
  std::uint64_t block = 64 << 10;
  while (block < 2 << 20 && 2 * block <= bytes / 16) block *= 2;
  return block;
}

/// A fill function from a function of the record's index. Records are as long as T, and may lie
/// across the borders of what is asked for.
template <class T, class Record>
[[nodiscard]] fill_function fill_records(Record record) {
  return [record](std::uint64_t offset, std::span<std::byte> to) {
    for (std::uint64_t at = offset; at < offset + to.size();) {
      std::uint64_t const i = at / sizeof(T), skipped = at % sizeof(T);
      std::uint64_t const count = std::min(sizeof(T) - skipped, offset + to.size() - at);
      T const value = record(i);
      auto const* const bytes = reinterpret_cast<std::byte const*>(&value);
      std::memcpy(to.data() + (at - offset), bytes + skipped, count);
      at += count;
    }
  };
}

}  // namespace gpufs::apps::workloads
