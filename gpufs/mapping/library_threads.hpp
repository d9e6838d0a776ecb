// Threads for a while, for work that one thread does too slowly.
#pragma once

#include <cstddef>
#include <functional>

namespace gpufs::shared {

/// Runs work() in `count` threads, or in fewer if the system gives no more, and waits for them. It
/// may be none. The threads get no signals; the caller gets its own meanwhile. `work` throws
/// nothing.
void in_threads(std::size_t count, std::function<void()> const& work);

}  // namespace gpufs::shared
