// Writing on demand: flush, sync, and the error that a file keeps until it is reported.
#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/no_size_signal.hpp>
#include <host-daemon/base/profiler_range.hpp>
#include <host-daemon/base/reported_error.hpp>
#include <host-daemon/base/say.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace gpufs::daemon {

namespace {

// The longest time without progress, while a device thread adds bytes or another thread writes. A
// copy on a shared device may take as long.
constexpr std::chrono::seconds patience{10};

}  // namespace

bool write_back::belongs(std::uint32_t i, written_file const* file, write_back_part const& part,
                         series_look& last) const {
  if (file == nullptr) return true;
  auto const series = rpc::series_of(version_of(i));
  if (series != last.series) last = {series, file_of_series(series)};
  if (last.file.get() != file || page_of(i) << buffers_.page_shift() >= part.end) return false;
  return part.once || version_of(i) != file->once_version;
}

int write_back::flush(written_file const* file, write_back_part const& part, busy_pages busy) {
  auto const failures = failures_.load(std::memory_order_relaxed);
  // A part of the buffers at a time. Those that are looked at late may have newer bytes, too.
  bounded_list<flush_target, batch_buffers> targets;
  auto const marks = marks_of(file);
  std::uint32_t next = 0;
  auto const find_more = [&] {
    if (targets.full()) return;
    auto const from = std::exchange(next, buffers_.count());
    series_look last;
    marks_.each(from, buffers_.count(), marks, [&](std::uint32_t i) {
      auto const sequence = posted(i) >> rpc::posted_shift;
      if (sequence != written(i) >> rpc::written_shift && belongs(i, file, part, last))
        targets.push_back({i, sequence});
      if (targets.full()) next = i + 1;
      return !targets.full();
    });
  };
  find_more();
  if (targets.empty()) return 0;
  no_size_signal const guard;
  auto const most = batch_size();
  hurried_.fetch_add(1, std::memory_order_relaxed);
  if (targets.size() > most) wake_.notify_all();  // this thread needs help
  int result = 0;
  bool timed_out = false;
  for (auto last_progress = clock::now(); !targets.empty(); find_more()) {
    batch locked;
    for (auto const& t : targets) {
      if (locked.size() == most) break;
      locked_buffer buffer;
      if (watch_[t.number].failed_at.load(std::memory_order_relaxed) <= failures &&
          lock_buffer(t.number, busy, buffer))
        locked.push_back(std::move(buffer));
    }
    write(locked);
    auto const done = targets.erase_if([&](flush_target const& t) {
      if (written(t.number) >> rpc::written_shift >= t.sequence) return true;
      bool const failed = watch_[t.number].failed_at.load(std::memory_order_acquire) > failures;
      if (failed) result = watch_[t.number].error.load(std::memory_order_relaxed);
      return failed;
    });
    if (done != 0) {
      last_progress = clock::now();
    } else if (locked.empty()) {
      if (timed_out || clock::now() - last_progress > patience) {
        timed_out = true;  // the buffers that were not looked at yet get one try
        targets.clear();
        continue;
      }
      std::this_thread::sleep_for(
          std::chrono::microseconds{20});  // another thread writes it, or the device adds to it
    }
  }
  hurried_.fetch_sub(1, std::memory_order_relaxed);
  return timed_out ? -ETIMEDOUT : result;
}

int write_back::sync(written_file& file, std::function<bool()> const& may_tell) {
  int const flushed = flush(&file);
  int error = sync_once(file);
  if (may_tell && !may_tell()) return -ETIMEDOUT;
  int const first = take_error(file);
  if (int const sticks = file.not_durable; sticks != 0) error = sticks;
  if (first != 0) return first;
  // Another caller may have been told of the error. These bytes are not in the file all the same.
  return error != 0 ? error : flushed;
}

// Makes durable what was written before. Of callers that wait here, one syncs for all: a sync with
// a higher number has begun later than this look at the number.
int write_back::sync_once(written_file& file) {
  auto const before = file.syncs.load(std::memory_order_seq_cst);
  std::lock_guard const lock{file.telling};
  if (file.durable > before) return 0;
  auto const number = file.syncs.fetch_add(1, std::memory_order_seq_cst) + 1;
  int const error = reported_error(make_durable(*file.host));
  int none = 0;
  // An interrupted sync has lost nothing: the next one starts anew.
  if (error != 0 && error != -EINTR) file.not_durable.compare_exchange_strong(none, error);
  if (error == 0) file.durable = number;
  return error;
}

int write_back::make_durable(stored_file const& file) {
  profiler_range const range{[&] { return fmt::format("sync {}", file.traced_name()); }};
  auto const begin = clock::now();
  int error = 0;
  if (faults_ != nullptr) {
    auto const action = faults_->before_sync(file.read_descriptor());
    if (action.what == fault_action::kind::fail) error = -action.error;
  }
  if (error == 0) error = while_interrupted([&] { return file.sync(); });
  if (requests_ != nullptr)
    requests_->record(
        {.kind = host_request::sync, .result = error, .begin = begin, .end = clock::now()}, file);
  return error;
}

int write_back::take_error(written_file& file) {
  if (int const error = take_write_error(file); error != 0) return error;
  return file.loss.exchange(0, std::memory_order_acq_rel);
}

void write_back::drop_errors(written_file& file) {
  while (take_error(file) != 0) {
  }
}

int write_back::take_write_error(written_file& file) {
  int const error = file.error.exchange(0, std::memory_order_seq_cst);
  if (error != 0) show_error(file);
  return error;
}

// The system has lost bytes that were written to the file, as -errno says. The next sync or the
// last close reports the first such error. So does every later sync: to make the file durable would
// bring nothing back. The caller holds `telling`.
void write_back::note_loss(written_file& file, int error) {
  int none = 0;
  file.loss.compare_exchange_strong(none, error, std::memory_order_acq_rel);
  none = 0;
  file.not_durable.compare_exchange_strong(none, error);
}

void write_back::end_writer(written_file& file) {
  std::lock_guard const lock{file.telling};
  int const error = reported_error(while_interrupted([&] { return file.host->end_writes(); }));
  if (error != 0 && error != -EINTR) note_loss(file, error);
}

void write_back::say_untold(written_file const& file) noexcept {
  if (int const error = file.error.load(std::memory_order_seq_cst); error != 0)
    say("{}: a write failed at first, and no call has said so: {}", file.path,
        std::strerror(-error));
  say_loss(file);
}

void write_back::say_loss(written_file const& file) noexcept {
  if (int const error = file.loss.load(std::memory_order_acquire); error != 0)
    say("{}: bytes may be lost: {}", file.path, std::strerror(-error));
}

void write_back::end_files(std::shared_ptr<written_file> last) noexcept {
  for (; last; last = std::exchange(last->ended_before, nullptr)) {
    end_writer(*last);
    say_untold(*last);
  }
}

// Threads that have changed the error may do this side by side. All accesses are in one order
// (seq_cst). So the thread that changed it last stores it behind the others, or these see the
// change when they look again.
void write_back::show_error(written_file const& file) {
  for (int shown = 1;;) {  // 1 is no -errno
    int const now = file.error.load(std::memory_order_seq_cst);
    if (now == shown) return;
    shown = now;
    for (auto const* const write_index : {&file.write_index, &file.once_write_index})
      if (auto const p = write_index->load(std::memory_order_relaxed); p != 0)
        buffers_.store_error(p, -now);
  }
}

}  // namespace gpufs::daemon
