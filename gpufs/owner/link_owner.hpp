// Owns the memory shared with the daemon: rings, completion words, staging, records of open files.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class link_owner {
 public:
  link_owner(config const& c, layout const& l)
      : ring_(pinned<rpc::slot>(l.rings * l.ring_slots, "the request ring", lower_staging)),
        completions_(pinned<rpc::completion>(l.channels, "completion words", lower_staging)),
        staging_(pinned<std::byte>(l.staging_bytes, "staging", lower_staging)),
        open_files_(
            pinned<rpc::open_file_record>(c.max_open_files, "open-file records", lower_files)),
        control_(pinned<rpc::control_block>(1, "the control block", lower_staging)),
        tails_(on_device<std::uint64_t>(l.rings * handle::tail_stride, "the rings' tails",
                                        lower_cache)),
        twin_(on_device<std::byte>(
            c.path == io_path::dma ? l.staging_bytes : 0, "the twin of staging",
            "lower staging_size and prefetch_memory, or set io_path to auto")),
        rings_(l.rings),
        ring_slots_(l.ring_slots),
        timeout_ns_(std::uint64_t(c.rpc_timeout_ms) * 1'000'000) {}

  void fill(fs_ref& r) const {
    rpc::shared_region& s = r.link.shared;
    s.ring = ring_.data();
    s.rings = rings_;
    s.slots = ring_slots_;
    s.completions = completions_.data();
    s.channels = completions_.size();
    s.staging = staging_.data();
    s.staging_bytes = staging_.size();
    s.open_files = open_files_.data();
    s.max_open_files = open_files_.size();
    s.control = control_.data();
    r.link.twin = twin_.data();
    r.link.tails = tails_.data();
    r.link.timeout_ns = timeout_ns_;
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(tails_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const {
    return bytes_of(ring_, completions_, staging_, open_files_, control_);
  }

 private:
  pinned_buffer<rpc::slot> ring_;
  pinned_buffer<rpc::completion> completions_;
  pinned_buffer<std::byte> staging_;
  pinned_buffer<rpc::open_file_record> open_files_;
  pinned_buffer<rpc::control_block> control_;
  buffer<std::uint64_t> tails_;
  buffer<std::byte> twin_;
  std::uint64_t rings_, ring_slots_, timeout_ns_;
};

}  // namespace gpufs::owner
