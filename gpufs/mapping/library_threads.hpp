// Threads for a while, for work that one thread does too slowly.
#pragma once

#include <cstddef>
#include <functional>

namespace gpufs::shared {

/// Runs work() in `count` threads, or in fewer if the system gives no more, and waits for them. If
/// it gives none, the caller runs in_caller(), and gets no signals meanwhile. The threads get none
/// either; the caller gets its own while it waits. Neither function throws.
void in_threads(std::size_t count, std::function<void()> const& work,
                std::function<void()> const& in_caller);

}  // namespace gpufs::shared
