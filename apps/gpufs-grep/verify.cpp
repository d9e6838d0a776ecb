#include <apps/common/host_file.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/gpufs-grep/reference.hpp>
#include <apps/gpufs-grep/verify.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

namespace gpufs::apps {

namespace {

std::uint64_t count_lines_of(host_file const& file, std::string const& word, std::size_t window) {
  std::string text;  // begins with a line
  std::uint64_t count = 0;
  for (std::uint64_t at = 0; at < file.size();) {
    std::size_t const kept = text.size();
    std::size_t const here = std::min<std::uint64_t>(window, file.size() - at);
    text.resize(kept + here);
    file.read(text.data() + kept, here, at);
    at += here;
    std::size_t whole = text.size();  // up to the end of a line
    if (at < file.size()) {
      std::size_t const last = std::string_view(text).substr(kept).rfind('\n');
      whole = last == std::string_view::npos ? 0 : kept + last + 1;
    }
    count += count_lines(std::string_view(text).substr(0, whole), word);
    text.erase(0, whole);
  }
  return count;
}

/// What an exception says, without the path before it.
std::string reason_of(std::exception const& e, std::string const& path) {
  std::string const what = e.what();
  return what.starts_with(path + ": ") ? what.substr(path.size() + 2) : what;
}

}  // namespace

verification verify_counts(std::vector<listed_file> const& files,
                           std::vector<std::int64_t> const& counts, std::string const& word,
                           std::size_t window) {
  verification v;
  std::mutex mutex;  // guards v
  std::atomic<std::size_t> next{0};
  auto const fails = [&](std::size_t i, std::string why) {
    std::lock_guard const lock(mutex);
    v.unverified.push_back({i, std::move(why)});
  };
  run_on_threads(io_threads(), [&](unsigned) {
    // A counter: orders nothing.
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < files.size();) {
      if (counts[i] < 0) continue;
      try {
        auto const right = count_lines_of(host_file(files[i].path), word, window);
        std::lock_guard const lock(mutex);
        ++v.compared;
        if (right != static_cast<std::uint64_t>(counts[i])) v.wrong.push_back({i, right});
      } catch (std::bad_alloc const&) {
        fails(i, "no host memory for a line of it");
      } catch (std::exception const& e) {
        fails(i, reason_of(e, files[i].path));
      }
    }
  });
  std::ranges::sort(v.wrong, {}, &wrong_count::file);
  std::ranges::sort(v.unverified, {}, &unverified_file::file);
  return v;
}

}  // namespace gpufs::apps
