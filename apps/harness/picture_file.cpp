#include <apps/common/durable.hpp>
#include <apps/common/program.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/harness/picture_file.hpp>

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace gpufs::apps {

void check_picture_folder(std::string const& folder) {
  if (folder.empty()) return;
  std::error_code error;
  // The folder, or the one above it that is there.
  auto there = std::filesystem::absolute(folder, error);
  while (!std::filesystem::exists(there, error) && there.has_relative_path())
    there = there.parent_path();
  if (!std::filesystem::is_directory(there, error))
    throw usage_error(fmt::format("--output={}: {} is no folder", folder, there.string()));
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    throw usage_error(
        fmt::format("--output={}: {}: {}", folder, there.string(), error_text(errno)));
}

std::string write_picture(std::string const& folder, std::string const& name,
                          std::span<std::uint8_t const> samples, std::uint64_t width,
                          std::uint64_t height, unsigned channels) {
  if (auto const error = make_folders(folder)) throw std::system_error(error, folder);
  std::string const path = folder + "/" + name;
  ::png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<::png_uint_32>(width);
  image.height = static_cast<::png_uint_32>(height);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  ::png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  bool const done =
      ::png_image_write_to_memory(&image, bytes.data(), &size, 0, samples.data(), 0, nullptr) != 0;
  if (!done) throw std::runtime_error(fmt::format("{}: {}", path, image.message));
  bytes.resize(size);
  write_whole_file(path, bytes);
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
