// Ends of calls on a GPU: an event behind each call.
#include <gpufs/device/call_ends.hpp>
#include <gpufs/device/cuda/check.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include <cuda_runtime_api.h>

namespace gpufs::device_memory {

namespace {

using cuda_device::check;

class mark {
 public:
  mark() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~mark() {
    if (event_ != nullptr && !cuda_device::in_forked_child()) cudaEventDestroy(event_);
  }
  mark(mark&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  mark& operator=(mark&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  void put_behind(stream& on) { check(cudaEventRecord(event_, on.native()), "cudaEventRecord"); }

  void put_before(stream& next) const {
    check(cudaStreamWaitEvent(next.native(), event_, 0), "cudaStreamWaitEvent");
  }

  /// An error is the stream's: its work has ended, too.
  [[nodiscard]] bool is_reached() const {
    cudaError_t const result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) return false;
    if (result != cudaSuccess) cudaGetLastError();  // the next use of the device reports it
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Tells streams apart. Each thread has one of the name cudaStreamPerThread.
void const* key_of(stream const& on) {
  static thread_local char of_thread;
  return on.native() == cudaStreamPerThread ? &of_thread : static_cast<void const*>(on.native());
}

struct marked_call {
  marked_call(std::int64_t call, mark&& behind) : number(call), end(std::move(behind)) {}
  std::int64_t number;
  mark end;
};

}  // namespace

struct call_ends::implementation {
  /// Calls of each stream in their order. A stream that is made anew may have an old one's handle:
  /// the old one's calls had ended by then.
  std::map<void const*, std::deque<marked_call>> under_way;
  std::vector<mark> spare;  ///< has room for all that were made
  std::size_t made = 0;
};

call_ends::call_ends(std::function<void(std::int64_t)>)
    : implementation_(std::make_unique<implementation>()) {}
call_ends::~call_ends() = default;

void call_ends::add(stream& on, std::int64_t call) {
  auto& spare = implementation_->spare;
  if (spare.empty()) {
    spare.reserve(implementation_->made + 1);
    spare.emplace_back();
    ++implementation_->made;
  }
  spare.back().put_behind(on);
  // If memory runs out, the mark stays where it is.
  implementation_->under_way[key_of(on)].emplace_back(call, std::move(spare.back()));
  spare.pop_back();
}

void call_ends::ask(std::function<void(std::int64_t)> const& ended) noexcept {
  auto& all = implementation_->under_way;
  for (auto at = all.begin(); at != all.end();) {
    auto& calls = at->second;
    while (!calls.empty() && calls.front().end.is_reached()) {
      auto const number = calls.front().number;
      implementation_->spare.push_back(std::move(calls.front().end));
      calls.pop_front();
      ended(number);
    }
    at = calls.empty() ? all.erase(at) : std::next(at);
  }
}

std::vector<std::int64_t> call_ends::under_way_beside(stream const& on) const {
  std::vector<std::int64_t> numbers;
  for (auto const& [key, calls] : implementation_->under_way) {
    if (key == key_of(on)) continue;
    for (auto const& c : calls) numbers.push_back(c.number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Behind the last one of each stream, which is behind the others. An event that is recorded anew
// later is not waited for again.
void call_ends::order_behind(stream& on, std::vector<std::int64_t> const& calls) {
  for (auto const& [key, marked] : implementation_->under_way) {
    auto const last = std::find_if(marked.rbegin(), marked.rend(), [&](marked_call const& c) {
      return std::ranges::binary_search(calls, c.number);
    });
    if (last != marked.rend()) last->end.put_before(on);
  }
}

}  // namespace gpufs::device_memory
