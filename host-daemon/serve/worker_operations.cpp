// All operations of a daemon thread but reads.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/serve/worker.hpp>

#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace gpufs::daemon {

void worker::dispatch(rpc::request const& request) noexcept {
  count(counters_.requests);
  if (request.channel >= region_.channels) {
    count(counters_.rejected);
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

void worker::begin_open(rpc::request const& request) {
  if (!in_staging(request.staging, request.length)) return answer(request, -EINVAL);
  if (faults_ != nullptr && request.length < PATH_MAX) {
    std::string const path{reinterpret_cast<char const*>(region_.staging + request.staging),
                           request.length};
    auto action = faults_->before_open(path);
    if (action.what == fault_action::kind::fail) return answer(request, -action.error);
    if (action.what == fault_action::kind::hold)
      return hold(new_job(request), std::move(action.until));
  }
  finish_open(request);
}

void worker::finish_open(rpc::request const& request) noexcept {
  if (request.argument[0] > std::uint64_t(INT_MAX) || request.argument[1] > UINT_MAX)
    return answer(request, -EINVAL);
  std::string_view const path{reinterpret_cast<char const*>(region_.staging + request.staging),
                              request.length};
  answer(request, registry_.open(path, int(request.argument[0]), unsigned(request.argument[1])));
}

std::int32_t worker::stat(rpc::request const& request) noexcept {
  rpc::file_status status{};
  if (!in_staging(request.staging, sizeof status)) return -EINVAL;
  auto const result = registry_.stat(request.file, status);
  if (result == 0) std::memcpy(region_.staging + request.staging, &status, sizeof status);
  return result;
}

std::int32_t worker::advise(rpc::request const& request) noexcept {
  auto const what = advice(request.argument[0] > INT_MAX ? -1 : int(request.argument[0]));
  // Other advice concerns the operating system's cache, and the system may take long to follow it.
  // The host's own threads give it.
  return concerns_whole_file(what) ? registry_.advise(request.file, 0, 0, what) : -EINVAL;
}

std::int32_t worker::unlink(rpc::request const& request) {
  if (!in_staging(request.staging, request.length) || request.length >= PATH_MAX) return -EINVAL;
  return registry_.unlink(
      {reinterpret_cast<char const*>(region_.staging + request.staging), request.length});
}

// Operations that may take long go to a thread that no read waits for.
void worker::answer_elsewhere(rpc::request const& request,
                              std::int32_t (*what)(file_registry&, rpc::request const&)) {
  writes_.post(
      [&files = registry_, &word = region_.completions[request.channel].word, request, what] {
        auto const result = what(files, request);
        // Pairs with the acquire of the caller that waits on this channel.
        std::atomic_ref<std::uint64_t>{word}.store(rpc::pack_completion(request.sequence, result),
                                                   std::memory_order_release);
      });
}

}  // namespace gpufs::daemon
