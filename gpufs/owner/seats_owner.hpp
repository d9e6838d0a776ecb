// Owns the seats that contexts claim.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>

#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class seats_owner {
 public:
  seats_owner(config const& c, layout const&)
      : states_(on_device<std::uint32_t>(c.seats, "seats", lower_seats)),
        counts_(on_device<std::uint32_t>(3, "seats", lower_seats)) {}

  void fill(fs_ref& r) const {
    r.seats = {states_.data(), counts_.data(), counts_.data() + 1, counts_.data() + 2,
               static_cast<std::uint32_t>(states_.size())};
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(states_, counts_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

 private:
  buffer<std::uint32_t> states_;
  buffer<std::uint32_t> counts_;  ///< seats claimed, changes of advice, the seat freed last
};

}  // namespace gpufs::owner
