// One way to make a mosaic, and what came of running it.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/statistics.hpp>

#include <apps/mosaic/database.hpp>
#include <apps/mosaic/lsh_index.hpp>
#include <apps/mosaic/match_run.hpp>
#include <apps/mosaic/picture.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

/// What all variants work on.
struct mosaic_problem {
  database files;
  lsh_index index;
  picture wanted;
};

struct variant_outcome {
  match_result matched;
  /// end to end: from picture and index in host and device memory to the matches in host memory
  double seconds = 0;
  std::optional<statistics> counters;
  double registering_seconds = 0;  ///< io_path registered: registering the windows before that
  std::vector<std::string> notes;
};

class variant {
 public:
  virtual ~variant() = default;

  /// "cpu", "gread 4K"
  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] std::optional<config> const& settings() const { return settings_; }

  /// Runs once, from an empty cache. Throws as its parts do.
  [[nodiscard]] virtual variant_outcome run() = 0;

 protected:
  explicit variant(std::string name, std::optional<config> settings = {})
      : name_(std::move(name)), settings_(std::move(settings)) {}

 private:
  std::string name_;
  std::optional<config> settings_;
};

/// The host alone, with all cores; `mapped`: reads tiles.hist by mmap in place of pread.
[[nodiscard]] std::unique_ptr<variant> make_cpu_variant(mosaic_problem const& p, bool mapped);

/// One thread reads all of tiles.hist into touched memory, one copy brings it to the device, a
/// kernel does the rest. The first run takes the memory, which is not timed.
[[nodiscard]] std::unique_ptr<variant> make_cpuio_variant(mosaic_problem const& p,
                                                          match_shape shape);

/// A kernel that reads histograms from the file. Each run has a filesystem with these settings.
/// `random`: advises so, and nothing is read ahead. `warm`: the OS page cache has the file, and
/// with io_path registered all its windows are registered before the clock starts.
[[nodiscard]] std::unique_ptr<variant> make_file_variant(mosaic_problem const& p, match_access how,
                                                         match_shape shape, config const& settings,
                                                         bool random, bool warm);

}  // namespace gpufs::apps
