#include <gpufs/config.hpp>

#include <apps/common/program.hpp>
#include <apps/mapping/options.hpp>
#include <apps/mapping/workload.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>

namespace gpufs::apps::workloads {

namespace {

constexpr variant all_variants[] = {variant::naive, variant::hand, variant::managed,
                                    variant::shared, variant::cpu};
constexpr memory_backing all_backings[] = {memory_backing::automatic, memory_backing::managed};
constexpr coherence_protocol all_protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                                coherence_protocol::rolling};

template <class Value, std::size_t Count>
Value named(std::string_view option, std::string const& text, Value const (&all)[Count]) {
  std::string names;
  for (auto const v : all) {
    if (text == name_of(v)) return v;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(v));
  }
  throw usage_error(fmt::format("{}={}: must be one of {}", option, text, names));
}

/// A number, which may have a suffix as sizes have. Throws usage_error naming `option` unless it is
/// from `low` to `high`.
std::uint64_t number_option(std::string const& option, std::string const& text, std::uint64_t low,
                            std::uint64_t high) {
  auto const wrong = [&] {
    return usage_error(
        fmt::format("{}={}: must be a number from {} to {}", option, text, low, high));
  };
  try {
    std::uint64_t const number = parse_size(text, option);
    if (number < low || number > high) throw wrong();
    return number;
  } catch (config_error const&) {
    throw wrong();
  }
}

/// Bytes, a power of two.
std::uint64_t power_option(std::string const& option, std::string const& text, std::uint64_t low,
                           std::uint64_t high) {
  std::uint64_t const bytes = size_option(option, text, low, high);
  if (std::has_single_bit(bytes)) return bytes;
  throw usage_error(fmt::format("{}={}: must be auto or a power of two from {} to {}", option, text,
                                format_size(low), format_size(high)));
}

std::uint64_t block_of(std::string const& text) {
  if (text == "auto") return block_automatic;
  return power_option("--block", text, 4 << 10, 32 << 20);
}

std::uint64_t chunk_of(std::string const& text) {
  if (text == "auto") return chunk_automatic;
  return power_option("--chunk", text, 2 << 20, 1 << 30);
}

std::uint32_t rolling_of(std::string const& text) {
  if (text == "auto") return rolling_automatic;
  return static_cast<std::uint32_t>(number_option("--rolling", text, 1, 1 << 30));
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  return bytes % (1 << 10) == 0 ? fmt::format("{}K", bytes >> 10) : fmt::format("{}", bytes);
}

void require_multiple(std::string const& option, std::string const& text, std::uint64_t value,
                      parameter const& p) {
  if (value % p.multiple_of == 0) return;
  throw usage_error(fmt::format("{}={}: must be a multiple of {} from {} to {}", option, text,
                                p.multiple_of, p.low, p.high));
}

/// --size, if it is a number.
void set_first(setup& s, description const& of, std::string const& text) {
  auto const& first = of.parameters.front();
  auto const number = of.has_files ? size_option("--footprint", text, first.low, first.high)
                                   : number_option("--size", text, first.low, first.high);
  require_multiple("--size", text, number, first);
  s.numbers[first.name] = number;
  s.is_smoke = number <= first.smoke;
}

/// One --set. `given` are the names that have a value.
void set_number(setup& s, description const& of, std::string const& text,
                std::set<std::string>& given) {
  auto const at = text.find('=');
  auto const name = text.substr(0, at);
  auto const found = std::ranges::find(of.parameters, name, &parameter::name);
  if (at == text.npos || found == of.parameters.end()) {
    std::string names;
    for (auto const& p : of.parameters) names += fmt::format(" {}", p.name);
    throw usage_error(
        fmt::format("--set={}: must be NAME=NUMBER with a name of {}:{}", text, of.name, names));
  }
  if (!given.insert(name).second)
    throw usage_error(
        fmt::format("--set={}: {} has a value already, by --size or another --set", text, name));
  auto const number_text = text.substr(at + 1);
  auto const number = number_option("--set " + name, number_text, found->low, found->high);
  require_multiple("--set " + name, number_text, number, *found);
  s.numbers[name] = number;
}

/// Blocks and rolling sizes matter to rolling alone.
void add_shared(std::vector<way>& ways, options const& o, coherence_protocol p) {
  for (auto const& b : o.blocks) {
    for (auto const& r : o.rolling) {
      way const w{
          .how = variant::shared, .protocol = p, .block = block_of(b), .rolling = rolling_of(r)};
      if (p == coherence_protocol::rolling) ways.push_back(w);
    }
  }
  if (p != coherence_protocol::rolling) ways.push_back({.how = variant::shared, .protocol = p});
}

}  // namespace

char const* name_of(variant v) {
  switch (v) {
    case variant::naive: return "naive";
    case variant::hand: return "hand";
    case variant::managed: return "managed";
    case variant::shared: return "shared";
    case variant::cpu: break;
  }
  return "cpu";
}

char const* name_of(coherence_protocol p) {
  return p == coherence_protocol::batch  ? "batch"
         : p == coherence_protocol::lazy ? "lazy"
                                         : "rolling";
}

char const* name_of(memory_backing b) { return b == memory_backing::managed ? "managed" : "auto"; }

std::string text_of(way const& w) {
  if (w.how != variant::shared) return name_of(w.how);
  if (w.backing == memory_backing::managed) return "shared managed";
  std::string text = fmt::format("shared {}", name_of(w.protocol));
  if (w.block != block_automatic) text += fmt::format(" {}", bytes_text(w.block));
  if (w.rolling != rolling_automatic) text += fmt::format(", {} blocks", w.rolling);
  return text;
}

