// What `gpufs bench apps` measures of an application: the variants that docs/applications.md names.
#pragma once

#include <gpufs/config.hpp>

#include <apps/gpufs/apps_study.hpp>
#include <apps/gpufs/apps_table.hpp>
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

/// Those of an application that reads `bytes` bytes: the small caches where they are smaller than
/// that, `fused` if it has such a kernel.
[[nodiscard]] std::vector<variant> variants_of(apps_options const& o, config const& settings,
                                               io_shape shape, port_description const& what,
                                               std::uint64_t bytes);

/// Throws usage_error if `name` is a variant of no application.
void require_variant(std::string_view name);

}  // namespace gpufs::apps
