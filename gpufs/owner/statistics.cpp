#include <gpufs/statistics.hpp>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace gpufs {

namespace {

struct field {
  char const* name;
  std::uint64_t statistics::*value;
};

#define GPUFS_FIELD(name, help) field{#name, &statistics::name},
constexpr std::array fields{GPUFS_DEVICE_COUNTERS(GPUFS_FIELD) GPUFS_HOST_COUNTERS(GPUFS_FIELD)};
#undef GPUFS_FIELD

}  // namespace

statistics statistics::operator-(statistics const& earlier) const {
  statistics d;
  for (auto const& f : fields) d.*f.value = this->*f.value - earlier.*f.value;
  return d;
}

std::string to_text(statistics const& s) {
  std::string out;
  for (auto const& f : fields) {
    if (s.*f.value != 0) out += fmt::format("  {:<18} {}\n", f.name, s.*f.value);
  }
  return out;
}

std::string to_json_fields(statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", f.name, s.*f.value);
  return out;
}

}  // namespace gpufs
