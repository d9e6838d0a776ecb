// Owns the table of file windows, and the counts of elements that are loaded from them.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/rpc/window_format.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class window_table_owner {
 public:
  window_table_owner(config const& c, layout const& l)
      : table_(on_device<rpc::window_entry>(
            l.window_entries == 0 ? 0 : l.window_entries + rpc::window_entries_more,
            "the table of file windows", "lower registered_memory")),
        element_counts_(
            on_device<std::uint32_t>(l.element_counts, "counts of element loads", lower_cache)),
        straight_loads_(l.straight_loads),
        shift_(static_cast<std::uint32_t>(std::countr_zero(c.file_window_size))) {}

  void fill(fs_ref& r) const {
    if (table_.size() != 0)
      r.windows = {table_.data(),
                   static_cast<std::uint32_t>(table_.size() - rpc::window_entries_more - 1),
                   shift_,
                   element_counts_.data(),
                   static_cast<std::uint32_t>(element_counts_.size()),
                   straight_loads_};
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(table_, element_counts_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

 private:
  buffer<rpc::window_entry> table_;
  buffer<std::uint32_t> element_counts_;
  std::uint32_t straight_loads_;
  std::uint32_t shift_;
};

}  // namespace gpufs::owner
