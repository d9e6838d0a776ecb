#include <nvme-controller/io_commands.hpp>

namespace gpufs::nvme_controller {

namespace status = nvme::status;
using nvme::opcode;

block_namespace* io_commands::find(std::uint32_t nsid) const {
  return nsid == 0 || nsid > namespaces_.size() ? nullptr : namespaces_[nsid - 1].get();
}

std::uint16_t io_commands::flush_all() const {
  std::uint16_t first = status::success;
  for (auto const& each : namespaces_) {
    std::uint16_t const code = each == nullptr ? status::success : each->flush();
    if (first == status::success) first = code;
  }
  return first;
}

// The time that the execution takes is part of the drive's latency.
outcome io_commands::execute(nvme::sqe const& entry, address_map::reader& reader) const {
  if (model_ == nullptr) return outcome_of(dispatch(entry, reader));
  auto const came = drive_model::clock::now();
  outcome result = outcome_of(dispatch(entry, reader));
  auto const code = static_cast<opcode>(nvme::opcode_of(entry));
  block_namespace const* const in = find(nvme::nsid_of(entry));
  bool const moves = code == opcode::read || code == opcode::write;
  std::uint64_t const blocks = in != nullptr && moves ? nvme::blocks_of(entry) : 0;
  result.due = model_->due(code != opcode::read, blocks == 0 ? 0 : blocks * in->lba_bytes(), came);
  return result;
}

std::uint16_t io_commands::dispatch(nvme::sqe const& entry, address_map::reader& reader) const {
  std::uint32_t const nsid = nvme::nsid_of(entry);
  if (nsid == 0 || (nsid > most_namespaces && nsid != every_namespace))
    return status::invalid_namespace;
  if (nvme::flags_of(entry) != 0) return status::invalid_field;
  auto const code = static_cast<opcode>(nvme::opcode_of(entry));
  if (code == opcode::flush && nsid == every_namespace) return flush_all();
  block_namespace* const in = find(nsid);
  if (in == nullptr) return status::invalid_field;
  switch (code) {
    case opcode::flush: return in->flush();
    case opcode::read:
    case opcode::write:
    case opcode::write_zeroes: return transfer(entry, reader, *in);
  }
  return status::invalid_opcode;
}

bool io_commands::start(std::uint16_t queue, nvme::sqe const& entry, address_map::reader& reader,
                        kept_reads& reads) const {
  bool const is_read = static_cast<opcode>(nvme::opcode_of(entry)) == opcode::read;
  block_namespace* const in = find(nvme::nsid_of(entry));
  if (model_ != nullptr || !is_read || in == nullptr || nvme::flags_of(entry) != 0 ||
      check_blocks(entry, *in) != status::success)
    return false;
  thread_local std::vector<segment> parts;
  if (find_parts(entry, *in, reader, parts) != status::success) return false;
  std::uint64_t const offset = nvme::lba_of(entry) * in->lba_bytes();
  int const fd = in->descriptor_of_read(offset, parts);
  if (fd < 0 || !reads.start(fd, offset, parts, {queue, entry}, reader.held())) return false;
  count(counters_.kept_reads);
  return true;
}

outcome io_commands::end(nvme::sqe const& entry, bool complete, address_map::reader& reader) const {
  if (!complete) return execute(entry, reader);
  count(counters_.bytes_read, nvme::blocks_of(entry) * find(nvme::nsid_of(entry))->lba_bytes());
  return outcome_of(status::success);
}

std::uint16_t io_commands::check_blocks(nvme::sqe const& entry, block_namespace const& in) {
  std::uint64_t const lba = nvme::lba_of(entry);
  std::uint64_t const blocks = nvme::blocks_of(entry);
  bool const moves = static_cast<opcode>(nvme::opcode_of(entry)) != opcode::write_zeroes;
  if (moves && blocks * in.lba_bytes() > most_bytes) return status::invalid_field;
  if (lba >= in.blocks() || blocks > in.blocks() - lba) return status::lba_out_of_range;
  return status::success;
}

std::uint16_t io_commands::find_parts(nvme::sqe const& entry, block_namespace const& in,
                                      address_map::reader& reader, std::vector<segment>& parts) {
  parts.clear();
  return walk_prps(reader.look(), {nvme::prp1_of(entry), nvme::prp2_of(entry)},
                   nvme::blocks_of(entry) * in.lba_bytes(), parts);
}

std::uint16_t io_commands::transfer(nvme::sqe const& entry, address_map::reader& reader,
                                    block_namespace& in) const {
  std::uint16_t result = check_blocks(entry, in);
  if (result != status::success) return result;
  auto const code = static_cast<opcode>(nvme::opcode_of(entry));
  std::uint64_t const bytes = nvme::blocks_of(entry) * in.lba_bytes();
  std::uint64_t const offset = nvme::lba_of(entry) * in.lba_bytes();
  bool const durable = (entry.dw[12] & nvme::force_unit_access) != 0;
  if (code == opcode::write_zeroes) {
    result = in.write_zeroes(offset, bytes);
  } else {
    // Held until the thread looks again: the memory stays mapped while the bytes are moved.
    thread_local std::vector<segment> parts;
    result = find_parts(entry, in, reader, parts);
    if (result == status::data_transfer_error) count(counters_.bad_addresses);
    if (result != status::success) return result;
    bool const reads = code == opcode::read;
    result = reads ? in.read(offset, parts) : in.write(offset, parts);
    if (result == status::success)
      count(reads ? counters_.bytes_read : counters_.bytes_written, bytes);
  }
  if (result == status::success && durable && code != opcode::read) result = in.flush();
  return result;
}

}  // namespace gpufs::nvme_controller
