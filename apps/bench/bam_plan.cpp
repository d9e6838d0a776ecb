#include <apps/bench/bam_plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace gpufs::apps {

namespace {

using words = std::vector<std::string>;

struct figure_runs {
  char const* name;
  std::vector<bam_run> (*make)(bam_conditions const&);
};

bam_run run(char const* program, char const* results, bam_conditions const& c, words arguments) {
  for (auto const& word : {std::string("--runs"), std::to_string(c.runs), std::string("--json")})
    arguments.push_back(word);
  return {program, std::move(arguments), results};
}

std::string graph_of(bam_conditions const& c) { return c.folder + "/bam-urand.csr"; }

/// Edges of the graph take 16 * 2 * 8 bytes for each of 2^scale vertices.
unsigned scale_of(bam_conditions const& c) { return c.is_smoke ? 10 : 22; }
std::uint64_t list_bytes(bam_conditions const& c) { return std::uint64_t{256} << scale_of(c); }

std::vector<bam_run> with_graph(bam_conditions const& c) {
  return {{"gpufs-graph",
           {"make", "--file", graph_of(c), "--generator", "urand", "--scale",
            std::to_string(scale_of(c))}}};
}

bam_run search(char const* results, bam_conditions const& c, char const* algorithm,
               char const* variants, words more) {
  words arguments{"run",      "--file", graph_of(c), "--algorithm", algorithm,
                  "--source", "1",      "--variant", variants};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run("gpufs-graph", results, c, arguments);
}

words cache(std::uint64_t bytes) { return {"--cache-size", std::to_string(bytes)}; }
std::uint64_t quarter(bam_conditions const& c) { return list_bytes(c) / 4; }

// Figure 4: random reads from modelled drives.
std::vector<bam_run> of_drive_counts(bam_conditions const& c) {
  return {{"gpufs",
           {"bench", "nvme", "--only", "drives", "--runs", std::to_string(c.runs), "--json",
            "/dev/stdout"},
           "iops"}};
}

// Figure 5: a stream, by the bytes of a request. From a memory namespace by commands of kernels,
// and from a file by the daemon.
std::vector<bam_run> of_requests(bam_conditions const& c) {
  std::vector<bam_run> all;
  std::string const size = c.is_smoke ? "2M" : "4G";
  auto const requests = c.is_smoke ? words{"4K", "64K"}
                                   : words{"4K", "8K", "16K", "32K", "64K", "128K", "256K", "1M"};
  for (auto const& bytes : requests) {
    for (auto const& file :
         {words{"--file", "nvme:mem:" + size}, words{"--dir", c.folder, "--size", size}}) {
      words arguments{"bench", "strided", "--json", "--runs", std::to_string(c.runs),
                      "--req", bytes};
      arguments.insert(arguments.end(), file.begin(), file.end());
      all.push_back({"gpufs", std::move(arguments), "requests"});
    }
  }
  return all;
}

// Figure 6: warps read 256 bytes a step, 8 KiB each in turn, by pages. All threads of a GPU hold
// pages of 8 KiB at once, which takes more than the default cache.
std::vector<bam_run> of_lines(bam_conditions const& c) {
  std::vector<bam_run> all;
  auto const lookers = c.is_smoke ? std::vector{1u << 12} : std::vector{1u << 16, 1u << 20};
  for (auto const n : lookers) {
    for (char const* const page : {"512", "4K", "8K"}) {
      for (bool const hot : {false, true}) {
        words arguments{"--pattern", "sweep", "--lookers", std::to_string(n), "--steps", "32"};
        arguments.insert(arguments.end(), {"--elements", std::to_string(n * 32), "--page-size",
                                           page, "--variant", "array,pointer,memory"});
        if (hot) arguments.emplace_back("--hot");
        if (!c.is_smoke) arguments.insert(arguments.end(), {"--cache-size", "2G"});
        all.push_back(run("gpufs-lookups", "lines", c, arguments));
      }
    }
  }
  return all;
}

// Figures 7, 8 and 15: searches beside zero copy, managed memory, and arrays without held pages.
std::vector<bam_run> of_searches(bam_conditions const& c) {
  auto all = with_graph(c);
  for (char const* const algorithm : {"bfs", "cc"}) {
    all.push_back(search(
        "searches", c, algorithm,
        c.is_emulated ? "pointer,array,zerocopy,memory" : "pointer,array,zerocopy,managed,memory",
        cache(quarter(c))));
  }
  return all;
}

// Figure 8: lanes that share a page, and uses of a page while it is held.
std::vector<bam_run> of_reuse(bam_conditions const& c) {
  std::vector<bam_run> all;
  std::uint64_t const elements = c.is_smoke ? 1 << 14 : 1 << 24;
  std::uint64_t const lookers = c.is_smoke ? 1 << 10 : 1 << 18;
  for (char const* const lanes : {"1", "2", "8", "32"})
    for (char const* const uses : {"1", "8", "64"})
      all.push_back(run("gpufs-lookups", "reuse", c,
                        {"--pattern", "reuse", "--hot", "--elements", std::to_string(elements),
                         "--lookers", std::to_string(lookers), "--steps", "64", "--lanes", lanes,
                         "--uses", uses, "--variant", "array,pointer"}));
  return all;
}

// Figures 7 and 9: one and four modelled drives, and their kinds.
std::vector<bam_run> of_drives(bam_conditions const& c) {
  auto all = with_graph(c);
  for (char const* const algorithm : {"bfs", "cc"}) {
    for (char const* const drive : {"optane", "pm1735", "980pro"}) {
      for (char const* const count : {"1", "4"}) {
        auto more = cache(quarter(c));
        more.insert(more.end(), {"--drives", count, "--drive", drive});
        all.push_back(search("drives", c, algorithm, "pointer", more));
      }
    }
  }
  return all;
}

// Figure 10: the cache, from a thirty-second of the list on.
std::vector<bam_run> of_caches(bam_conditions const& c) {
  auto all = with_graph(c);
  for (std::uint64_t const part : {32, 16, 8, 4, 2, 1}) {
    // All of the list and some room, or a part of that.
    auto const bytes = std::max<std::uint64_t>(list_bytes(c) * 5 / 4 / part, 64 << 10);
    all.push_back(search("caches", c, "bfs", "pointer", cache(bytes)));
  }
  return all;
}

// Figure 11: queue pairs of four modelled drives.
std::vector<bam_run> of_queue_pairs(bam_conditions const& c) {
  auto all = with_graph(c);
  for (char const* const pairs : {"8", "16", "32", "64", "128"}) {
    auto more = cache(quarter(c));
    more.insert(more.end(), {"--drives", "4", "--nvme-queue-pairs", pairs});
    all.push_back(search("queue_pairs", c, "bfs", "pointer", more));
  }
  return all;
}

// Figures 12 and 14: the queries, beside whole columns.
std::vector<bam_run> of_queries(bam_conditions const& c) {
  std::vector<bam_run> all;
  std::string const rows = std::to_string(c.is_smoke ? 1 << 14 : 1 << 26);
  for (char const* const clustering : {"scattered", "runs"})
    all.push_back(run("gpufs-taxi", "queries", c,
                      {"--rows", rows, "--query", "0", "1", "2", "3", "4", "5", "--clustering",
                       clustering, "--variant", "pointer,pipeline,copy"}));
  return all;
}

std::vector<bam_run> of_vector_add(bam_conditions const& c) {
  return {run("gpufs-vectoradd", "vectoradd", c,
              {"--elements", std::to_string(c.is_smoke ? 1 << 14 : 1 << 26), "--variant",
               "pointer,tiles,copy"})};
}

constexpr figure_runs all_figures[] = {
    {"4", of_drive_counts}, {"5", of_requests},           {"6", of_lines},    {"7", of_searches},
    {"7", of_drives},       {"8", of_searches},           {"8", of_reuse},    {"9", of_drives},
    {"10", of_caches},      {"11", of_queue_pairs},       {"12", of_queries}, {"14", of_queries},
    {"15", of_searches},    {"vectoradd", of_vector_add},
};

}  // namespace

std::vector<std::string> bam_figures() {
  std::vector<std::string> names;
  for (auto const& f : all_figures)
    if (std::ranges::find(names, f.name) == names.end()) names.emplace_back(f.name);
  return names;
}

std::vector<bam_run> runs_of(std::vector<std::string> const& figures, bam_conditions const& under) {
  std::vector<bam_run> all;
  std::set<decltype(figure_runs::make)> made;
  bool has_graph = false;
  for (auto const& f : all_figures) {
    bool const is_asked = std::ranges::any_of(
        figures, [&](std::string const& name) { return name == f.name || name == "all"; });
    if (!is_asked || !made.insert(f.make).second) continue;
    for (auto& r : f.make(under)) {
      if (r.results.empty() && std::exchange(has_graph, true)) continue;
      all.push_back(std::move(r));
    }
  }
  return all;
}

}  // namespace gpufs::apps
