// Variants of a program run in turns, so that what changes on the machine meets all of them.
#pragma once

#include <apps/analytics/outcome.hpp>
#include <apps/analytics/run_options.hpp>
#include <apps/common/progress.hpp>
#include <apps/harness/data_set.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::analytics {

/// Brings a file into the OS page cache before a run, or drops it from there if --cold says so.
inline void prepare(run_options const& o, data_file const& file) {
  o.cold ? file.file.drop_from_page_cache() : file.file.load_into_page_cache(file.file.size());
}

/// Runs each variant --runs times, in turns, and returns what the runs came to.
/// `make(variant)` returns what runs a variant. `run(made, i)` makes a run of the i-th one, and
/// returns its outcome. `check(i, outcome)` returns what is wrong with it, or an empty text; it is
/// called with --check until it finds something.
template <class Make, class Run, class Check>
std::vector<measured> run_in_turns(run_options const& o, std::string_view what, Make const& make,
                                   Run const& run, Check const& check) {
  std::vector<measured> all;
  std::vector<decltype(make(variant{}))> made;
  for (auto const& name : o.variants) {
    all.push_back({variant_named(name), {}, {}});
    made.push_back(make(all.back().how));
  }
  progress shown("", static_cast<std::uint64_t>(o.runs) * all.size());
  for (std::int64_t n = 0; n < o.runs; ++n) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      measured& m = all[i];
      shown.say(fmt::format("{}{}, run {} of {}", what, name_of(m.how), n + 1, o.runs));
      m.runs.push_back(run(*made[i], i));
      if (o.check && m.wrong.empty()) m.wrong = check(i, m.runs.back());
      shown.advance(1);
    }
  }
  return all;
}

}  // namespace gpufs::apps::analytics
