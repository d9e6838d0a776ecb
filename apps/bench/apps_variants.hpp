// The variants of an application that `gpufs bench apps` measures. docs/applications.md names them.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/apps_study.hpp>
#include <apps/bench/apps_table.hpp>
#include <apps/harness/session.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// A run, or why there can be none here.
struct variant_run {
  std::optional<app_run> run;  ///< bytes and times
  std::string why_not;
};

/// What can be checked of a variant's run.
enum class leaves { arrays_and_outputs, outputs_of_fused, nothing };

struct variant {
  std::string name;
  bool cold = false;   ///< the files must not be in the OS page cache
  bool extra = false;  ///< with --full, or by name
  leaves behind = leaves::arrays_and_outputs;
  std::function<variant_run(session&)> measure;
};

/// The variants of an application that reads `bytes` bytes. Has small caches only if they are
/// smaller than that, and `fused` only if there is such a kernel.
[[nodiscard]] std::vector<variant> variants_of(apps_options const& o, config const& settings,
                                               io_shape shape, port_description const& what,
                                               std::uint64_t bytes);

/// Throws usage_error if `name` is a variant of no application.
void require_variant(std::string_view name);

}  // namespace gpufs::apps