void add_options(CLI::App& app, options& o) {
  app.add_option("workload", o.workload, "the workload's name, or list: prints their names")
      ->required();
  auto const list = [&](char const* name, std::vector<std::string>& to, char const* what) {
    app.add_option(name, to, what)->delimiter(',')->capture_default_str();
  };
  list("--variant", o.variants,
       "hand, shared, cpu, and of file workloads naive, managed; several take turns");
  list("--backing", o.backings,
       "of shared: auto, or managed = in CUDA's managed memory; several take turns");
  list("--protocol", o.protocols, "of shared: batch, lazy, rolling; several take turns");
  list("--block", o.blocks, "of rolling: bytes of a block, 4K to 32M, or auto; several take turns");
  list("--rolling", o.rolling,
       "of rolling: blocks that may be written, or auto; several take turns");
  app.add_flag("--declare", o.declare, "launches declare what they use");
  app.add_option("--size,--footprint", o.size,
                 "smoke, paper, or a number for the first parameter; of file workloads: bytes")
      ->capture_default_str();
  app.add_option("--set", o.settings, "NAME=NUMBER: another parameter of the workload");
  app.add_option("--seed", o.seed, "of the input")->capture_default_str();
  app.add_option("--dir,--folder", o.folder, "folder of files, which are removed")
      ->capture_default_str();
  app.add_flag("--keep-files", o.keep_files, "leave the folders of files that are made in --dir");
  app.add_flag("--no-eager", o.no_eager,
               "of shared in programs with files: they are read when a launch needs them, not from "
               "map() on");
  app.add_flag("--kernel-times", o.kernel_times,
               "of file workloads: wait for each kernel; `kernels` is the device's time then");
  app.add_flag("--cold", o.cold, "drop files from the OS page cache before each run");
  app.add_option("--host-memory", o.host_memory,
                 "of shared: most host memory that the GPU uses over the bus; auto: a quarter")
      ->capture_default_str();
  app.add_option("--chunk", o.chunk,
                 "of shared: bytes that change their memory at once, 2M to 1G, or auto")
      ->capture_default_str();
  app.add_option("--spill-dir", o.spill_dir,
                 "of shared: folder for scratch that --host-memory does not hold; none by default");
  app.add_option("--profile", o.profile,
                 "of shared in programs with files, with --declare: file of what launches touch; "
                 "written with --backing managed, used otherwise");
  app.add_option("--device-memory", o.device_memory,
                 "of shared, and of managed in programs with files: most GPU memory; 0: what is "
                 "free")
      ->capture_default_str();
  app.add_option("--runs", o.runs, "runs of each variant")->capture_default_str();
  app.add_flag("--warm-up", o.warm_up, "one more run of each variant first, which is not reported");
  app.add_flag("--check", o.check, "check results and counters");
  app.add_flag("--json", o.json, "print a JSON object per run instead of text");
  app.add_option("--json-to", o.json_file, "append these objects to a file");
  app.add_flag("--summary", o.summary, "print the medians only");
  app.add_flag("--counters", o.counters, "print what moved, by its reason");
}

std::vector<way> ways_of(options const& o, description const& of) {
  std::vector<way> ways;
  for (auto const& text : o.variants) {
    auto const how = named("--variant", text, all_variants);
    if (!of.has_files && (how == variant::naive || how == variant::managed))
      throw usage_error(fmt::format(
          "--variant={}: {} has no files, must be one of hand, shared, cpu", text, of.name));
    if (how != variant::shared) {
      ways.push_back({.how = how});
      continue;
    }
    for (auto const& b : o.backings) {
      if (named("--backing", b, all_backings) == memory_backing::managed) {
        ways.push_back({.how = how, .backing = memory_backing::managed});
        continue;
      }
      for (auto const& p : o.protocols) add_shared(ways, o, named("--protocol", p, all_protocols));
    }
  }
  check_given(o, of, ways);
  return ways;
}

setup setup_of(options const& o, description const& of) {
  setup s;
  s.seed = o.seed;
  s.folder = o.folder;
  s.is_cold = o.cold;
  s.keeps_files = o.keep_files;
  s.is_declared = o.declare;
  s.times_kernels = o.kernel_times;
  s.memory.device_memory = size_option("--device-memory", o.device_memory, 0, 1ull << 48);
  s.memory.host_memory = o.host_memory == "auto"
                             ? host_memory_automatic
                             : size_option("--host-memory", o.host_memory, 0, 1ull << 48);
  s.memory.spill_dir = o.spill_dir;
  if (!o.profile.empty() && !(of.has_files && o.declare))
    throw usage_error(
        fmt::format("--profile={}: must be left out, or beside --declare and a "
                    "workload with files",
                    o.profile));
  s.memory.mapping_profile = o.profile;
  s.is_eager = !o.no_eager;
  s.memory.chunk_size = chunk_of(o.chunk);
  bool const is_paper = o.size == "paper";
  s.is_smoke = !is_paper;
  for (auto const& p : of.parameters) s.numbers[p.name] = is_paper ? p.paper : p.smoke;
  std::set<std::string> given;
  if (o.size != "smoke" && !is_paper) {
    set_first(s, of, o.size);
    given.insert(of.parameters.front().name);
  }
  for (auto const& text : o.settings) set_number(s, of, text, given);
  return s;
}

}  // namespace gpufs::apps::workloads
