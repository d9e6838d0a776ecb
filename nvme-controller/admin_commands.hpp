// The commands of the admin queue.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/identity.hpp>
#include <nvme-controller/io_commands.hpp>
#include <nvme-controller/io_thread.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::nvme_controller {

/// The threads of a controller. The queues with number n belong to thread n modulo their number,
/// where n is that of the completion queue.
using io_threads = std::vector<std::unique_ptr<io_thread>>;

/// Carries out admin commands. The controller's own thread calls.
class admin_commands {
 public:
  admin_commands(io_commands const& io, io_threads const& threads, address_map const& memory,
                 std::uint32_t entries)
      : io_{io}, threads_{threads}, memory_{memory}, entries_{entries} {
    reset();
  }

  [[nodiscard]] outcome execute(nvme::sqe const& entry);
  /// Forgets all queues, kept commands and how many queues were granted, after a reset.
  void reset();

 private:
  struct queue_request;

  [[nodiscard]] std::uint16_t create_cq(nvme::sqe const& entry);
  [[nodiscard]] std::uint16_t create_sq(nvme::sqe const& entry);
  [[nodiscard]] std::uint16_t check_place(queue_request const& asked, std::uint32_t entry_bytes,
                                          std::byte*& memory) const;
  [[nodiscard]] std::uint16_t delete_cq(std::uint16_t id);
  [[nodiscard]] std::uint16_t delete_sq(std::uint16_t id);
  [[nodiscard]] std::uint16_t identify(nvme::sqe const& entry) const;
  [[nodiscard]] std::uint16_t log_page(nvme::sqe const& entry) const;
  [[nodiscard]] outcome feature(nvme::sqe const& entry, bool sets);
  [[nodiscard]] std::uint16_t grant(std::uint32_t asked);
  [[nodiscard]] std::uint16_t give(nvme::sqe const& entry, std::byte const* bytes,
                                   std::uint64_t count) const;
  [[nodiscard]] io_thread& thread_of(std::uint16_t cq) const {
    return *threads_[cq % threads_.size()];
  }

  io_commands const& io_;
  io_threads const& threads_;
  address_map const& memory_;
  std::uint32_t entries_;
  std::map<std::uint16_t, std::uint32_t> cqs_;  // id -> submission queues that use it
  std::map<std::uint16_t, std::uint16_t> sqs_;  // id -> its completion queue
  unsigned kept_events_ = 0;
  std::uint32_t granted_sqs_;
  std::uint32_t granted_cqs_;
  bool was_asked_ = false;    // how many queues it grants, since the last reset
  bool made_queues_ = false;  // since then, deleted ones count, too
  std::string const subsystem_ = new_subsystem_name();
};

}  // namespace gpufs::nvme_controller
