// Taking requests, and all operations of a daemon thread but reads.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/serve/worker.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>

namespace gpufs::daemon {

namespace {

// Reads of cached data are done while they are being started, and reads that start together finish
// together. Beyond this many bytes, the first caller would wait for the others' bytes longer than a
// system call of its own takes.
constexpr std::uint64_t bytes_to_start_with = 256 << 10;

rpc::completion& completion_of(taken_request const& request) {
  return request.region().completions[request.channel];
}

// Stores a word of an answer. The release of the answer makes it visible.
void tell(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>{word}.store(value, std::memory_order_relaxed);
}

// Whether the caller of a request has said that it waits no more.
bool is_given_up(rpc::completion& words, std::uint64_t sequence) {
  return std::atomic_ref<std::uint64_t>{words.given_up}.load(std::memory_order_seq_cst) == sequence;
}

// What a request asks before it destroys bytes, takes an error, or answers with a descriptor:
// whether its caller still waits.
may_begin still_awaited(rpc::completion& words, std::uint64_t sequence) {
  return [&words, sequence] {
    // Pairs with ring::give_up() (rpc::completion).
    std::atomic_ref<std::uint64_t>{words.begun}.store(sequence, std::memory_order_seq_cst);
    return !is_given_up(words, sequence);
  };
}

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
  auto const visit = [&] {
    from.full_turns = 0;
    from.visit = from.visit + 1 == rings.size() ? 0 : from.visit + 1;
    return from.visit != from.home ? rings[from.visit].take(room) : 0;
  };
  // One turn in 8 begins at another ring, whose own thread may be held up by a disk.
  auto count = from.full_turns == 8 && rings.size() > 1 ? visit() : 0;
  if (count == 0) count = rings[from.home].take(room);
  from.full_turns = std::min(from.full_turns + 1, 8u);
  // No request at home: one other ring per turn, so that no request waits while a thread is idle.
  if (count == 0 && rings.size() > 1) count = visit();
  if (count > 0) now_ = ended_request::time_point::clock::now();
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
    auto const known_flags = request.op == rpc::operation::read ? rpc::read_flags : 0;
    if ((request.flags & ~known_flags) != 0) return answer(request, -EINVAL);
    switch (request.op) {
      case rpc::operation::nop: return answer(request, 0);
      case rpc::operation::read: return begin_read(request);
      case rpc::operation::open: return begin_open(request);
      case rpc::operation::close: {
        auto const result = registry_.begin_close(request.file);
        return result == 1 ? answer_elsewhere(request) : answer(request, result);
      }
      case rpc::operation::stat: {
        auto const result = stat(request, false);
        return result == 1 ? answer_elsewhere(request) : answer(request, result);
      }
      case rpc::operation::advise: return answer(request, advise(request));
      case rpc::operation::sync:
      case rpc::operation::truncate:
      case rpc::operation::unlink:
      case rpc::operation::flush: return answer_elsewhere(request);
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
  auto const opened = open(request, false);
  if (opened == 0) return answer_elsewhere(request);
  answer_open(request, opened);
}

// Tells the caller of an open, with the answer, which version the file has, and how many open files
// have got a new one. The registry has counted all that this open found. If the caller has given
// up, closes the descriptor, as nobody else would. An open that has truncated its file has asked
// before, so its caller waits for the descriptor, whatever it says by now.
void worker::answer_open(taken_request const& request, std::int32_t opened) noexcept {
  if (opened < 0) return answer(request, opened);
  auto& words = completion_of(request);
  bool const has_asked = std::atomic_ref<std::uint64_t>{words.begun}.load(
                             std::memory_order_relaxed) == request.sequence;
  if (!has_asked && !still_awaited(words, request.sequence)())
    return close_unwanted(request, opened);
  auto const& region = request.region();
  auto& record = region.open_files[rpc::descriptor_index(opened)];
  auto const load = [](std::uint64_t& word) {
    // Pairs with the releases in record_tables.
    return std::atomic_ref<std::uint64_t>{word}.load(std::memory_order_acquire);
  };
  bool const shares = (load(record.flags) & rpc::open_write_once) == 0;
  tell(words.changes, load(region.control->changes));
  tell(words.version, load(record.version));
  tell(words.write_index, shares ? load(record.write_index) : 0);
  answer(request, opened);
}

// Closes what an open has opened whose caller gave up. The caller may have seen that the open had
// begun, and wait: so it gets the answer of an open that failed, not that of the close.
void worker::close_unwanted(taken_request const& request, std::int32_t opened) noexcept {
  if (registry_.begin_close(opened) != 1) return answer(request, -ETIMEDOUT);
  auto const run = [](slow_work const& self) noexcept {
    auto& on = *static_cast<worker*>(self.on);
    static_cast<void>(on.registry_.finish_close(self.request.file, [] { return false; }));
    on.answer({self.request, static_cast<thread_endpoint*>(self.about)}, -ETIMEDOUT);
  };
  slow_work work{run, this, request.from, request};
  work.request.file = opened;
  if (!writes_.post(work)) run(work);
}

// With `waits` unset both return what says that they would have to wait.
std::int32_t worker::open(taken_request const& request, bool waits) noexcept {
  std::string_view const path{
      reinterpret_cast<char const*>(request.region().staging + request.staging), request.length};
  auto const flags = int(request.argument[0]);
  auto const mode = unsigned(request.argument[1]);
  if (!waits) return registry_.try_open(path, flags, mode);
  return registry_.open(path, flags, mode, still_awaited(completion_of(request), request.sequence),
                        file_registry::leased::returns);
}

std::int32_t worker::stat(taken_request const& request, bool waits) noexcept {
  rpc::file_status status{};
  if (!in_staging(request, sizeof status)) return -EINVAL;
  auto const result =
      waits ? registry_.stat(request.file, status) : registry_.try_stat(request.file, status);
  if (result == 0) std::memcpy(request.region().staging + request.staging, &status, sizeof status);
  return result;
}

std::int32_t worker::advise(taken_request const& request) noexcept {
  auto const what = advice(request.argument[0] > INT_MAX ? -1 : int(request.argument[0]));
  // Other advice concerns the operating system's cache, and the system may take long to follow it.
  // The host's own threads give it.
  return concerns_whole_file(what) ? registry_.advise(request.file, 0, 0, what) : -EINVAL;
}

std::int32_t worker::finish_close(taken_request const& request) noexcept {
  if (request.argument[0] == rpc::tells_nobody)
    return registry_.finish_close(request.file, [] { return false; });
  return registry_.finish_close(request.file,
                                still_awaited(completion_of(request), request.sequence));
}

std::int32_t worker::unlink(taken_request const& request) noexcept {
  if (!in_staging(request, request.length) || request.length >= PATH_MAX) return -EINVAL;
  // The name may be another file's by now.
  if (!still_awaited(completion_of(request), request.sequence)()) return -ETIMEDOUT;
  return registry_.unlink(
      {reinterpret_cast<char const*>(request.region().staging + request.staging), request.length});
}

// Operations that may take long go to a thread that no read waits for. The server ends those
// threads before it destroys this object.
void worker::answer_elsewhere(taken_request const& request) noexcept {
  if (!post_slow(request)) answer_slow(request);
}

bool worker::post_slow(taken_request const& request) noexcept {
  auto const run = [](slow_work const& self) noexcept {
    static_cast<worker*>(self.on)->answer_slow(
        {self.request, static_cast<thread_endpoint*>(self.about)});
  };
  return writes_.post({run, this, request.from, request});
}

// While another process has a lease of the file, tries again and again, behind all other jobs: so
// syncs and closes wait for a pause, and not for that process.
void worker::open_slow(taken_request const& request) noexcept {
  if (auto const opened = open(request, true); opened != 0) return answer_open(request, opened);
  if (writes_.is_ending() || is_given_up(completion_of(request), request.sequence))
    return answer(request, -ETIMEDOUT);
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  if (!post_slow(request)) answer(request, -EAGAIN);  // all places for jobs are taken
}

void worker::answer_slow(taken_request const& request) noexcept {
  switch (request.op) {
    case rpc::operation::open: return open_slow(request);
    case rpc::operation::stat: return answer(request, stat(request, true));
    case rpc::operation::close: return answer(request, finish_close(request));
    case rpc::operation::sync:
      return answer(request, registry_.sync(request.file, still_awaited(completion_of(request),
                                                                        request.sequence)));
    case rpc::operation::flush: return answer(request, registry_.flush(request.file));
    case rpc::operation::truncate: return truncate(request);
    default: return answer(request, unlink(request));
  }
}

void worker::truncate(taken_request const& request) noexcept {
  auto& words = completion_of(request);
  truncation of{request.argument[0], std::uint32_t(request.argument[1])};
  auto const result = registry_.truncate(request.file, of, still_awaited(words, request.sequence));
  tell(words.write_index, of.write_index);
  tell(words.version, of.version);
  tell(words.size, of.new_size);
  answer(request, result);
}

}  // namespace gpufs::daemon
