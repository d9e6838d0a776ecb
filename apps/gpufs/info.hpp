// `gpufs info`: what this machine offers and what gpufs makes of it.
#pragma once

#include <gpufs/config.hpp>

#include <functional>
#include <string>

namespace gpufs::apps {

/// Prints device, host, I/O backends, ways for bytes, limits and settings; what does not work says
/// why. `origin` tells where a setting's value comes from. Never throws for what the machine lacks.
void print_info(config const& settings, std::function<std::string(setting const&)> const& origin,
                bool json);

}  // namespace gpufs::apps
