#include <gpufs/file_statistics.hpp>

#include <fmt/format.h>

#include <array>

namespace gpufs {

namespace {

struct field {
  char const* name;
  std::uint64_t file_statistics::*value;
};

#define GPUFS_FIELD(name, help) field{#name, &file_statistics::name},
constexpr std::array fields{GPUFS_FILE_COUNTERS(GPUFS_FIELD)};
#undef GPUFS_FIELD

}  // namespace

file_statistics file_statistics::operator-(file_statistics const& earlier) const {
  file_statistics d;
  for (auto const& f : fields) d.*f.value = this->*f.value - earlier.*f.value;
  return d;
}

std::string to_text(file_statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    if (s.*f.value != 0) out += fmt::format("  {:<18} {}\n", f.name, s.*f.value);
  return out;
}

std::string to_json_fields(file_statistics const& s) {
  std::string out;
  for (auto const& f : fields)
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", f.name, s.*f.value);
  return out;
}

}  // namespace gpufs
