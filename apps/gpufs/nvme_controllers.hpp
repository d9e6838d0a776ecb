// The controllers of `gpufs nvme`, and which of them work here.
#pragma once

#include <apps/common/nvme_spec.hpp>
#include <apps/gpufs/machine.hpp>

#include <nvme-host/controller_link.hpp>

#include <memory>
#include <vector>

namespace gpufs::apps {

/// Opens the controller of the only member. `filled`: memory has words that depend on their places,
/// else zeros that take no memory. Throws what the links throw, and usage_error for several
/// members, more memory than the host has, or a path that cannot be a member.
[[nodiscard]] std::unique_ptr<nvme_host::controller_link> open_controller(
    nvme_spec const& spec, unsigned threads, nvme_host::memory_source const& memory, bool filled);

/// The kinds of nvme_spec: which works here, and why not.
[[nodiscard]] std::vector<ability> look_at_nvme();

}  // namespace gpufs::apps
