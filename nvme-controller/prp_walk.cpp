#include <nvme-controller/prp_walk.hpp>

#include <algorithm>
#include <cstring>

namespace gpufs::nvme_controller {

namespace {

using nvme::page_bytes;
namespace status = nvme::status;

/// Reads the entries of a list one by one. The last entry of a page of a list names the next page,
/// unless it is the last entry of all.
class list_reader {
 public:
  list_reader(range_table const& table, std::uint64_t at) : table_{table}, at_{at} {}

  /// `left`: entries that are still to be read, with this one.
  [[nodiscard]] std::uint16_t next(std::uint64_t left, std::uint64_t& entry) {
    if (std::uint16_t const error = load(entry); error != status::success) return error;
    if (at_ % page_bytes != 0 || left == 1) return status::success;
    at_ = entry;  // the last one of its page
    if (at_ % page_bytes != 0) return status::invalid_prp_offset;
    return load(entry);
  }

 private:
  [[nodiscard]] std::uint16_t load(std::uint64_t& entry) {
    if (at_ % 8 != 0) return status::invalid_prp_offset;
    std::byte const* const memory = find_memory(table_, at_, 8);
    if (memory == nullptr) return status::data_transfer_error;
    std::memcpy(&entry, memory, 8);
    at_ += 8;
    return status::success;
  }

  range_table const& table_;
  std::uint64_t at_;
};

std::uint16_t append(range_table const& table, std::uint64_t bus, std::uint64_t bytes,
                     std::vector<segment>& out) {
  std::byte* const memory = find_memory(table, bus, bytes);
  if (memory == nullptr) return status::data_transfer_error;
  out.push_back({memory, bytes});
  return status::success;
}

}  // namespace

std::uint16_t walk_prps(range_table const& table, nvme::prp_pair entries, std::uint64_t bytes,
                        std::vector<segment>& out) {
  if (entries.first % 4 != 0) return status::invalid_prp_offset;
  std::uint64_t const first = std::min(bytes, page_bytes - entries.first % page_bytes);
  if (std::uint16_t const error = append(table, entries.first, first, out); error != 0)
    return error;
  bytes -= first;
  if (bytes == 0) return status::success;
  if (bytes <= page_bytes) {
    if (entries.second % page_bytes != 0) return status::invalid_prp_offset;
    return append(table, entries.second, bytes, out);
  }
  list_reader list{table, entries.second};
  while (bytes > 0) {
    std::uint64_t entry = 0;
    std::uint64_t const left = (bytes + page_bytes - 1) / page_bytes;
    if (std::uint16_t const error = list.next(left, entry); error != 0) return error;
    if (entry % page_bytes != 0) return status::invalid_prp_offset;
    std::uint64_t const part = std::min<std::uint64_t>(bytes, page_bytes);
    if (std::uint16_t const error = append(table, entry, part, out); error != 0) return error;
    bytes -= part;
  }
  return status::success;
}

}  // namespace gpufs::nvme_controller
