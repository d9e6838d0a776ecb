// Brings a controller up, makes queues on it, and resets it.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-host/admin_queue.hpp>
#include <nvme-host/controller_link.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gpufs::nvme_host {

/// What identify tells.
struct controller_identity {
  std::string model;
  std::string serial;
  std::string firmware;
  std::uint64_t most_bytes = 0;  ///< of one transfer; 0 = no limit
  std::uint32_t namespaces = 0;
  bool write_cache = false;
  bool write_zeroes = false;
};
struct namespace_identity {
  std::uint64_t blocks = 0;
  std::uint32_t lba_bytes = 0;  ///< 512 or 4096
};

/// An I/O queue pair: its memory, and the words of its doorbells. Valid until it is deleted.
struct queue_pair_memory {
  std::uint16_t id = 0;
  std::uint32_t depth =
      0;  ///< entries of the submission queue; the completion queue has twice that
  nvme::sqe* sq = nullptr;
  nvme::cqe* cq = nullptr;
  std::uint32_t* sq_doorbell = nullptr;
  std::uint32_t* cq_doorbell = nullptr;
};

struct control_options {
  memory_source memory = anonymous_memory();
  std::chrono::milliseconds admin_timeout{10'000};
};

/// One thread at a time calls. Functions throw controller_error, command_error, or what the
/// memory's source throws.
class control_plane {
 public:
  /// `link` outlives this object. Refuses a controller that lacks the NVM command set, pages of
  /// 4 KiB, or queues of 32 entries.
  explicit control_plane(controller_link& link, control_options options = {});
  /// As shut_down() if it is up, as stop() if bring_up() failed. Memory is leaked if the controller
  /// does not stop.
  ~control_plane();
  control_plane(control_plane const&) = delete;
  control_plane& operator=(control_plane const&) = delete;

  /// Disables the controller, gives it its admin queue, and enables it. Queue pairs of before are
  /// gone, as after stop().
  void bring_up();

  /// Disables the controller. When it returns true the controller accesses no memory any more. The
  /// memory of its queue pairs stays until free_retired(), as kernels may still use it.
  /// False: CSTS.RDY did not become 0 in time, or the controller has left. Then the memory of its
  /// queues is unmapped and leaked, unless is_late().
  [[nodiscard]] bool stop() noexcept;
  /// stop() has waited in vain for system calls of the controller. All memory stays as it is. Until
  /// they have returned, stop() returns false at once.
  [[nodiscard]] bool is_late() const { return is_late_; }

  /// Frees the memory of queue pairs that stop() has ended. No kernel uses them any more.
  void free_retired() { retired_.clear(); }

  /// Deletes all queues, has the controller flush its cache, and disables it. It must be up.
  void shut_down();

  [[nodiscard]] controller_identity identify_controller();
  /// Refuses namespaces with metadata, with other blocks than 512 and 4096 bytes, or without
  /// blocks.
  [[nodiscard]] namespace_identity identify_namespace(std::uint32_t nsid);

  /// Asks for `wanted` queue pairs, 1..65534. Returns how many of them the controller grants. Call
  /// it once after bring_up(), and before queue pairs are made: a controller refuses it later.
  [[nodiscard]] std::uint32_t request_queues(std::uint32_t wanted);

  /// Makes queue pair `id` with `depth` entries, a power of two from 16 to most_depth().
  /// In memory of `memory`, or of the options' source.
  queue_pair_memory const& create_queue_pair(std::uint16_t id, std::uint32_t depth,
                                             memory_source const& memory = {});
  void delete_queue_pair(std::uint16_t id);
  /// The largest depth: the completion queue has twice as many entries.
  [[nodiscard]] std::uint32_t most_depth() const;

  /// Sends any admin command. Returns its completion, whatever its status.
  nvme::cqe admin(nvme::sqe const& command);

  [[nodiscard]] nvme::capabilities capabilities() const { return capabilities_; }
  /// Whether the controller reports a fatal error, or has left.
  [[nodiscard]] bool failed() const;
  [[nodiscard]] controller_link& link() { return link_; }

 private:
  struct pair {
    dma_memory sq;
    dma_memory cq;
    queue_pair_memory view;
  };

  void check_up() const;
  void create_queues(pair const& made);
  void expect(nvme::cqe const& answer, std::string const& what) const;
  [[nodiscard]] bool wait_ready(bool ready) const;
  void identify(nvme::identify_kind kind, std::uint32_t nsid);

  controller_link& link_;
  control_options options_;
  nvme::capabilities capabilities_;
  std::optional<admin_queue> admin_;
  dma_memory page_;  // for answers of identify
  std::map<std::uint16_t, pair> pairs_;
  std::multimap<std::uint16_t, pair> retired_;
  bool enabled_ = false;  // CC.EN = 1 was stored
  bool up_ = false;       // and CSTS.RDY followed
  bool is_late_ = false;
};

}  // namespace gpufs::nvme_host
