// Owns the frames, the page table and the queues of replacement.
#pragma once

#include <gpufs/cache/geometry.hpp>
#include <gpufs/cache/replacement/lra_queue.hpp>
#include <gpufs/cache/replacement/policies.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class page_cache_owner {
 public:
  page_cache_owner(config const& c, layout const& l)
      : sweep_hand_(on_device<std::uint64_t>(1, "the sweep's hand", lower_cache)),
        line_(on_device<cache::line>(1, "the line of callers", lower_cache)),
        buckets_(on_device<std::uint64_t>(l.buckets * cache::bucket_ways, "the page table",
                                          lower_cache)),
        bucket_locks_(on_device<std::uint32_t>(l.buckets, "the page table's locks", lower_cache)),
        headers_(on_device<cache::frame_header>(l.frames, "frame headers", lower_cache)),
        frames_(
            allocate_unset<buffer<std::byte>>(l.frames * c.page_size, "the pages", lower_cache)),
        queues_(on_device<cache::lra_queue>(c.seats, "replacement queues", lower_seats)),
        totals_(on_device<cache::lra_totals>(1, "replacement queues", lower_cache)),
        links_(on_device<std::uint32_t>(l.segments, "replacement queues", lower_cache)),
        policy_(c.policy),
        page_shift_(static_cast<std::uint32_t>(std::countr_zero(c.page_size))),
        segment_frames_(static_cast<std::uint32_t>(l.segment_frames)) {}

  void fill(fs_ref& r) const {
    r.cache.buckets = buckets_.data();
    r.cache.bucket_locks = bucket_locks_.data();
    r.cache.headers = headers_.data();
    r.cache.frames = frames_.data();
    r.cache.sweep_hand = sweep_hand_.data();
    r.cache.line = line_.data();
    r.cache.bucket_count = bucket_locks_.size();
    r.cache.frame_count = static_cast<std::uint32_t>(headers_.size());
    r.cache.page_shift = page_shift_;
    r.cache.policy = policy_;
    if (cache::has_queues(policy_)) {
      r.cache.lra = {queues_.data(), totals_.data(), links_.data(),
                     static_cast<std::uint32_t>(links_.size()), segment_frames_};
    }
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const {
    return bytes_of(sweep_hand_, line_, buckets_, bucket_locks_, headers_, queues_, totals_,
                    links_);
  }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

  /// The header of a frame, as it is now. No kernel may be running.
  [[nodiscard]] cache::frame_header header(std::uint64_t frame) const {
    cache::frame_header h;
    headers_.copy_to_host(&h, 1, frame);
    return h;
  }

 private:
  buffer<std::uint64_t> sweep_hand_;
  buffer<cache::line> line_;
  buffer<std::uint64_t> buckets_;
  buffer<std::uint32_t> bucket_locks_;
  buffer<cache::frame_header> headers_;
  buffer<std::byte> frames_;
  buffer<cache::lra_queue> queues_;
  buffer<cache::lra_totals> totals_;
  buffer<std::uint32_t> links_;
  replacement policy_;
  std::uint32_t page_shift_, segment_frames_;
};

}  // namespace gpufs::owner
