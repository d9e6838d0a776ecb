#include <nvme-controller/admin_commands.hpp>
#include <nvme-controller/controller.hpp>
#include <nvme-controller/identity.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace gpufs::nvme_controller {

namespace status = nvme::status;
using nvme::admin_opcode;

namespace {

constexpr std::uint32_t contiguous = 1;
constexpr std::uint16_t command_sequence_error = 0x00c;

/// A queue's number in a map. It goes again unless it is kept, for instance as there is no memory.
template <class Map>
class new_name {
 public:
  new_name(Map& all, std::uint16_t id, typename Map::mapped_type value)
      : all_{all}, at_{all.emplace(id, value).first} {}
  ~new_name() {
    if (!kept_) all_.erase(at_);
  }
  new_name(new_name const&) = delete;
  new_name& operator=(new_name const&) = delete;
  void keep() { kept_ = true; }

 private:
  Map& all_;
  typename Map::iterator at_;
  bool kept_ = false;
};

}  // namespace

/// What creation of a queue asks for.
struct admin_commands::queue_request {
  std::uint16_t id;
  std::uint32_t entries;
  std::uint32_t flags;
  std::uint64_t bus;

  explicit queue_request(nvme::sqe const& e)
      : id{static_cast<std::uint16_t>(e.dw[10])},
        entries{(e.dw[10] >> 16) + 1},
        flags{e.dw[11]},
        bus{nvme::prp1_of(e)} {}
};

void admin_commands::reset() {
  cqs_.clear();
  sqs_.clear();
  kept_events_ = 0;
  granted_sqs_ = granted_cqs_ = most_queues;
  was_asked_ = made_queues_ = false;
}

outcome admin_commands::execute(nvme::sqe const& entry) {
  if (nvme::flags_of(entry) != 0) return outcome_of(status::invalid_field);
  auto const id = static_cast<std::uint16_t>(entry.dw[10]);
  switch (static_cast<admin_opcode>(nvme::opcode_of(entry))) {
    case admin_opcode::delete_sq: return outcome_of(delete_sq(id));
    case admin_opcode::create_sq: return outcome_of(create_sq(entry));
    case admin_opcode::get_log_page: return outcome_of(log_page(entry));
    case admin_opcode::delete_cq: return outcome_of(delete_cq(id));
    case admin_opcode::create_cq: return outcome_of(create_cq(entry));
    case admin_opcode::identify: return outcome_of(identify(entry));
    case admin_opcode::abort: return {.specific = 1};  // it was not aborted
    case admin_opcode::set_features: return feature(entry, true);
    case admin_opcode::get_features: return feature(entry, false);
    case admin_opcode::async_event_request:
      if (kept_events_ == most_events) return outcome_of(status::too_many_event_requests);
      ++kept_events_;
      return {.answers = false};
  }
  return outcome_of(status::invalid_opcode);
}

std::uint16_t admin_commands::check_place(queue_request const& asked, std::uint32_t entry_bytes,
                                          std::byte*& memory) const {
  if (asked.entries < 2 || asked.entries > entries_) return status::invalid_queue_size;
  if (asked.bus % nvme::page_bytes != 0) return status::invalid_prp_offset;
  if ((asked.flags & contiguous) == 0) return status::invalid_field;  // CAP.CQR
  memory = find_memory(*memory_.snapshot(), asked.bus, std::uint64_t{asked.entries} * entry_bytes);
  return memory == nullptr ? status::data_transfer_error : status::success;
}

std::uint16_t admin_commands::create_cq(nvme::sqe const& entry) {
  queue_request const asked{entry};
  if (asked.id == 0 || asked.id > granted_cqs_ || cqs_.contains(asked.id))
    return status::invalid_queue_id;
  std::byte* memory = nullptr;
  if (std::uint16_t const error = check_place(asked, sizeof(nvme::cqe), memory); error != 0)
    return error;
  new_name name{cqs_, asked.id, 0};
  thread_of(asked.id).between_passes([&](queue_set& queues) {
    queues.add_cq({asked.id, asked.entries, memory});
  });
  name.keep();
  made_queues_ = true;  // no submission queue comes before
  return status::success;
}

