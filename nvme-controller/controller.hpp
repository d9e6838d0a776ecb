// A software NVMe controller: host threads that serve queues in the memory of a driver.
#pragma once

#include <nvme-controller/address_map.hpp>
#include <nvme-controller/counters.hpp>
#include <nvme-controller/drive_model.hpp>
#include <nvme-controller/faults.hpp>
#include <nvme-controller/io_commands.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gpufs::nvme_controller {

/// Most I/O queues of each kind, and most entries of one.
inline constexpr std::uint32_t most_queues = 128;
inline constexpr std::uint32_t most_entries = 8192;

/// Bytes of registers and doorbells.
[[nodiscard]] std::size_t register_bytes();

struct controller_options {
  namespace_list namespaces;  ///< number n is namespaces[n - 1]; null entries are inactive
  unsigned threads = 1;       ///< that serve I/O queues
  /// CAP.MQES + 1, 2..most_entries
  std::uint32_t entries = most_entries;
  std::shared_ptr<drive_model> model{};  ///< null: as fast as it can
  std::shared_ptr<fault_plan> faults = std::make_shared<fault_plan>();
};

/// Begins with CC.EN = 0. Its threads end in the destructor.
class controller {
 public:
  /// `registers` are register_bytes() bytes of zeroed memory, aligned to 4096. They outlive this
  /// object. Throws std::invalid_argument for bad options, std::system_error if there is no thread.
  controller(std::byte* registers, controller_options const& options);
  ~controller();
  controller(controller const&) = delete;
  controller& operator=(controller const&) = delete;

  /// Lets the controller reach memory. Throws std::invalid_argument if the range is empty or
  /// overlaps another one. Any thread calls this and unmap().
  void map(mapped_range const& range);
  /// Takes away the range that begins at `bus`, and the queues in it. Afterwards no thread of the
  /// controller accesses it. Throws std::invalid_argument if there is none.
  void unmap(std::uint64_t bus);

  /// Whether it drops its queues, because it is disabled or fails, or makes bytes durable as it
  /// shuts down. That waits for system calls. CSTS is stored before this becomes false.
  [[nodiscard]] bool is_stopping() const;

  [[nodiscard]] controller_counters const& counters() const;

 private:
  class parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace gpufs::nvme_controller
