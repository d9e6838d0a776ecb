// Options of gpufs-mapping that mean nothing for what is run.
#include <apps/common/program.hpp>
#include <apps/mapping/options.hpp>
#include <apps/mapping/workload.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

namespace gpufs::apps::workloads {

namespace {

/// Options of variants, protocols and backings.
void check_way_options(options const& o, std::vector<way> const& ways) {
  options const unset;
  bool const is_shared = std::ranges::find(ways, variant::shared, &way::how) != ways.end();
  auto const is_automatic = [](way const& w) {
    return w.how == variant::shared && w.backing == memory_backing::automatic;
  };
  bool const has_protocol = std::ranges::any_of(ways, is_automatic);
  bool const rolls = std::ranges::any_of(ways, [&](way const& w) {
    return is_automatic(w) && w.protocol == coherence_protocol::rolling;
  });
  auto const check = [](char const* option, std::vector<std::string> const& given,
                        std::vector<std::string> const& usual, bool has_owner, char const* owner) {
    if (given != usual && !has_owner)
      throw usage_error(fmt::format("{}={}: is of {}", option, fmt::join(given, ","), owner));
  };
  check("--backing", o.backings, unset.backings, is_shared, "--variant=shared");
  check("--protocol", o.protocols, unset.protocols, has_protocol,
        is_shared ? "--backing=auto" : "--variant=shared");
  check("--block", o.blocks, unset.blocks, rolls, "--variant=shared with --protocol=rolling");
  check("--rolling", o.rolling, unset.rolling, rolls, "--variant=shared with --protocol=rolling");
}

/// Options of one variant, of workloads with files, or of what is printed.
void check_owned_options(options const& o, description const& of, std::vector<way> const& ways) {
  options const unset;
  bool const is_shared = std::ranges::find(ways, variant::shared, &way::how) != ways.end();
  bool const is_managed = std::ranges::find(ways, variant::managed, &way::how) != ways.end();
  struct owned {
    char const* option;
    bool is_given, has_owner;
    char const* owner;
  };
  for (owned const& one : std::initializer_list<owned>{
           {"--declare", o.declare, is_shared, "--variant=shared"},
           {"--no-eager", o.no_eager, is_shared, "--variant=shared"},
           {"--no-eager", o.no_eager, of.has_files, "workloads with files"},
           {"--chunk", o.chunk != unset.chunk, is_shared, "--variant=shared"},
           {"--host-memory", o.host_memory != unset.host_memory, is_shared, "--variant=shared"},
           {"--spill-dir", !o.spill_dir.empty(), is_shared, "--variant=shared"},
           {"--device-memory", o.device_memory != unset.device_memory, is_shared || is_managed,
            "--variant=shared or managed"},
           {"--cold", o.cold, of.has_files, "workloads with files"},
           {"--keep-files", o.keep_files, of.has_files, "workloads with files"},
           {"--kernel-times", o.kernel_times, of.has_files, "workloads with files"},
           {"--summary", o.summary, !o.json, "the text, which --json leaves out"},
           {"--counters", o.counters, !o.json && !o.summary,
            "the text of each run, which --json and --summary leave out"}}) {
    if (one.is_given && !one.has_owner)
      throw usage_error(fmt::format("{}: is of {}", one.option, one.owner));
  }
}

}  // namespace

void check_given(options const& o, description const& of, std::vector<way> const& ways) {
  check_way_options(o, ways);
  check_owned_options(o, of, ways);
}

}  // namespace gpufs::apps::workloads
