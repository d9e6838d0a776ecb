#include <apps/common/host_reads.hpp>
#include <apps/common/worker_threads.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace gpufs::apps {

read_trace sequential_trace(unsigned threads, std::uint64_t bytes, std::uint64_t request) {
  read_trace trace(threads);
  std::uint64_t const part = (bytes / request / threads + 1) * request;
  for (unsigned t = 0; t < threads; ++t) {
    std::uint64_t const end = std::min(bytes, (t + 1) * part);
    for (std::uint64_t at = t * part; at < end; at += request)
      trace[t].push_back({at, std::min(request, end - at)});
  }
  return trace;
}

double replay_GBps(host_file const& file, read_trace const& trace) {
  using steady = std::chrono::steady_clock;
  std::uint64_t total = 0, longest = 1;
  for (auto const& list : trace) {
    for (auto const& r : list) {
      total += r.bytes;
      longest = std::max(longest, r.bytes);
    }
  }
  if (total == 0) return 0;
  auto const threads = static_cast<unsigned>(trace.size());
  std::vector<std::vector<std::byte>> buffers(threads, std::vector<std::byte>(longest));
  auto const start = steady::now();
  run_on_threads(threads, [&](unsigned t) {
    for (auto const& r : trace[t]) file.read(buffers[t].data(), r.bytes, r.offset);
  });
  return static_cast<double>(total) / std::chrono::duration<double>(steady::now() - start).count() /
         1e9;
}

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

trace_recorder::trace_recorder() : number_(next_number()) {}

std::vector<traced_read>& trace_recorder::mine() {
  // The list of the recorder that this thread noted something for last.
  thread_local std::uint64_t owner = 0;
  thread_local std::vector<traced_read>* list = nullptr;
  if (owner != number_) {
    std::lock_guard const lock(mutex_);
    list = lists_.emplace_back(std::make_unique<std::vector<traced_read>>()).get();
    owner = number_;
  }
  return *list;
}

testing::fault_action trace_recorder::before_read(rpc::request const&, std::uint64_t offset,
                                                  std::uint64_t length) {
  mine().push_back({offset, length});
  return testing::fault_action::pass();
}

read_trace trace_recorder::take() {
  std::lock_guard const lock(mutex_);
  read_trace trace;
  for (auto const& list : lists_) trace.push_back(std::move(*list));
  for (auto const& list : lists_) list->clear();
  return trace;
}

}  // namespace gpufs::apps
