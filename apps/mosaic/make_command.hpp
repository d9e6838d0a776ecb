// `mosaic make`: a mosaic of a picture, in one way, or in several ways that are compared.
#pragma once

#include <gpufs/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct make_options {
  std::string data;
  std::string size = "smoke";
  std::string target = "random";
  std::string input;
  std::string output;
  std::vector<std::string> modes = {"gread"};
  std::vector<std::string> page_sizes;
  std::string level = "warp";
  std::string advice = "random";
  std::string host_reads = "pread";
  std::int64_t blocks = INT64_MIN;
  std::int64_t threads = INT64_MIN;
  std::int64_t runs = 1;
  std::uint64_t seed = 1;
  bool cold = false;
  bool check = false;
  bool json = false;
};

void add_options(CLI::App& command, make_options& o);

/// Throws usage_error naming an option that was given and means nothing for the modes or the
/// picture.
void check_given(make_options const& o);

/// Returns the exit status. Throws usage_error, config_error, device_error, std::system_error,
/// std::runtime_error.
[[nodiscard]] int make_mosaic(make_options const& o, config const& settings);

}  // namespace gpufs::apps
