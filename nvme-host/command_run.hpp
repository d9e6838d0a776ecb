// Commands to several drives, under way together.
#pragma once

#include <gpufs/nvme/status.hpp>

#include <nvme-host/drive.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace gpufs::nvme_host {

/// A transfer between blocks of a drive and bytes of a range of whole blocks.
struct block_command {
  std::uint32_t member = 0;  ///< the drive's number
  nvme::block_range range{};
  std::uint64_t at = 0;  ///< the first byte's place in the range
  std::uint32_t bytes = 0;
};

inline constexpr std::size_t most_drives = 64;

/// Carries out a list of commands. One thread uses it, once.
///
/// Why it does not hang. A thread that finds no slot first ends its own commands. A thread that has
/// none under way holds no slot, so it waits only for others that need no slot of it. Drives are
/// entered before the first command, in one order. So a thread that resets a drive waits only for
/// threads that are further on.
class command_run {
 public:
  /// Called with the memory of a command: before a write is sent, or after a read has succeeded.
  using mover = std::function<void(block_command const&, std::byte*)>;

  /// Where the first command that failed has its bytes, and the member that failed it.
  struct failure {
    std::uint64_t at = 0;
    std::uint32_t member = 0;
  };

  /// At most most_drives. Each command, and each wait for a slot, has the time of `with`. See
  /// drive::is_over() for commands to a controller that is to be reset.
  command_run(std::span<std::unique_ptr<drive> const> drives, patience const& with)
      : drives_{drives}, patience_{with} {}

  /// Returns 0, or the error of the first command in the list that failed, which is `failed`. No
  /// command behind it is known to have succeeded.
  [[nodiscard]] int transfer(nvme::direction to, std::span<block_command const> commands,
                             mover const& move, failure& failed);
  /// A flush of each drive.
  [[nodiscard]] int flush();

 private:
  static constexpr std::size_t most_under_way = 32;
  struct pending {
    block_command const* command = nullptr;  // null: a flush
    drive* on = nullptr;
    drive::ticket ticket{};
  };

  [[nodiscard]] int enter(std::uint64_t members);
  void leave(std::uint64_t members);
  [[nodiscard]] bool take_slot(drive& on, drive::ticket& out);
  void push(pending const& next);
  void end_first();
  void end_all();

  std::span<std::unique_ptr<drive> const> const drives_;
  patience const patience_;
  mover const* move_ = nullptr;
  bool reads_ = false;
  // Those under way, in the order of the list: number n is at n % most_under_way.
  std::array<pending, most_under_way> under_way_;
  std::size_t first_ = 0;
  std::size_t next_ = 0;
  int error_ = 0;
  failure failed_;
};

}  // namespace gpufs::nvme_host
