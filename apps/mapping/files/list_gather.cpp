#include <apps/harness/parallel.hpp>
#include <apps/mapping/files/list_gather.hpp>

#include <algorithm>
#include <cstddef>

#include <fcntl.h>

namespace gpufs::apps::workloads {

list_gather::list_gather(std::string const& path, std::uint64_t bytes)
    : file_(path, O_RDONLY),
      words_(bytes / 2 / sizeof(std::uint64_t)),
      pieces_{piece(words_), piece(words_)} {}

void list_gather::for_each_part(
    std::vector<word_run> const& runs,
    std::function<void(std::uint64_t const*, std::uint64_t)> const& use) {
  constexpr std::uint64_t reads_at_once = 16;
  auto& on = this_thread_stream();
  std::vector<part> parts;
  std::size_t next = 0;     // run
  std::uint64_t taken = 0;  // words of it
  for (unsigned turn = 0; next < runs.size(); turn = 1 - turn) {
    parts.clear();
    std::uint64_t held = 0;
    while (held < words_ && next < runs.size()) {
      auto const first = runs[next].first + taken;
      auto const count = std::min(runs[next].end - first, words_ - held);
      parts.push_back({first, count, held});
      held += count;
      taken += count;
      if (first + count < runs[next].end) continue;
      ++next;
      taken = 0;
    }
    auto& to = pieces_[turn];
    to.done.synchronize();
    parallel_for(parts.size(), reads_at_once, [&](std::uint64_t i) {
      auto const& p = parts[i];
      file_.read(to.pinned.data() + p.place, p.count * sizeof(std::uint64_t),
                 p.first * sizeof(std::uint64_t));
    });
    device_memory::pinned_copy const copy{to.device.data(), to.pinned.data(),
                                          held * sizeof(std::uint64_t)};
    device_memory::copy_to_device(on, {&copy, 1});
    use(to.device.data(), held);
    to.done.record(on);
  }
}

}  // namespace gpufs::apps::workloads
