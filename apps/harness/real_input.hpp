// Real files in place of generated ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpufs::apps {

/// The numbers `keys` from the sidecar PATH.meta (lines key=value). Throws usage_error naming
/// --input if there is no such file, if a number is missing or not from 1 to 2^31, or if the file
/// has another size than their product times `element_bytes`.
[[nodiscard]] std::map<std::string, std::uint64_t> read_real_input(
    std::string const& path, std::vector<std::string> const& keys, std::uint64_t element_bytes);

/// Throws usage_error naming --input unless a kernel whose blocks lie over a picture, each
/// `per_block` rows high, can have `rows` of them.
void check_rows(std::string const& path, std::uint64_t rows, unsigned per_block);

}  // namespace gpufs::apps
