#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>
#include <gpufs/version.hpp>

#include <apps/common/build_facts.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/gpufs/info.hpp>
#include <apps/gpufs/machine.hpp>
#include <apps/gpufs/nvme_controllers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <vector>

namespace gpufs::apps {

namespace {

struct facts {
  std::optional<device_info> device;
  std::string no_device;
  host_facts host;
  std::vector<ability> io;
  std::vector<ability> paths;
  std::string backend;             ///< what a filesystem with these settings serves with
  std::vector<std::string> notes;  ///< what it says about itself
  std::string no_filesystem;
};

facts look(config const& settings) {
  facts f;
  try {
    f.device = current_device();
  } catch (std::exception const& e) {
    f.no_device = e.what();
  }
  f.host = look_at_host();
  f.io = look_at_io(settings, temp_folder());
  for (ability const& each : look_at_nvme()) f.io.push_back(each);
  if (!f.device) return f;
  f.io.push_back(look_at_user_faults());
  f.io.push_back(look_at_managed_memory());
  f.paths = look_at_paths(settings, temp_folder());
  try {
    validate(settings);
    config small = settings;
    small.cache_size = std::min<std::uint64_t>(settings.cache_size, 8 * settings.page_size);
    filesystem const fs(small);
    f.backend = fs.backend_name();
    f.notes = fs.notes();
  } catch (std::exception const& e) {
    f.no_filesystem = e.what();
  }
  return f;
}

json_line to_json(std::vector<ability> const& all) {
  json_line j;
  for (auto const& a : all) {
    json_line one;
    one.boolean("works", a.works);
    if (!a.remark.empty()) one.text(a.works ? "remark" : "why", a.remark);
    j.object(a.name, one);
  }
  return j;
}

template <class Config>
json_line to_json(std::vector<basic_setting<Config>> const& all,
                  settings_in_force<Config> const& in_force) {
  json_line values;
  for (auto const& s : all) {
    values.object(
        s.key,
        json_line().text("value", s.print(in_force.values)).text("origin", in_force.origin(s)));
  }
  return values;
}

void print_json(facts const& f, settings_in_force<config> const& settings,
                settings_in_force<mapping_config> const& shared) {
  json_line j;
  j.text("name", "info").text("version", GPUFS_VERSION_STRING).text("commit", commit());
  if (f.device) {
    j.text("device", f.device->name)
        .text("kind", f.device->kind)
        .integer("multiprocessors", f.device->multiprocessors);
    j.integer("compute_capability", f.device->compute_capability)
        .integer("device_memory_bytes", f.device->memory_bytes);
    j.integer("l2_bytes", f.device->l2_bytes)
        .integer("shared_bytes_per_block", f.device->shared_bytes_per_block);
  } else {
    j.text("no_device", f.no_device);
  }
  j.integer("host_cores", f.host.cores)
      .integer("host_memory_bytes", f.host.memory_bytes)
      .text("cpu", f.host.cpu)
      .text("kernel", f.host.kernel);
  j.text("locked_memory", f.host.locked_memory);
  j.object("io", to_json(f.io)).object("paths", to_json(f.paths));
  if (!f.backend.empty()) j.text("backend", f.backend);
  if (!f.no_filesystem.empty()) j.text("no_filesystem", f.no_filesystem);
  std::string notes;
  for (auto const& n : f.notes) notes += (notes.empty() ? "" : "; ") + n;
  j.text("notes", notes);
  j.object("settings", to_json(gpufs::settings(), settings));
  fmt::print("{}\n", j.object("mapping_settings", to_json(mapping_settings(), shared)).str());
}

void print_all(char const* heading, std::vector<ability> const& all) {
  fmt::print("{}\n", heading);
  for (auto const& a : all) {
    fmt::print("  {:<30} {}{}{}\n", a.name, a.works ? "works" : "does not work",
               a.remark.empty() ? "" : ": ", a.remark);
  }
}

/// The settings, one line each. Returns how many were left out, as `expert` is false.
template <class Config>
std::size_t print_settings(std::vector<basic_setting<Config>> const& all,
                           settings_in_force<Config> const& in_force, bool expert) {
  std::size_t left_out = 0;
  for (auto const& s : all) {
    if (s.is_expert && !expert)
      ++left_out;
    else
      fmt::print("  {:<16} {:<10} {:<14} {}\n", s.key, s.print(in_force.values), in_force.origin(s),
                 s.help);
  }
  return left_out;
}

void print_text(facts const& f, settings_in_force<config> const& settings,
                settings_in_force<mapping_config> const& shared, bool expert) {
  fmt::print("gpufs {}\n", version_text());
  if (f.device) {
    auto const& d = *f.device;
    fmt::print("device: {} ({}), {} multiprocessors{}, {:.1f} GiB of memory, {:.1f} MiB of L2\n",
               d.name, d.kind, d.multiprocessors,
               d.compute_capability == 0
                   ? ""
                   : fmt::format(", compute capability {}.{}", d.compute_capability / 10,
                                 d.compute_capability % 10),
               static_cast<double>(d.memory_bytes) / (1 << 30),
               static_cast<double>(d.l2_bytes) / (1 << 20));
  } else {
    fmt::print("device: none ({})\n", f.no_device);
  }
  fmt::print("host: {} cores ({}), {:.1f} GiB of memory, {}, locked memory {}\n", f.host.cores,
             f.host.cpu, static_cast<double>(f.host.memory_bytes) / (1 << 30), f.host.kernel,
             f.host.locked_memory);
  print_all("reading files on the host:", f.io);
  if (!f.paths.empty()) print_all("ways for bytes to reach the device (io_path):", f.paths);
  if (!f.backend.empty()) fmt::print("with these settings the daemon reads with {}\n", f.backend);
  for (auto const& note : f.notes) fmt::print("note: {}\n", note);
  if (!f.no_filesystem.empty())
    fmt::print("with these settings there is no filesystem: {}\n", f.no_filesystem);
  fmt::print("settings:\n");
  auto left_out = print_settings(gpufs::settings(), settings, expert);
  fmt::print("settings of shared memory:\n");
  left_out += print_settings(mapping_settings(), shared, expert);
  if (left_out != 0)
    fmt::print("gpufs info --expert lists {} more settings, for tests and measurements\n",
               left_out);
}

}  // namespace

void print_info(settings_in_force<config> const& settings,
                settings_in_force<mapping_config> const& shared, info_options const& o) {
  facts const f = look(settings.values);
  o.json ? print_json(f, settings, shared) : print_text(f, settings, shared, o.expert);
}

}  // namespace gpufs::apps
