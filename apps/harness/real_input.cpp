#include <apps/common/program.hpp>
#include <apps/harness/real_input.hpp>

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gpufs::apps {

std::map<std::string, std::uint64_t> read_real_input(std::string const& path,
                                                     std::vector<std::string> const& keys,
                                                     std::uint64_t element_bytes) {
  std::error_code error;
  auto const size = std::filesystem::file_size(path, error);
  if (error) throw usage_error(fmt::format("--input={}: {}", path, error.message()));
  std::map<std::string, std::uint64_t> found;
  std::ifstream in(path + ".meta");
  for (std::string line; std::getline(in, line);) {
    auto const equals = line.find('=');
    if (equals == line.npos) continue;
    std::uint64_t value = 0;
    char const* const end = line.data() + line.size();
    auto const [read, failed] = std::from_chars(line.data() + equals + 1, end, value);
    if (failed == std::errc() && read == end) found[line.substr(0, equals)] = value;
  }
  std::uint64_t bytes = element_bytes;
  for (auto const& key : keys) {
    if (found[key] < 1 || found[key] > 1ull << 31) {
      throw usage_error(fmt::format(
          "--input={}: {}.meta must have a line {}=NUMBER, from 1 to 2147483648", path, path, key));
    }
    if (__builtin_mul_overflow(bytes, found[key], &bytes)) {
      throw usage_error(
          fmt::format("--input={}: has {} bytes: by its .meta must have more than a file can have",
                      path, size));
    }
  }
  if (size != bytes)
    throw usage_error(
        fmt::format("--input={}: has {} bytes: by its .meta must have {}", path, size, bytes));
  return found;
}

void check_rows(std::string const& path, std::uint64_t rows, unsigned per_block) {
  std::uint64_t const most = std::uint64_t{65535} * per_block;  // a grid's blocks in y
  if (rows > most)
    throw usage_error(
        fmt::format("--input={}: has {} rows: must have at most {}", path, rows, most));
}

}  // namespace gpufs::apps
