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

// The time that the execution takes is part of the drive's latency. Commands of a model are not
// kept.
outcome io_commands::execute(std::uint16_t queue, nvme::sqe const& entry, thread_tools const& with,
                             bool keeps) const {
  auto const came =
      model_ == nullptr ? drive_model::clock::time_point{} : drive_model::clock::now();
  auto const done = dispatch(queue, entry, with, keeps && model_ == nullptr);
  if (!done) return {.answers = false};
  outcome result = outcome_of(*done);
  if (model_ == nullptr) return result;
  auto const code = static_cast<opcode>(nvme::opcode_of(entry));
  block_namespace const* const in = find(nvme::nsid_of(entry));
  bool const moves = code == opcode::read || code == opcode::write;
  std::uint64_t const blocks = in != nullptr && moves ? nvme::blocks_of(entry) : 0;
  result.due = model_->due(code != opcode::read, blocks == 0 ? 0 : blocks * in->lba_bytes(), came);
  return result;
}

outcome io_commands::end(kept_reads::command const& of, bool complete,
                         thread_tools const& with) const {
  if (!complete) return execute(of.queue, of.entry, with, false);
  block_namespace const& in = *find(nvme::nsid_of(of.entry));
  count(counters_.bytes_read, nvme::blocks_of(of.entry) * in.lba_bytes());
  return outcome_of(status::success);
}

std::optional<std::uint16_t> io_commands::dispatch(std::uint16_t queue, nvme::sqe const& entry,
                                                   thread_tools const& with, bool keeps) const {
  std::uint32_t const nsid = nvme::nsid_of(entry);
  if (nsid == 0 || (nsid > most_namespaces && nsid != every_namespace))
    return status::invalid_namespace;
  if (nvme::flags_of(entry) != 0) return status::invalid_field;
  auto const code = static_cast<opcode>(nvme::opcode_of(entry));
  if (code == opcode::flush && nsid == every_namespace) return flush_all();
  block_namespace* const in = find(nsid);
  if (in == nullptr) return status::invalid_field;
  switch (code) {
    case opcode::flush:
      if (keeps && in->flush_waits() && with.flushes->start(*in, {queue, nvme::cid_of(entry)}))
        return {};
      return in->flush();
    case opcode::read:
    case opcode::write:
    case opcode::write_zeroes: return transfer(queue, entry, with, *in, keeps);
  }
  return status::invalid_opcode;
}

std::optional<std::uint16_t> io_commands::transfer(std::uint16_t queue, nvme::sqe const& entry,
                                                   thread_tools const& with, block_namespace& in,
                                                   bool keeps) const {
  auto const code = static_cast<opcode>(nvme::opcode_of(entry));
  std::uint64_t const lba = nvme::lba_of(entry);
  std::uint64_t const blocks = nvme::blocks_of(entry);
  std::uint64_t const bytes = blocks * in.lba_bytes();
  if (code != opcode::write_zeroes && bytes > most_bytes) return status::invalid_field;
  if (lba >= in.blocks() || blocks > in.blocks() - lba) return status::lba_out_of_range;
  std::uint64_t const offset = lba * in.lba_bytes();
  bool const durable = (entry.dw[12] & nvme::force_unit_access) != 0;
  std::uint16_t result = status::success;
  if (code == opcode::write_zeroes) {
    result = in.write_zeroes(offset, bytes);
  } else {
    // Held until the thread looks again: the memory stays mapped while the bytes are moved.
    range_table const& table = with.reader->look();
    thread_local std::vector<segment> parts;
    parts.clear();
    result = walk_prps(table, {nvme::prp1_of(entry), nvme::prp2_of(entry)}, bytes, parts);
    if (result == status::data_transfer_error) count(counters_.bad_addresses);
    if (result != status::success) return result;
    bool const reads = code == opcode::read;
    if (reads && keeps) {
      int const fd = in.descriptor_of_read(offset, parts);
      if (fd >= 0 && with.reads->start(fd, offset, parts, {queue, entry}, with.reader->held())) {
        count(counters_.kept_reads);
        return {};
      }
    }
    result = reads ? in.read(offset, parts) : in.write(offset, parts);
    if (result == status::success)
      count(reads ? counters_.bytes_read : counters_.bytes_written, bytes);
  }
  if (result == status::success && durable && code != opcode::read) result = in.flush();
  return result;
}

}  // namespace gpufs::nvme_controller
