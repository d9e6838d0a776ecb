#include <gpufs/file_statistics.hpp>
#include <gpufs/owner/counter_fields.hpp>

#include <array>

namespace gpufs {

namespace {

#define GPUFS_FIELD(name, help) \
  owner::counter_field<file_statistics>{#name, &file_statistics::name},
constexpr std::array fields{GPUFS_FILE_COUNTERS(GPUFS_FIELD)};
#undef GPUFS_FIELD

}  // namespace

file_statistics file_statistics::operator-(file_statistics const& earlier) const {
  return owner::difference(fields, *this, earlier);
}

std::string to_text(file_statistics const& s) { return owner::lines_of(fields, s); }

std::string to_json_fields(file_statistics const& s) { return owner::json_members_of(fields, s); }

}  // namespace gpufs
