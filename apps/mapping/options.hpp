// What the command line of gpufs-mapping asks for.
#pragma once

#include <gpufs/mapping_options.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps::workloads {

struct description;

/// naive    Of file workloads: fread() of all into pageable memory, and copies.
/// hand     cudaMalloc and pinned memory, copies made by the program.
/// managed  Of file workloads, not emulated: read() into CUDA's managed memory.
/// shared   gpufs::shared_memory.
/// cpu      The reference, without a device. On one CPU thread, but for file workloads.
enum class variant { naive, hand, managed, shared, cpu };

/// One way to run a workload. The members after `how` are those of `shared`.
struct way {
  variant how = variant::hand;
  coherence_protocol protocol = coherence_protocol::rolling;
  std::uint64_t block = block_automatic;
  std::uint32_t rolling = rolling_automatic;
  memory_backing backing = memory_backing::automatic;
};

/// The dimensions of a workload, and what else its data depend on.
struct setup {
  std::map<std::string, std::uint64_t> numbers;
  std::uint64_t seed = 42;
  bool is_smoke = true;         ///< checks compare every element with the reference
  std::string folder = "/tmp";  ///< of files
  bool keeps_files = false;     ///< they stay when the program ends
  bool is_cold = false;         ///< files are not in the OS page cache at first
  bool is_eager = true;         ///< files are read from map() on
  bool is_declared = false;     ///< launches declare what they use
  bool times_kernels = false;   ///< file workloads wait for each kernel, to time it
  mapping_config memory = {};   ///< of `shared`, but for what `way` says

  /// A parameter of the workload's description.
  [[nodiscard]] std::uint64_t operator[](char const* name) const { return numbers.at(name); }
};

struct options {
  std::string workload;
  std::vector<std::string> variants{"hand", "shared"};
  std::vector<std::string> backings{"auto"};
  std::vector<std::string> protocols{"rolling"};
  std::vector<std::string> blocks{"auto"};
  std::vector<std::string> rolling{"auto"};
  std::string size = "smoke";
  std::vector<std::string> settings;
  std::string folder = "/tmp";
  std::string device_memory = "0";
  std::string host_memory = "auto";
  std::string spill_dir;
  std::string profile;
  std::string chunk = "auto";
  std::string json_file;
  std::uint64_t seed = 42;
  std::int64_t runs = 1;
  bool declare = false;
  bool cold = false;
  bool kernel_times = false;
  bool keep_files = false;
  bool no_eager = false;
  bool warm_up = false;
  bool check = false;
  bool json = false;
  bool counters = false;
  bool summary = false;
};

void add_options(CLI::App& app, options& o);

/// The ways to run, in the order of a round. Throws usage_error.
[[nodiscard]] std::vector<way> ways_of(options const& o, description const& of);

/// Throws usage_error naming an option that was given and means nothing for the ways.
void check_given(options const& o, description const& of, std::vector<way> const& ways);

/// The parameters at --size, with those that --set changes. Throws usage_error.
[[nodiscard]] setup setup_of(options const& o, description const& of);

[[nodiscard]] char const* name_of(variant v);
[[nodiscard]] char const* name_of(coherence_protocol p);
[[nodiscard]] char const* name_of(memory_backing b);
/// "shared rolling 64K, 4 blocks".
[[nodiscard]] std::string text_of(way const& w);

}  // namespace gpufs::apps::workloads