std::uint16_t admin_commands::create_sq(nvme::sqe const& entry) {
  queue_request const asked{entry};
  auto const cq = static_cast<std::uint16_t>(asked.flags >> 16);
  if (!cqs_.contains(cq)) return status::invalid_cq;
  if (asked.id == 0 || asked.id > granted_sqs_ || sqs_.contains(asked.id))
    return status::invalid_queue_id;
  std::byte* memory = nullptr;
  if (std::uint16_t const error = check_place(asked, sizeof(nvme::sqe), memory); error != 0)
    return error;
  new_name name{sqs_, asked.id, cq};
  bool const added = thread_of(cq).between_passes([&](queue_set& queues) {
    if (!queues.has_cq(cq)) return false;  // its memory was taken away
    queues.add_sq({asked.id, asked.entries, memory}, cq);
    return true;
  });
  if (!added) return status::invalid_cq;
  name.keep();
  ++cqs_.at(cq);
  return status::success;
}

std::uint16_t admin_commands::delete_cq(std::uint16_t id) {
  auto const at = cqs_.find(id);
  if (at == cqs_.end()) return status::invalid_queue_id;
  if (at->second != 0) return status::invalid_queue_deletion;
  thread_of(id).between_passes([&](queue_set& queues) { queues.remove_cq(id); });
  cqs_.erase(at);
  return status::success;
}

std::uint16_t admin_commands::delete_sq(std::uint16_t id) {
  auto const at = sqs_.find(id);
  if (at == sqs_.end()) return status::invalid_queue_id;
  thread_of(at->second).between_passes([&](queue_set& queues) { queues.remove_sq(id); });
  --cqs_[at->second];
  sqs_.erase(at);
  return status::success;
}

std::uint16_t admin_commands::give(nvme::sqe const& entry, std::byte const* bytes,
                                   std::uint64_t count) const {
  std::vector<segment> parts;
  auto const table = memory_.snapshot();
  std::uint16_t const error =
      walk_prps(*table, {nvme::prp1_of(entry), nvme::prp2_of(entry)}, count, parts);
  if (error != status::success) return error;
  for (segment const& part : parts) {
    std::memcpy(part.memory, bytes, part.bytes);
    bytes += part.bytes;
  }
  return status::success;
}

std::uint16_t admin_commands::identify(nvme::sqe const& entry) const {
  std::uint32_t const nsid = nvme::nsid_of(entry);
  identity_page page{};
  switch (static_cast<nvme::identify_kind>(entry.dw[10] & 0xff)) {
    case nvme::identify_kind::controller: page = controller_identity(subsystem_); break;
    case nvme::identify_kind::name_space: {
      if (nsid == 0 || nsid > most_namespaces) return status::invalid_namespace;
      block_namespace const* const seen = io_.find(nsid);
      if (seen != nullptr) page = namespace_identity(seen->blocks(), seen->lba_bytes());
      break;
    }
    case nvme::identify_kind::active_list: {
      if (nsid >= every_namespace - 1) return status::invalid_namespace;
      std::size_t at = 0;
      for (std::uint32_t n = nsid + 1; n <= most_namespaces; ++n) {
        if (io_.find(n) == nullptr) continue;
        std::memcpy(page.data() + at, &n, 4);
        at += 4;
      }
      break;
    }
    default: return status::invalid_field;
  }
  return give(entry, page.data(), page.size());
}

std::uint16_t admin_commands::log_page(nvme::sqe const& entry) const {
  std::uint32_t const page = entry.dw[10] & 0xff;
  if (page < 1 || page > 3) return status::invalid_log_page;  // errors, health, firmware
  std::uint64_t const dwords =
      (std::uint64_t{entry.dw[11] & 0xffff} << 16 | entry.dw[10] >> 16) + 1;
  std::array<std::byte, 4096> const zeros{};
  if (dwords * 4 > zeros.size()) return status::invalid_field;
  return give(entry, zeros.data(), dwords * 4);
}

// Both numbers count from 0. Once granted, they stay until a reset.
std::uint16_t admin_commands::grant(std::uint32_t asked) {
  if (made_queues_) return command_sequence_error;
  std::uint32_t const sqs = (asked & 0xffff) + 1, cqs = (asked >> 16) + 1;
  if (sqs > 0xffff || cqs > 0xffff) return status::invalid_field;
  if (was_asked_) return status::success;
  granted_sqs_ = std::min(sqs, most_queues);
  granted_cqs_ = std::min(cqs, most_queues);
  was_asked_ = true;
  return status::success;
}

outcome admin_commands::feature(nvme::sqe const& entry, bool sets) {
  if ((entry.dw[10] & 0xff) != nvme::feature_queue_count) return outcome_of(status::invalid_field);
  if (sets)
    if (std::uint16_t const error = grant(entry.dw[11]); error != 0) return outcome_of(error);
  return {.specific = (granted_cqs_ - 1) << 16 | (granted_sqs_ - 1)};
}

}  // namespace gpufs::nvme_controller
