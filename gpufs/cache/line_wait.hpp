// A caller's way through a line: it tries for a while, then joins, then waits for its turn.
#pragma once

#include <gpufs/cache/line.hpp>

#include <cstdint>

namespace gpufs::cache {

using namespace base;

/// A team that wants what a line is for. All lanes of the team call each function. The values are
/// the same in all lanes.
template <class Team = whole_warp>
class line_wait {
 public:
  /// A team that has joined no line. `front` is that of join_line().
  __device__ explicit line_wait(line& of, std::uint32_t front = front_turns)
      : line_(of), front_(front) {}

  /// Loads the line's state for may_take().
  [[nodiscard]] __device__ std::uint64_t look() const {
    return line_state(line_).load(memory_order_relaxed);
  }
  /// Whether the team may try to take what the line is for. `state` is lane 0's look().
  [[nodiscard]] __device__ bool may_take(std::uint64_t state) const {
    std::uint32_t may = 1;
    if (Team::lane() == 0) may = cache::may_take(line_, turn_, state) ? 1 : 0;
    return Team::broadcast(may) != 0;
  }
  [[nodiscard]] __device__ bool may_take() const { return may_take(look()); }

  /// Called after a try in vain, with no pin, no lock and no frame. Pauses, or joins the line and
  /// waits until the team is in front. Returns 0 if it should try again. Otherwise it must leave()
  /// and give up: -EIO or `late`, as line_error().
  __device__ std::int32_t try_again(fs_ref const& fs, std::int32_t late) {
    if (since_ == 0) since_ = device_clock_ns();
    if (turn_ != no_turn) {
      std::int32_t error = 0;
      if (Team::lane() == 0) error = line_error(fs, line_, since_, late);
      error = Team::broadcast(error);
      if (error != 0) return error;
    } else if (must_join()) {
      since_ = device_clock_ns();
      if (Team::lane() == 0) turn_ = join_line(line_, front_);
      turn_ = Team::broadcast(turn_);
      return 0;
    }
    backoff(pause_, handle::device_pause_ns);
    return 0;
  }

  /// Leaves the line, if the team has joined it. It is `served` if it has got something.
  __device__ void leave(bool served) {
    if (turn_ != no_turn && Team::lane() == 0) leave_line(line_, turn_, served);
    turn_ = no_turn;
    Team::sync();
  }

 private:
  __device__ bool must_join() const {
    std::uint32_t must = 0;
    if (Team::lane() == 0) must = cache::must_join(line_, since_) ? 1 : 0;
    return Team::broadcast(must) != 0;
  }

  line& line_;
  std::uint32_t front_;
  std::uint32_t turn_ = no_turn;
  std::uint64_t since_ = 0;  ///< when the team first tried in vain, or joined the line
  unsigned pause_ = 0;
};

}  // namespace gpufs::cache
