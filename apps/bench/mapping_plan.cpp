#include <apps/bench/mapping_plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gpufs::apps {

namespace {

using words = std::vector<std::string>;

struct figure_runs {
  char const* name;
  std::vector<mapping_run> (*make)(mapping_conditions const&);
};

/// `name`, a workload and its options.
mapping_run run(std::string name, words arguments, words const& more = {}) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return {std::move(name), std::move(arguments)};
}

words rounds(mapping_conditions const& c) { return {"--runs", std::to_string(c.runs)}; }

words warm_rounds(mapping_conditions const& c) {
  auto all = rounds(c);
  all.emplace_back("--warm-up");
  return all;
}

// ADSM, figures 7, 8 and 10.
std::vector<mapping_run> of_programs(mapping_conditions const& c) {
  std::vector<mapping_run> all;
  for (char const* const w :
       {"vecadd", "wave", "lists", "cp", "tpacf", "mri-q", "mri-fhd", "pns", "sad", "rpes"})
    all.push_back(run("programs",
                      {w, "--size", c.is_smoke ? "smoke" : "paper", "--variant", "hand,shared",
                       "--protocol", "rolling,lazy,batch"},
                      warm_rounds(c)));
  return all;
}

// A stencil with source and dump, by the edge.
std::vector<mapping_run> of_edges(mapping_conditions const& c) {
  std::vector<mapping_run> all;
  for (auto const* const n :
       c.is_smoke ? std::vector{"9", "13"} : std::vector{"64", "128", "192", "256", "384"})
    all.push_back(run("figure9",
                      {"wave", "--size", n, "--variant", "hand,shared", "--protocol",
                       "rolling,lazy", "--block", "64K"},
                      warm_rounds(c)));
  return all;
}

// Vector addition, by the block.
std::vector<mapping_run> of_blocks(mapping_conditions const& c) {
  return {run("figure11",
              {"vecadd", "--size", c.is_smoke ? "smoke" : "8M", "--variant", "hand,shared",
               "--block", "4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M,8M,16M,32M"},
              warm_rounds(c))};
}

// Three streams of writes in one object, by the block.
std::vector<mapping_run> of_streams(mapping_conditions const& c) {
  return {run("figure12",
              {"tpacf", "--size", c.is_smoke ? "smoke" : "paper", "--variant", "hand,shared",
               "--rolling", "4,auto", "--block", "128K,1M,8M,32M"},
              warm_rounds(c))};
}

words const file_workloads[] = {{"vectorAdd"},
                                {"BlackScholes"},
                                {"hotspot"},
                                {"pathfinder"},
                                {"srad_v2"},
                                {"backprop"},
                                {"binomialOptions", "--set", "steps=64"},
                                {"lavaMD"}};

words footprint(mapping_conditions const& c, char const* paper) {
  return c.is_smoke ? words{} : words{"--footprint", paper};
}

std::vector<mapping_run> of_files(mapping_conditions const& c, std::string const& name,
                                  words const& more) {
  std::vector<mapping_run> all;
  for (auto const& w : file_workloads) {
    auto arguments = footprint(c, "4G");
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto const of_all = rounds(c);
    arguments.insert(arguments.end(), of_all.begin(), of_all.end());
    all.push_back(run(name, w, arguments));
  }
  return all;
}

// DRAGON, figure 3.
std::vector<mapping_run> of_all_variants(mapping_conditions const& c) {
  // The emulated device has no managed memory.
  return of_files(c, "mapping_files",
                  {"--variant", c.is_emulated ? "naive,hand,shared" : "naive,hand,managed,shared"});
}

// Files that are read from map() on, or when a launch needs them.
std::vector<mapping_run> of_eager(mapping_conditions const& c) {
  words const all = {"--variant", "shared", "--declare", "--cold"};
  auto later = all;
  later.emplace_back("--no-eager");
  auto runs = of_files(c, "dragon5", all);
  for (auto& r : of_files(c, "dragon5", later)) runs.push_back(std::move(r));
  return runs;
}

// Scratch in less and less of the host's memory.
std::vector<mapping_run> of_scratch(mapping_conditions const& c) {
  std::vector<mapping_run> all;
  auto const sizes = c.is_smoke ? std::vector{"32M", "12M", "4M", "0"}
                                : std::vector{"4G", "3G", "2G", "1G", "512M", "0"};
  for (auto const* const host : sizes)
    all.push_back(
        run("dragon6",
            {"layers", "--variant", "shared", "--declare", "--footprint", c.is_smoke ? "24M" : "4G",
             "--device-memory", c.is_smoke ? "8M" : "512M", "--host-memory", host, "--chunk",
             c.is_smoke ? "2M" : "64M", "--spill-dir", c.folder},
            rounds(c)));
  return all;
}

constexpr figure_runs all_figures[] = {
    {"adsm7", of_programs},       {"adsm8", of_programs}, {"adsm9", of_edges},
    {"adsm10", of_programs},      {"adsm11", of_blocks},  {"adsm12", of_streams},
    {"dragon3", of_all_variants}, {"dragon5", of_eager},  {"dragon6", of_scratch},
};

}  // namespace

std::vector<std::string> mapping_figures() {
  std::vector<std::string> names;
  for (auto const& f : all_figures) names.emplace_back(f.name);
  return names;
}

std::vector<mapping_run> runs_of(std::vector<std::string> const& figures,
                                 mapping_conditions const& under) {
  std::vector<mapping_run> all;
  std::set<decltype(figure_runs::make)> made;
  for (auto const& f : all_figures) {
    bool const is_asked = std::ranges::any_of(
        figures, [&](std::string const& name) { return name == f.name || name == "all"; });
    if (!is_asked || !made.insert(f.make).second) continue;
    for (auto& r : f.make(under)) all.push_back(std::move(r));
  }
  return all;
}

}  // namespace gpufs::apps
