#include <apps/common/durable.hpp>
#include <apps/common/program.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/harness/real_input.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace gpufs::apps {

namespace {

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (char const c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

void put_big_endian(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift);
}

void put_chunk(std::string& to, std::string_view kind, std::string_view payload) {
  put_big_endian(to, static_cast<std::uint32_t>(payload.size()));
  std::string const body = std::string(kind) + std::string(payload);
  to += body;
  put_big_endian(to, crc32(body));
}

/// A zlib stream that stores what it holds as it is.
std::string stored(std::string_view bytes) {
  std::string out = "\x78\x01";
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (char const c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  for (std::size_t at = 0;;) {
    std::size_t const count = std::min<std::size_t>(bytes.size() - at, 65535);
    bool const last = at + count == bytes.size();
    out += static_cast<char>(last);
    for (std::size_t const n : {count, ~count}) {
      out += static_cast<char>(n);
      out += static_cast<char>(n >> 8);
    }
    out += bytes.substr(at, count);
    at += count;
    if (last) break;
  }
  put_big_endian(out, b << 16 | a);
  return out;
}

}  // namespace

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
    if (std::from_chars(line.data() + equals + 1, line.data() + line.size(), value).ec ==
        std::errc()) {
      found[line.substr(0, equals)] = value;
    }
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

std::string write_picture(std::string const& folder, std::string const& name,
                          std::span<std::uint8_t const> samples, std::uint64_t width,
                          std::uint64_t height, unsigned channels) {
  std::string header;
  put_big_endian(header, static_cast<std::uint32_t>(width));
  put_big_endian(header, static_cast<std::uint32_t>(height));
  header += {8, static_cast<char>(channels == 3 ? 2 : 0), 0, 0, 0};
  std::string rows;
  for (std::uint64_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    auto const row = samples.subspan(y * width * channels, width * channels);
    rows.append(reinterpret_cast<char const*>(row.data()), row.size());
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  put_chunk(png, "IHDR", header);
  put_chunk(png, "IDAT", stored(rows));
  put_chunk(png, "IEND", "");

  if (auto const error = make_folders(folder)) throw std::system_error(error, folder);
  std::string const path = folder + "/" + name;
  write_whole_file(path, png);
  return path;
}

std::string write_picture(std::string const& folder, std::string const& name,
                          std::span<float const> values, std::uint64_t width,
                          std::uint64_t height) {
  auto const found = std::ranges::minmax(values);
  float const low = found.min;
  float const scale = found.max > low ? 255 / (found.max - low) : 0;
  std::vector<std::uint8_t> samples(values.size());
  std::ranges::transform(values, samples.begin(), [&](float v) {
    return static_cast<std::uint8_t>(std::lround((v - low) * scale));
  });
  return write_picture(folder, name, samples, width, height, 1);
}

}  // namespace gpufs::apps
