#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>

#include <apps/bench/shared_costs.hpp>
#include <apps/bench/shared_costs_kernels.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/common/temp_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace gpufs::apps {

namespace {

using clock = std::chrono::steady_clock;

/// A row: an operation and what stands beside it, a figure for each round.
struct cost_row {
  char const* key;
  char const* what;
  char const* beside;
  char const* unit;
  std::vector<double> measured, equivalent;
  bool is_good = true;  ///< the bytes were right
};

/// Microseconds of a launch of an empty kernel and a synchronize().
template <class Synchronize>
double launch_us(unsigned times, Synchronize const& synchronize) {
  auto const start = clock::now();
  for (unsigned i = 0; i < times; ++i) {
    launch_idle();
    synchronize();
  }
  return seconds_since(start) * 1e6 / times;
}

/// With `objects` objects of the device that nothing has to be moved of.
cost_row measure_launch(char const* key, char const* what, unsigned objects, unsigned times,
                        std::int64_t rounds, mapping_config const& settings) {
  cost_row row{key, what, "the same without objects", "us", {}, {}};
  for (std::int64_t r = 0; r < rounds; ++r) {
    row.equivalent.push_back(launch_us(times, [] { synchronize(); }));
    shared_memory memory(settings);
    std::vector<mapping> all;
    for (unsigned i = 0; i < objects; ++i) all.push_back(memory.allocate(2 << 20));
    launch_us(2, [&] { memory.synchronize(); });
    row.measured.push_back(launch_us(times, [&] { memory.synchronize(); }));
  }
  return row;
}

/// A fault of the CPU that brings one block from the device, and a copy of as many bytes.
cost_row measure_fault(char const* key, char const* what, std::uint64_t block, unsigned blocks,
                       std::int64_t rounds, mapping_config settings) {
  cost_row row{key, what, "copy of the block into pinned memory", "us", {}, {}};
  settings.coherence_block = block;
  settings.protocol = coherence_protocol::rolling;
  shared_memory memory(settings);
  mapping const object = memory.allocate(block * blocks);
  auto* const bytes = object.as<std::uint8_t>();
  std::memset(bytes, 0, object.size());
  buffer<std::byte> const device(block);
  pinned_buffer<std::byte> const host(block);
  // In no order, so that no block comes ahead.
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 random(1);
  for (std::int64_t r = 0; r < rounds; ++r) {
    std::shuffle(order.begin(), order.end(), random);
    change_each(object.as<std::byte>(), object.size(), block);
    memory.synchronize();
    auto const wanted = static_cast<std::uint8_t>(r + 1);
    auto start = clock::now();
    for (unsigned const b : order)
      row.is_good &= static_cast<std::uint8_t volatile*>(bytes)[b * block] == wanted;
    row.measured.push_back(seconds_since(start) * 1e6 / blocks);
    start = clock::now();
    for (unsigned i = 0; i < blocks; ++i) device.copy_to_host(host.data(), block);
    row.equivalent.push_back(seconds_since(start) * 1e6 / blocks);
  }
  return row;
}

/// memory.pread() of a warm file into an object of the device, and one copy of pinned memory.
cost_row measure_read(std::string const& folder, std::uint64_t bytes, std::int64_t rounds,
                      mapping_config const& settings) {
  cost_row row{"read",
               "pread() of a file in the OS page cache into an object on the device",
               "one copy of pinned memory",
               "GB/s",
               {},
               {}};
  temp_file const file(folder, bytes, 1);
  host_file const source(file.path());
  shared_memory memory(settings);
  mapping const object = memory.allocate(bytes);
  buffer<std::byte> device(bytes);
  pinned_buffer<std::byte> const host(bytes);
  for (std::int64_t r = 0; r < rounds; ++r) {
    change_each(object.as<std::byte>(), bytes, 4096);
    memory.synchronize();
    auto start = clock::now();
    std::int64_t const got = memory.pread(source.descriptor(), object.data(), bytes, 0);
    row.measured.push_back(static_cast<double>(bytes) / seconds_since(start) / 1e9);
    start = clock::now();
    device.copy_from_host(host.data(), bytes);
    row.equivalent.push_back(static_cast<double>(bytes) / seconds_since(start) / 1e9);
    row.is_good &= got == static_cast<std::int64_t>(bytes);
    std::vector<std::byte> wanted(1 << 20);
    auto const step = std::max<std::uint64_t>(bytes / 8, wanted.size());
    for (std::uint64_t at = 0; at < bytes; at += step) {
      auto const n = std::min<std::uint64_t>(wanted.size(), bytes - at);
      source.read(wanted.data(), n, at);
      row.is_good &= std::memcmp(object.as<std::byte>() + at, wanted.data(), n) == 0;
    }
  }
  return row;
}

void print(shared_costs_options const& o, std::vector<cost_row> const& rows) {
  if (o.json) {
    json_line all, each;
    add_heading(all, "shared");
    for (auto const& r : rows) {
      json_line one;
      one.text("what", r.what).text("equivalent", r.beside).text("unit", r.unit);
      one.number("measured", median(r.measured)).number("beside", median(r.equivalent));
      one.numbers("measured_rounds", r.measured).numbers("beside_rounds", r.equivalent);
      each.object(r.key, one.boolean("verified", r.is_good));
    }
    fmt::print("{}\n", all.object("rows", each).str());
    return;
  }
  fmt::print("gpufs bench shared on {}: medians of {} rounds\n\n", current_device().name, o.rounds);
  for (auto const& r : rows)
    fmt::print("  {:10} {:8.2f} {:4}  beside {:8.2f}  {}; beside: {}{}\n", r.key,
               median(r.measured), r.unit, median(r.equivalent), r.what, r.beside,
               r.is_good ? "" : "; WRONG BYTES");
}

}  // namespace

void add_options(CLI::App& command, shared_costs_options& o) {
  o.folder = temp_folder();
  command.add_option("--dir,--folder", o.folder, "where the file lies that is read")
      ->capture_default_str();
  command.add_option("--size", o.size, "bytes of that file; default 1G, emulated 8M");
  command.add_option("--rounds,--runs", o.rounds, "times that each row is measured")
      ->capture_default_str();
  command.add_flag("--json", o.json, "print one JSON object");
}

int run_shared_costs(shared_costs_options& o, mapping_config const& settings) {
  validate(settings);
  bool const emulated = device_to_run_on().kind == "emulated";
  check_option("--rounds", o.rounds, 1, 1000);
  std::uint64_t bytes = size_option("--size", o.size, 0, 1ull << 40);
  if (bytes == 0) bytes = emulated ? 8 << 20 : 1 << 30;
  unsigned const times = emulated ? 20 : 2000;
  std::vector<cost_row> const rows{
      measure_launch("launch", "launch and synchronize(), 3 objects with nothing to move", 3, times,
                     o.rounds, settings),
      measure_launch("launch100", "the same, 100 objects", 100, times, o.rounds, settings),
      measure_fault("fault4K", "a CPU fault that brings 4 KiB from the device", 4096,
                    emulated ? 16 : 2048, o.rounds, settings),
      measure_fault("fault2M", "a CPU fault that brings 2 MiB from the device", 2 << 20,
                    emulated ? 4 : 256, o.rounds, settings),
      measure_read(o.folder, bytes, o.rounds, settings)};
  print(o, rows);
  return std::ranges::all_of(rows, [](auto const& r) { return r.is_good; }) ? 0 : status_failed;
}

}  // namespace gpufs::apps
