#include <gpufs/mapping_statistics.hpp>

#include <fmt/format.h>

#include <array>

namespace gpufs {

namespace {

struct field {
  char const* name;
  std::uint64_t mapping_statistics::*value;
};

#define GPUFS_FIELD(name, help) field{#name, &mapping_statistics::name},
constexpr std::array fields{GPUFS_MAPPING_COUNTERS(GPUFS_FIELD)};
#undef GPUFS_FIELD

}  // namespace

mapping_statistics mapping_statistics::operator-(mapping_statistics const& earlier) const {
  mapping_statistics d;
  for (auto const& f : fields) d.*f.value = this->*f.value - earlier.*f.value;
  return d;
}

std::string to_text(mapping_statistics const& s) {
  std::string out;
  for (auto const& f : fields) {
    if (s.*f.value != 0) out += fmt::format("  {:<18} {}\n", f.name, s.*f.value);
  }
  return out;
}

std::string to_json_fields(mapping_statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", f.name, s.*f.value);
  return out;
}

}  // namespace gpufs
