// The commands of I/O queues.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/address_map.hpp>
#include <nvme-controller/block_namespace.hpp>
#include <nvme-controller/counters.hpp>
#include <nvme-controller/drive_model.hpp>
#include <nvme-controller/kept_flushes.hpp>
#include <nvme-controller/kept_reads.hpp>
#include <nvme-controller/queue_set.hpp>

#include <cstdint>
#include <memory>
#include <optional>
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

/// What the commands of a thread work with.
struct thread_tools {
  std::shared_ptr<address_map::reader> reader;  ///< looks at the driver's memory
  std::shared_ptr<kept_reads> reads;
  std::shared_ptr<kept_flushes> flushes;
};

/// Carries out commands. Threads of the controller call, several at once.
class io_commands {
 public:
  /// `model`: the drive that transfers are as slow as; null: none. All outlive this object.
  io_commands(namespace_list const& namespaces, controller_counters& counters,
              drive_model* model = nullptr)
      : namespaces_{namespaces}, counters_{counters}, model_{model} {}

  /// Carries a command of `queue` out. If `keeps`, a read or a flush may be left under way: then
  /// the outcome has no answer. Later end() gives that of a read, and the tools that of a flush.
  [[nodiscard]] outcome execute(std::uint16_t queue, nvme::sqe const& entry,
                                thread_tools const& with, bool keeps) const;
  /// The outcome of a read that was kept, when it has ended.
  [[nodiscard]] outcome end(kept_reads::command const& of, bool complete,
                            thread_tools const& with) const;

  /// The namespace of a number, or null if it is inactive or invalid.
  [[nodiscard]] block_namespace* find(std::uint32_t nsid) const;
  /// Makes all that was written durable. Returns a status code.
  [[nodiscard]] std::uint16_t flush_all() const;

 private:
  // Return a status code, or nothing: the command is kept.
  [[nodiscard]] std::optional<std::uint16_t> dispatch(std::uint16_t queue, nvme::sqe const& entry,
                                                      thread_tools const& with, bool keeps) const;
  [[nodiscard]] std::optional<std::uint16_t> transfer(std::uint16_t queue, nvme::sqe const& entry,
                                                      thread_tools const& with, block_namespace& in,
                                                      bool keeps) const;

  namespace_list const& namespaces_;
  controller_counters& counters_;
  drive_model* model_;
};

}  // namespace gpufs::nvme_controller
