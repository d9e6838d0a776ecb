// The three levels at which a run is checked.
#pragma once

#include <apps/harness/session.hpp>

#include <string>

namespace gpufs::apps {

/// For each level what is wrong, empty if nothing is; `done` says which were looked at.
struct verdict {
  struct level {
    bool done = false;
    std::string wrong;
  };
  level integrity;   ///< what the device got is what was generated
  level cross_mode;  ///< the outputs are those of cpuio
  level reference;   ///< the outputs are those of the host

  [[nodiscard]] bool good() const {
    return integrity.wrong.empty() && cross_mode.wrong.empty() && reference.wrong.empty();
  }
  /// "integrity, cross-mode, reference", or the first thing that is wrong.
  [[nodiscard]] std::string text() const;
};

/// Checks the last run of `s`, which was not a fused one. Runs cpuio once for the comparison.
[[nodiscard]] verdict verify(session& s);

/// Runs the fused computation once more, with checksums, and checks that.
[[nodiscard]] verdict verify_fused(session& s, gread_files& files, io_shape shape);

/// Checks outputs computed on the host.
[[nodiscard]] verdict verify_host(session& s, host_outputs const& got);

}  // namespace gpufs::apps
