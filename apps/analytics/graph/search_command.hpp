// `gpufs-graph run`: searches a graph, in one way or in several ways that are compared.
#pragma once

#include <gpufs/config.hpp>

#include <apps/analytics/run_options.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gpufs::apps::analytics {

struct search_options {
  run_options run;
  std::string file;
  std::string algorithm = "bfs";
  std::string frontier = "scan";
  std::string advice = "random";
  std::int64_t sources = 4;
  std::optional<std::int64_t> source;
  bool hot = false;
};

void add_search_options(CLI::App& command, search_options& o);

/// Returns the exit status. Throws usage_error, config_error, device_error, std::system_error,
/// std::runtime_error.
[[nodiscard]] int run_search(search_options const& o, config const& settings);

}  // namespace gpufs::apps::analytics
