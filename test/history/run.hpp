// Runs programs.
#pragma once

#include <gpufs/device.hpp>

#include <test/history/device_calls.hpp>
#include <test/history/outsider.hpp>
#include <test/history/program.hpp>
#include <test/history/recorder.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::history {

/// Runs one program after another. One thread uses it.
class machine {
 public:
  machine();

  /// Runs a program on a new file and new filesystems, and says what each call has come to.
  /// `ready`, if given, is called with the file's path before the first call.
  [[nodiscard]] history run(program const& p,
                            std::function<void(std::string const& path)> const& ready = {});

  /// The time now, by the clock of a program that runs.
  [[nodiscard]] std::uint64_t stamp();

 private:
  struct running;

  void begin(running& r);
  void run_phase(running& r, unsigned phase);
  void make_host_calls(running& r, std::uint32_t actor);
  std::int64_t host_call(running& r, std::size_t number);
  std::int64_t outside(running& r, std::size_t number);

  test::scratch_folder folder_;
  std::optional<outsider_process> process_;
  pinned_buffer<std::uint64_t> clock_;
  buffer<std::uint64_t> device_order_;
  unsigned programs_ = 0;
};

}  // namespace gpufs::history
