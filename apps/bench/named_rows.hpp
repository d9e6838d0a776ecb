// The rows of a table that `--only` names.
#pragma once

#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gpufs::apps {

/// Returns the rows of `all` with these keys, in the keys' order. Throws usage_error for a key of
/// no row.
template <class Row>
[[nodiscard]] std::vector<Row> named_rows(std::vector<Row> const& all,
                                          std::vector<std::string> const& only) {
  std::vector<Row> rows;
  for (auto const& key : only) {
    auto const at = std::ranges::find_if(all, [&](Row const& row) { return key == row.key; });
    if (at == all.end()) {
      std::string names;
      for (auto const& row : all) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.key);
      throw usage_error(fmt::format("--only={}: must be among {}", key, names));
    }
    rows.push_back(*at);
  }
  return rows;
}

}  // namespace gpufs::apps
