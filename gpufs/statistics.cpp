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

constexpr std::array fields{
    field{"hits", &statistics::hits},
    field{"misses", &statistics::misses},
    field{"waits", &statistics::waits},
    field{"evictions", &statistics::evictions},
    field{"requests", &statistics::requests},
    field{"read_requests", &statistics::read_requests},
    field{"prefetch_hits", &statistics::prefetch_hits},
    field{"bytes_delivered", &statistics::bytes_delivered},
    field{"bytes_pulled", &statistics::bytes_pulled},
    field{"bytes_dma", &statistics::bytes_dma},
    field{"bytes_mapped", &statistics::bytes_mapped},
    field{"timeouts", &statistics::timeouts},
    field{"errors", &statistics::errors},
    field{"bytes_written", &statistics::bytes_written},
    field{"maps", &statistics::maps},
    field{"unmaps", &statistics::unmaps},
    field{"host_reads", &statistics::host_reads},
    field{"host_bytes", &statistics::host_bytes},
    field{"host_bytes_direct", &statistics::host_bytes_direct},
    field{"host_writes", &statistics::host_writes},
    field{"host_bytes_written", &statistics::host_bytes_written},
    field{"windows_mapped", &statistics::windows_mapped},
    field{"windows_retired", &statistics::windows_retired},
    field{"idle_polls", &statistics::idle_polls},
};
static_assert(sizeof(statistics) == fields.size() * sizeof(std::uint64_t),
              "every counter is listed");

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
