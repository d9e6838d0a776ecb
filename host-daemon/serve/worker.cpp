// One daemon thread: its loop, its jobs, and reads. The other operations are in
// worker_operations.cpp, the ways of bytes in worker_paths.cpp.
#include <host-daemon/base/thread.hpp>
#include <host-daemon/serve/worker.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace gpufs::daemon {

worker::worker(std::deque<served_endpoint>& endpoints, file_registry& files, write_back& writes,
               fault_injector* faults, std::unique_ptr<io_engine> engine, path_choice paths,
               request_recorder* others)
    : registry_{files},
      writes_{writes},
      faults_{faults},
      engine_{std::move(engine)},
      files_{files, *engine_},
      paths_{std::move(paths)},
      requests_{others != nullptr ? others->trace() : std::shared_ptr<trace_file>{}},
      others_{others} {
  for (auto& e : endpoints) endpoints_.emplace_back(e);
}

worker::~worker() { join(); }

void worker::start(unsigned number, std::latch& ready) {
  thread_ = start_thread(lower_host_threads, [this, number, &ready] { serve(number, ready); });
}

void worker::join() {
  if (thread_.joinable()) thread_.join();
}

void worker::serve(unsigned number, std::latch& ready) noexcept {
  set_up_thread("gpufs-io-" + std::to_string(number), rest_precision::fine);
  for (auto& e : endpoints_) e.home = e.visit = number % e.shared.rings.size();
  start_error_ = engine_->attach();
  auto const failed = start_error_ != 0;
  ready.count_down();
  if (failed) return;
  // Pairs with the release in request_stop().
  while (!stop_.load(std::memory_order_acquire))
    if (!step()) rest();
  drain();
  files_.give_all_back();
  requests_.flush();
}

bool worker::step() noexcept {
  files_.refresh();
  bool worked = take_requests();
  worked |= resume_released();
  worked |= reap();
  worked |= end_transfers(false);
  if (!worked) return false;
  idle_.reset();
  if (!busy_) busy_since_ = idle_policy::clock::now();
  busy_ = true;
  return true;
}

void worker::rest() noexcept {
  if (busy_) {
    auto const busy = idle_policy::clock::now() - busy_since_;
    count(counters_.busy_ns,
          std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(busy).count()));
    busy_ = false;
  }
  count(counters_.idle_polls);
  if (counters_.requests.load(std::memory_order_relaxed) == 0) count(counters_.polls_before_first);
  auto const time = idle_.next();
  if (time.count() == 0) return;
  if (requests_.traces()) {
    auto const now = ended_request::time_point::clock::now();
    requests_.flush_old(now);
    others_->flush_old(now);
  }
  reading_ > 0 ? engine_->wait(time) : idle_policy::sleep(time);
}

// Answers all requests that were taken. Their gates will stay closed, so requests at a gate fail.
// The copies to twins have no readers any more.
void worker::drain() noexcept {
  while (reading_ > 0 || !held_.empty() || !transferring_.empty()) {
    end_transfers(true);
    while (!held_.empty()) {
      auto& j = *held_.back();
      held_.pop_back();
      finish(j, -EIO);
    }
    if (reading_ > 0 && !reap()) engine_->wait(idle_policy::longest_rest);
  }
}

bool worker::resume_released() noexcept {
  bool any = false;
  for (std::size_t i = held_.size(); i-- > 0 && engine_->room() > 0;) {
    auto& j = *held_[i];
    if (!j.held_at->is_open()) continue;
    held_.erase(held_.begin() + std::ptrdiff_t(i));
    j.held_at.reset();
    j.vetted = true;
    if (!any) now_ = ended_request::time_point::clock::now();
    any = true;
    if (j.request.op == rpc::operation::open) {
      auto const request = j.request;
      finish_open(request);
      free_jobs_.push_back(&j);
    } else {
      advance(j);
    }
  }
  return any;
}

bool worker::reap() noexcept {
  unstarted_bytes_ = 0;
  std::array<read_result, 64> results;
  auto const count = reading_ > 0 ? engine_->poll(results) : 0;
  reading_ -= count;
  if (count > 0) now_ = ended_request::time_point::clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    auto& j = jobs_[results[i].cookie];
    record(j, results[i].result);
    if (!absorb(j, results[i].result)) advance(j);
  }
  return count > 0;
}

void worker::begin_read(taken_request const& request) {
  constexpr std::uint64_t end_of_offsets = std::numeric_limits<std::int64_t>::max();
  if (request.length > longest_read || request.offset > end_of_offsets - request.length ||
      !in_staging(request, request.length))
    return answer(request, -EINVAL);
  auto& j = new_job(request);
  try {
    j.file = files_.use(request.file);
  } catch (...) {
    free_jobs_.push_back(&j);
    throw;
  }
  if (j.file == nullptr) return finish(j, -EBADF);
  if (request.length == 0) return finish(j, 0);
  bool direct = false;
  try {
    direct = paths_.direct(*j.file, request.offset, request.length);
  } catch (std::bad_alloc const&) {  // then through the OS page cache
  }
  bool const can_be_mapped = !direct && j.file->buffered.fd >= 0;
  // A direct read that falls back uses no view: the version was not looked at.
  j.file->buffered.version =
      can_be_mapped ? may_register(request.region(), request.file, registered_files::all).version
                    : 0;
  if (request.from->shared.windows != nullptr && can_be_mapped) offer_windows(j);
  // The rest of the staging piece may be overwritten.
  auto const unit = rpc::staging_unit;
  auto const end = std::min((request.staging + request.length + unit - 1) / unit * unit,
                            request.region().staging_bytes);
  j.read.begin(*j.file, request.offset, request.length, request.region().staging + request.staging,
               end - request.staging, direct,
               (request.flags & rpc::read_zeros_beyond_end) != 0 ? file_read::beyond_end::zeros
                                                                 : file_read::beyond_end::missing);
  advance(j);
}

