#include <gpufs/mapping/library_threads.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <exception>
#include <thread>
#include <vector>

namespace gpufs::shared {

void in_threads(std::size_t count, std::function<void()> const& work,
                std::function<void()> const& in_caller) {
  std::vector<std::thread> threads;
  {
    no_signals const inherited;
    try {
      threads.reserve(count);
      while (threads.size() < count) threads.emplace_back(std::ref(work));
    } catch (std::exception const&) {  // no thread, or no memory: fewer will do
    }
  }
  if (threads.empty()) {
    no_signals const as_theirs;
    in_caller();
  }
  for (auto& t : threads) t.join();
}

}  // namespace gpufs::shared
