// Results as pictures: PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gpufs::apps {

/// Throws usage_error naming --output unless pictures can be written to the folder, or the folder
/// can be made. Does nothing for an empty name.
void check_picture_folder(std::string const& folder);

/// Writes samples of 8 bits, `channels` (1: grey, 3: red, green, blue) for each pixel, as they are,
/// to `folder`/`name`; makes the folder. Returns the path. Throws std::system_error naming the
/// path, std::runtime_error if libpng refuses.
std::string write_picture(std::string const& folder, std::string const& name,
                          std::span<std::uint8_t const> samples, std::uint64_t width,
                          std::uint64_t height, unsigned channels);

/// The same of `values` as a grey picture, whose darkest and lightest value become black and white.
std::string write_picture(std::string const& folder, std::string const& name,
                          std::span<float const> values, std::uint64_t width, std::uint64_t height);

}  // namespace gpufs::apps
