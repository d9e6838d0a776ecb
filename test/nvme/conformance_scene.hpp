// What the cases of the conformance suite have in common.
#pragma once

#include <gpufs/nvme/format.hpp>
#include <gpufs/nvme/prp.hpp>

#include <test/nvme/conformance.hpp>
#include <test/nvme/pattern.hpp>
#include <test/nvme/plain_queue.hpp>

#include <doctest/doctest.h>
#include <nvme-host/control_plane.hpp>
#include <nvme-host/errors.hpp>

#include <cstdint>
#include <cstring>

namespace gpufs::test {

/// The controller, up, with a piece of memory and its PRP list.
struct conformance_scene {
  static constexpr std::uint64_t piece_bytes = 512 << 10;

  nvme_host::control_plane plane{conformance_link()};
  nvme_host::dma_memory piece{conformance_link().memory(), nvme_host::anonymous_memory(),
                              piece_bytes};
  nvme_host::dma_memory list{conformance_link().memory(), nvme_host::anonymous_memory(),
                             2 * nvme::page_bytes};

  conformance_scene() {
    plane.bring_up();
    for (std::uint32_t i = 0; i < nvme::list_entries(piece_bytes); ++i) {
      std::uint64_t const entry = nvme::list_entry(places(), i);
      std::memcpy(list.data() + 8 * i, &entry, 8);
    }
  }
  ~conformance_scene() { CHECK(plane.stop()); }

  [[nodiscard]] nvme::prp_piece places() const { return {piece.bus(), list.bus()}; }

  /// A read or write of namespace 1, at a byte offset of the piece.
  [[nodiscard]] nvme::sqe transfer(nvme::opcode code, std::uint16_t cid, std::uint64_t lba,
                                   std::uint32_t blocks, std::uint64_t offset = 0) const {
    return nvme::make_transfer(code, cid, 1, {lba, blocks},
                               nvme::prps(places(), offset, std::uint64_t{blocks} * pattern_lba));
  }
  [[nodiscard]] nvme::sqe read(std::uint16_t cid, std::uint64_t lba, std::uint32_t blocks,
                               std::uint64_t offset = 0) const {
    return transfer(nvme::opcode::read, cid, lba, blocks, offset);
  }

  /// The status of an admin command.
  std::uint16_t admin(nvme::admin_opcode code, std::uint32_t dw10, std::uint32_t dw11 = 0,
                      std::uint64_t prp1 = 0, std::uint32_t nsid = 0) {
    return nvme::status_of(plane.admin(nvme::make_admin(code, 0, nsid, {prp1, 0}, dw10, dw11)));
  }
};

}  // namespace gpufs::test
