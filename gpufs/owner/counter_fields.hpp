// What statistics that consist of counters have in common. `fields` lists the counters: each has a
// name and a pointer to its member.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace gpufs::owner {

template <class Statistics>
struct counter_field {
  char const* name;
  std::uint64_t Statistics::*value;
};

/// What was counted between two snapshots.
template <class Statistics, class Fields>
[[nodiscard]] Statistics difference(Fields const& fields, Statistics const& later,
                                    Statistics const& earlier) {
  Statistics d;
  for (auto const& f : fields) d.*f.value = later.*f.value - earlier.*f.value;
  return d;
}

/// A line for each counter that is not 0.
template <class Statistics, class Fields>
[[nodiscard]] std::string lines_of(Fields const& fields, Statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    if (s.*f.value != 0) out += fmt::format("  {:<18} {}\n", f.name, s.*f.value);
  return out;
}

/// Members as they stand inside a JSON object.
template <class Statistics, class Fields>
[[nodiscard]] std::string json_members_of(Fields const& fields, Statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", f.name, s.*f.value);
  return out;
}

}  // namespace gpufs::owner