// Goes on with the read until the request is answered, held at a gate, or with the engine.
void worker::advance(job& j) noexcept {
  for (;;) {
    auto length = j.read.left();
    if (faults_ != nullptr && !std::exchange(j.vetted, false)) {
      auto action = faults_->before_read(j.request, j.read.offset(), length);
      switch (action.what) {
        case fault_action::kind::pass: break;
        case fault_action::kind::hold: return hold(j, std::move(action.until));
        case fault_action::kind::shorten:
          length = std::clamp<std::uint64_t>(action.bytes, 1, length);
          break;
        case fault_action::kind::fail:
          j.recorded = {.kind = host_request::read,
                        .path = "pull",
                        .offset = j.read.offset(),
                        .length = length,
                        .begin = now_};
          record(j, -action.error);
          if (absorb(j, -action.error)) return;
          continue;
      }
    }
    auto const read = j.read.next(length, j.index);
    j.recorded = {.kind = host_request::read,
                  .path = read.from == &j.file->direct ? "direct" : "pull",
                  .offset = read.offset,
                  .length = read.length,
                  .begin = now_};
    if (read.from->reads != std::numeric_limits<std::uint32_t>::max()) ++read.from->reads;
    count(j.request.from->counters.reads_issued);
    bool const is_copied = paths_.copy(read);
    if (is_copied) {
      count(j.request.from->counters.bytes_viewed, read.length);
      j.recorded.path = "view";
    }
    auto const result =
        is_copied ? std::optional<std::int64_t>{read.length} : engine_->submit(read);
    if (!result) {
      ++reading_;
      unstarted_bytes_ += length;
      return;
    }
    now_ = ended_request::time_point::clock::now();
    record(j, *result);
    if (absorb(j, *result)) return;
  }
}

// Records the read operation that has ended, now_.
void worker::record(job& j, std::int64_t result) noexcept {
  j.recorded.result = result;
  j.recorded.end = now_;
  requests_.record(j.recorded, *j.file->host);
}

// Takes in the result of one read operation. Returns true if it answered the request. Else there is
// more to read.
bool worker::absorb(job& j, std::int64_t result) noexcept {
  if (!j.read.absorb(result, paths_)) return false;
  auto& counters = j.request.from->counters;
  count(counters.bytes_direct, j.read.done_directly());
  count(counters.bytes_read, j.read.done_from_file());
  if (begin_transfer(j)) return true;
  // Bytes that came before an error count. The request for the rest meets the error.
  bool const failed = j.read.error() != 0 && j.read.done() == 0;
  finish(j, failed ? j.read.error() : rpc::read_result(std::uint32_t(j.read.done()), false));
  return true;
}

// Returns whether staging has `bytes` bytes where the request says.
bool worker::in_staging(taken_request const& request, std::uint64_t bytes) noexcept {
  auto const all = request.region().staging_bytes;
  return bytes <= all && request.staging <= all - bytes;
}

worker::job& worker::new_job(taken_request const& request) {
  if (free_jobs_.empty()) {
    auto const jobs = jobs_.size() + 1;
    free_jobs_.reserve(jobs);
    held_.reserve(jobs);
    transferring_.reserve(jobs);
    jobs_.emplace_back().index = jobs - 1;
    free_jobs_.push_back(&jobs_.back());
  }
  auto& j = *free_jobs_.back();
  free_jobs_.pop_back();
  j.request = request;
  j.file = nullptr;
  j.held_at.reset();
  j.vetted = false;
  return j;
}

void worker::hold(job& j, std::shared_ptr<gate> until) noexcept {
  j.held_at = std::move(until);
  held_.push_back(&j);
  j.held_at->arrive();
}

void worker::finish(job& j, std::int32_t result) noexcept {
  if (j.file != nullptr) files_.done(j.file);
  free_jobs_.push_back(&j);
  answer(j.request, result);
}

void worker::answer(taken_request const& request, std::int32_t result) noexcept {
  // Threads of write-back answer, too, so this counter alone has several writers.
  if (result < 0 && result != rpc::other_gate_needed)
    request.from->counters.failed.fetch_add(1, std::memory_order_relaxed);
  // Pairs with the acquire of the caller that waits on this channel: a caller that sees its
  // sequence number sees the data in staging.
  std::atomic_ref<std::uint64_t>{request.region().completions[request.channel].word}.store(
      rpc::pack_completion(request.sequence, result), std::memory_order_release);
}

// This thread alone writes its counters, so no read-modify-write is needed. They order nothing.
void worker::count(std::atomic<std::uint64_t>& counter, std::uint64_t n) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace gpufs::daemon
