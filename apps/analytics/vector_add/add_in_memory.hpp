// The kernel of vectorAdd on plain memory.
#pragma once

#include <gpufs/device.hpp>

#include <apps/analytics/run_options.hpp>

#include <cstdint>

namespace gpufs::apps::analytics {

/// Puts c = a + b on a stream. The arrays lie in memory that kernels reach. Throws device_error.
void add_in_memory(stream& on, launch_shape const& shape, std::uint64_t const* a,
                   std::uint64_t const* b, std::uint64_t* c, std::uint64_t elements);

/// Makes later calls start at once.
void load_add_in_memory();

}  // namespace gpufs::apps::analytics
