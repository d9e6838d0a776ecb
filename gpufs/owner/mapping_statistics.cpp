#include <gpufs/mapping_statistics.hpp>
#include <gpufs/owner/counter_fields.hpp>

#include <array>

namespace gpufs {

namespace {

#define GPUFS_FIELD(name, help) \
  owner::counter_field<mapping_statistics>{#name, &mapping_statistics::name},
constexpr std::array fields{GPUFS_MAPPING_COUNTERS(GPUFS_FIELD)};
#undef GPUFS_FIELD

}  // namespace

mapping_statistics mapping_statistics::operator-(mapping_statistics const& earlier) const {
  return owner::difference(fields, *this, earlier);
}

std::string to_text(mapping_statistics const& s) { return owner::lines_of(fields, s); }

std::string to_json_fields(mapping_statistics const& s) {
  return owner::json_members_of(fields, s);
}

}  // namespace gpufs
