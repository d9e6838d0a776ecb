// What transfers between shared objects and files or memory have in common.
#pragma once

#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/staging.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

namespace gpufs::owner {

/// Where bytes of an I/O call are.
struct memory_place {
  std::byte* plain;  ///< not of an address space
  std::uint64_t at;  ///< its offset, if not plain
  [[nodiscard]] memory_place behind(std::uint64_t bytes) const {
    return {plain == nullptr ? nullptr : plain + bytes, at + bytes};
  }
};

/// Nothing: the bytes are not all of one object, or of none.
inline std::optional<memory_place> place_of(shared::address_space const& space, void const* address,
                                            std::uint64_t bytes) {
  auto const first = reinterpret_cast<std::uintptr_t>(address);
  if (bytes > ~0ull - first) return std::nullopt;
  if (!space.has_addresses(address, bytes))
    return memory_place{static_cast<std::byte*>(const_cast<void*>(address)), 0};
  auto const found = space.find(address);
  auto const at = space.offset_of(address);
  if (found.bytes == 0 || bytes > found.bytes - (at - found.offset)) return std::nullopt;
  return memory_place{nullptr, at};
}

/// Two pieces in turn: one is copied while the file or the CPU uses the other.
class piece_pair {
 public:
  /// For a transfer of so many bytes.
  piece_pair(shared::address_space& space, std::uint64_t bytes)
      : space_(space), pieces_{space.take_staging(bytes), space.take_staging(bytes)} {}
  // The device does not use them any more.
  ~piece_pair() {
    for (auto const& p : pieces_) static_cast<void>(space_.wait_for_copies(*p));
  }
  piece_pair(piece_pair const&) = delete;
  piece_pair& operator=(piece_pair const&) = delete;
  [[nodiscard]] std::uint64_t size() const { return pieces_[0]->bytes.size(); }  ///< of each
  shared::staging_piece& operator[](std::uint64_t turn) const { return *pieces_[turn % 2]; }

 private:
  shared::address_space& space_;
  shared::staging_pool::lease pieces_[2];
};

/// The count of what was done before comes first: the next call meets the error again.
inline std::int64_t result_of(std::uint64_t done, std::int64_t error) {
  return done != 0 ? std::int64_t(done) : error;
}

/// The memory for the pieces may be refused. transfer() is given the count of what is done.
template <class Transfer>
std::int64_t or_no_memory(Transfer const& transfer) {
  std::uint64_t done = 0;
  try {
    return transfer(done);
  } catch (std::exception const&) {
    return result_of(done, -ENOMEM);
  }
}

}  // namespace gpufs::owner
