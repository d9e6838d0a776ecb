// Faults that tests have a controller make.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::nvme_controller {

/// What happens to one command of an I/O queue.
/// status   It is not carried out and ends with that status.
/// lose     It is carried out, and its completion is never posted.
/// twice    Its completion is posted twice.
/// foreign  Its completion is followed by one with a CID of no command.
struct fault {
  enum class kind { none, status, lose, twice, foreign };
  kind what = kind::none;
  std::uint16_t word = 0;  ///< status code, and do_not_retry if it is wanted
};

/// A plan of faults; this one has none. Threads of the controller call, several at once.
class fault_plan {
 public:
  virtual ~fault_plan() = default;

  /// Each command of submission queue `queue`, when it is taken.
  virtual fault on_command(std::uint16_t queue, nvme::sqe const& entry) {
    static_cast<void>(queue), static_cast<void>(entry);
    return {};
  }
  /// Whether the controller misses this value of a tail doorbell. It sees the next one.
  virtual bool loses_doorbell(std::uint16_t queue, std::uint32_t tail) {
    static_cast<void>(queue), static_cast<void>(tail);
    return false;
  }
  /// How many of `ready` > 0 completions of a completion queue are posted now.
  virtual std::size_t posts_now(std::uint16_t queue, std::size_t ready) {
    static_cast<void>(queue);
    return ready;
  }
  /// Which of `ready` > 0 completions is posted next, by its number in order of execution.
  virtual std::size_t next_posted(std::uint16_t queue, std::size_t ready) {
    static_cast<void>(queue), static_cast<void>(ready);
    return 0;
  }
  /// Whether the controller fails: CSTS.CFS is set, and no command is taken until it is reset.
  virtual bool fails() { return false; }
  /// Whether the controller has left the bus: registers read as all ones, and it does nothing.
  virtual bool gone() { return false; }
  /// Whether CSTS.RDY stays as it is when CC.EN changes.
  virtual bool keeps_ready() { return false; }
};

}  // namespace gpufs::nvme_controller
