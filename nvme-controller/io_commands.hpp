// The commands of I/O queues.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/address_map.hpp>
#include <nvme-controller/block_namespace.hpp>
#include <nvme-controller/counters.hpp>
#include <nvme-controller/drive_model.hpp>
#include <nvme-controller/kept_reads.hpp>
#include <nvme-controller/queue_set.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpufs::nvme_controller {

/// Numbers of namespaces that a driver may ask for. Those without a namespace are inactive.
inline constexpr std::uint32_t most_namespaces = 256;
inline constexpr std::uint32_t every_namespace = 0xffffffffu;
/// Largest transfer of a command: page_bytes << mdts.
inline constexpr std::uint32_t mdts = 8;
inline constexpr std::uint64_t most_bytes = std::uint64_t{nvme::page_bytes} << mdts;

/// The namespaces of a controller; number n has index n - 1.
using namespace_list = std::vector<std::shared_ptr<block_namespace>>;

/// Carries out commands. Threads of the controller call, several at once.
class io_commands {
 public:
  /// `model`: the drive that transfers are as slow as; null: none. All outlive this object.
  io_commands(namespace_list const& namespaces, controller_counters& counters,
              drive_model* model = nullptr)
      : namespaces_{namespaces}, counters_{counters}, model_{model} {}

  /// `reader`: the calling thread's, of the memory that the controller reaches.
  [[nodiscard]] outcome execute(nvme::sqe const& entry, address_map::reader& reader) const;

  /// Starts a read that need not be waited for. False: execute() it.
  [[nodiscard]] bool start(std::uint16_t queue, nvme::sqe const& entry, address_map::reader& reader,
                           kept_reads& reads) const;
  /// The outcome of such a read, when it has ended.
  [[nodiscard]] outcome end(nvme::sqe const& entry, bool complete,
                            address_map::reader& reader) const;

  /// The namespace of a number, or null if it is inactive or invalid.
  [[nodiscard]] block_namespace* find(std::uint32_t nsid) const;
  /// Makes all that was written durable. Returns a status code.
  [[nodiscard]] std::uint16_t flush_all() const;

 private:
  /// Whether a transfer's blocks are there, and not too many.
  [[nodiscard]] static std::uint16_t check_blocks(nvme::sqe const& entry,
                                                  block_namespace const& in);
  /// `parts` gets the memory of a transfer.
  [[nodiscard]] static std::uint16_t find_parts(nvme::sqe const& entry, block_namespace const& in,
                                                address_map::reader& reader,
                                                std::vector<segment>& parts);
  [[nodiscard]] std::uint16_t transfer(nvme::sqe const& entry, address_map::reader& reader,
                                       block_namespace& in) const;
  [[nodiscard]] std::uint16_t dispatch(nvme::sqe const& entry, address_map::reader& reader) const;

  namespace_list const& namespaces_;
  controller_counters& counters_;
  drive_model* model_;
};

}  // namespace gpufs::nvme_controller
