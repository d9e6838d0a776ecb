// Taking requests, and all operations of a daemon thread but reads.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/serve/worker.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gpufs::daemon {

namespace {

// Reads of cached data are done while they are being started, and reads that start together finish
// together. Beyond this many bytes, the first caller would wait for the others' bytes longer than a
// system call of its own takes.
constexpr std::uint64_t bytes_to_start_with = 256 << 10;

}  // namespace

// Looks at all endpoints, from another one on each time: so none takes all room of the engine.
bool worker::take_requests() noexcept {
  turn_ = turn_ + 1 < endpoints_.size() ? turn_ + 1 : 0;
  bool any = false;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    auto const n = turn_ + i;
    any |= take_requests(endpoints_[n < endpoints_.size() ? n : n - endpoints_.size()]);
  }
  return any;
}

bool worker::take_requests(thread_endpoint& from) noexcept {
  if (from.shared.detached.load(std::memory_order_relaxed)) return false;
  std::array<rpc::request, request_queue::most_at_once> taken;
  auto const room = std::span{taken}.first(std::min(taken.size(), engine_->room()));
  auto& rings = from.shared.rings;
  auto count = rings[from.home].take(room);
  // No request at home: one other ring per turn, so that no request waits while a thread is idle.
  if (count == 0 && rings.size() > 1) {
    from.visit = from.visit + 1 == rings.size() ? 0 : from.visit + 1;
    if (from.visit != from.home) count = rings[from.visit].take(room);
  }
  for (std::size_t i = 0; i < count; ++i) {
    dispatch({taken[i], &from});
    if (unstarted_bytes_ >= bytes_to_start_with) reap();
  }
  return count > 0;
}

void worker::dispatch(taken_request const& request) noexcept {
  count(counters_.requests);
  count(request.from->counters.requests);
  if (request.channel >= request.region().channels) {
    count(request.from->counters.rejected);
    return;
  }
  try {
    auto const known_flags = request.op == rpc::operation::read ? rpc::read_zeros_beyond_end : 0;
    if ((request.flags & ~known_flags) != 0) return answer(request, -EINVAL);
    switch (request.op) {
      case rpc::operation::nop: return answer(request, 0);
      case rpc::operation::read: return begin_read(request);
      case rpc::operation::open: return begin_open(request);
      case rpc::operation::close: {
        auto const result = registry_.begin_close(request.file);
        if (result != 1) return answer(request, result);
        return answer_elsewhere(request, [](file_registry& files, rpc::request const& r) {
          return files.finish_close(r.file);
        });
      }
      case rpc::operation::stat: return answer(request, stat(request));
      case rpc::operation::advise: return answer(request, advise(request));
      case rpc::operation::sync:
        return answer_elsewhere(request, [](file_registry& files, rpc::request const& r) {
          return files.sync(r.file);
        });
      case rpc::operation::truncate:
        return answer_elsewhere(request, [](file_registry& files, rpc::request const& r) {
          return files.truncate(r.file, r.argument[0]);
        });
      case rpc::operation::unlink: return answer(request, unlink(request));
      case rpc::operation::flush:
        return answer_elsewhere(request, [](file_registry& files, rpc::request const& r) {
          return files.flush(r.file);
        });
    }
    answer(request, -EINVAL);
  } catch (std::bad_alloc const&) {
    answer(request, -ENOMEM);
  }
}

void worker::begin_open(taken_request const& request) {
  if (!in_staging(request, request.length)) return answer(request, -EINVAL);
  if (faults_ != nullptr && request.length < PATH_MAX) {
    std::string const path{
        reinterpret_cast<char const*>(request.region().staging + request.staging), request.length};
    auto action = faults_->before_open(path);
    if (action.what == fault_action::kind::fail) return answer(request, -action.error);
    if (action.what == fault_action::kind::hold)
      return hold(new_job(request), std::move(action.until));
  }
  finish_open(request);
}

void worker::finish_open(taken_request const& request) noexcept {
  if (request.argument[0] > std::uint64_t(INT_MAX) || request.argument[1] > UINT_MAX)
    return answer(request, -EINVAL);
  std::string_view const path{
      reinterpret_cast<char const*>(request.region().staging + request.staging), request.length};
  answer(request, registry_.open(path, int(request.argument[0]), unsigned(request.argument[1])));
}

std::int32_t worker::stat(taken_request const& request) noexcept {
  rpc::file_status status{};
  if (!in_staging(request, sizeof status)) return -EINVAL;
  auto const result = registry_.stat(request.file, status);
  if (result == 0) std::memcpy(request.region().staging + request.staging, &status, sizeof status);
  return result;
}

std::int32_t worker::advise(taken_request const& request) noexcept {
  auto const what = advice(request.argument[0] > INT_MAX ? -1 : int(request.argument[0]));
  // Other advice concerns the operating system's cache, and the system may take long to follow it.
  // The host's own threads give it.
  return concerns_whole_file(what) ? registry_.advise(request.file, 0, 0, what) : -EINVAL;
}

std::int32_t worker::unlink(taken_request const& request) {
  if (!in_staging(request, request.length) || request.length >= PATH_MAX) return -EINVAL;
  return registry_.unlink(
      {reinterpret_cast<char const*>(request.region().staging + request.staging), request.length});
}

// Operations that may take long go to a thread that no read waits for.
void worker::answer_elsewhere(taken_request const& request,
                              std::int32_t (*what)(file_registry&, rpc::request const&)) {
  writes_.post([&files = registry_, &word = request.region().completions[request.channel].word,
                request, what] {
    auto const result = what(files, request);
    // Pairs with the acquire of the caller that waits on this channel.
    std::atomic_ref<std::uint64_t>{word}.store(rpc::pack_completion(request.sequence, result),
                                               std::memory_order_release);
  });
}

}  // namespace gpufs::daemon
