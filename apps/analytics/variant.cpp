#include <apps/analytics/variant.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace gpufs::apps::analytics {

namespace {

constexpr std::array<std::pair<variant, std::string_view>, 9> all_names = {{
    {variant::array, "array"},
    {variant::pointer, "pointer"},
    {variant::gread, "gread"},
    {variant::zerocopy, "zerocopy"},
    {variant::managed, "managed"},
    {variant::copy, "copy"},
    {variant::pipeline, "pipeline"},
    {variant::memory, "memory"},
    {variant::tiles, "tiles"},
}};

}  // namespace

std::string_view name_of(variant v) {
  return std::ranges::find(all_names, v, &std::pair<variant, std::string_view>::first)->second;
}

std::vector<std::string> names_of(std::vector<variant> const& all) {
  std::vector<std::string> names;
  for (auto const v : all) names.emplace_back(name_of(v));
  return names;
}

variant variant_named(std::string_view name) {
  auto const found =
      std::ranges::find(all_names, name, &std::pair<variant, std::string_view>::second);
  if (found == all_names.end()) throw usage_error(fmt::format("--variant={}: no such", name));
  return found->first;
}

}  // namespace gpufs::apps::analytics
