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
  f.paths = look_at_paths(settings, temp_folder());
  try {
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

void print_json(facts const& f, config const& settings,
                std::function<std::string(setting const&)> const& origin) {
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
  json_line values;
  for (auto const& s : gpufs::settings()) {
    values.object(s.key, json_line().text("value", s.print(settings)).text("origin", origin(s)));
  }
  fmt::print("{}\n", j.object("settings", values).str());
}

void print_all(char const* heading, std::vector<ability> const& all) {
  fmt::print("{}\n", heading);
  for (auto const& a : all) {
    fmt::print("  {:<30} {}{}{}\n", a.name, a.works ? "works" : "does not work",
               a.remark.empty() ? "" : ": ", a.remark);
  }
}

/// The settings, one line each. Unless `expert`: the last line says how many were left out.
void print_settings(config const& settings,
                    std::function<std::string(setting const&)> const& origin, bool expert) {
  std::size_t left_out = 0;
  fmt::print("settings:\n");
  for (auto const& s : gpufs::settings()) {
    if (s.is_expert && !expert)
      ++left_out;
    else
      fmt::print("  {:<16} {:<10} {:<14} {}\n", s.key, s.print(settings), origin(s), s.help);
  }
  if (left_out != 0)
    fmt::print("gpufs info --expert lists {} more settings, for tests and measurements\n",
               left_out);
}

void print_text(facts const& f, config const& settings,
                std::function<std::string(setting const&)> const& origin, bool expert) {
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
  print_settings(settings, origin, expert);
}

}  // namespace

void print_info(config const& settings, std::function<std::string(setting const&)> const& origin,
                info_options const& o) {
  facts const f = look(settings);
  o.json ? print_json(f, settings, origin) : print_text(f, settings, origin, o.expert);
}

}  // namespace gpufs::apps
