// Where the time of a run goes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace gpufs::apps::workloads {

/// `kernels` is the device's time between the begin and the end of launches. The wait for them
/// counts as `synchronise` only as far as it is longer.
enum class phase { cpu, kernels, io_read, io_write, transfers, launch, synchronise };

inline constexpr std::size_t phase_count = 7;
inline constexpr char const* phase_names[phase_count] = {
    "cpu", "kernels", "io_read", "io_write", "transfers", "launch", "synchronise"};

/// Divides the time of a thread among phases. It begins in phase::cpu.
class phase_clock {
 public:
  /// Ends a phase: the time goes to the phase around it again.
  class scope {
   public:
    scope(phase_clock& of, phase before) : of_(of), before_(before) {}
    ~scope() { of_.change(before_); }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;

   private:
    phase_clock& of_;
    phase before_;
  };

  [[nodiscard]] scope enter(phase p) {
    phase const before = now_;
    change(p);
    return {*this, before};
  }

  void start() {
    seconds_ = {};
    now_ = phase::cpu;
    begin_ = last_ = std::chrono::steady_clock::now();
  }
  /// Ends the run and returns its seconds.
  double stop() {
    change(phase::cpu);
    return std::chrono::duration<double>(last_ - begin_).count();
  }

  [[nodiscard]] double seconds(phase p) const { return seconds_[std::size_t(p)]; }
  void add(phase p, double seconds) { seconds_[std::size_t(p)] += seconds; }

 private:
  void change(phase to) {
    auto const time = std::chrono::steady_clock::now();
    add(now_, std::chrono::duration<double>(time - last_).count());
    last_ = time;
    now_ = to;
  }

  std::array<double, phase_count> seconds_{};
  phase now_ = phase::cpu;
  std::chrono::steady_clock::time_point begin_{}, last_{};
};

}  // namespace gpufs::apps::workloads
