// The background threads: their jobs, and which buffers they write when.
#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/thread.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <algorithm>
#include <chrono>
#include <new>
#include <set>
#include <utility>

namespace gpufs::daemon {

namespace {

// A page with no new bytes for this long is written unasked: its writer has gone on.
constexpr std::chrono::nanoseconds settled{1'000'000};
constexpr std::chrono::microseconds look_again{1000};

// The most that a thread writes in the order of their files between two searches. It is as much as
// 16 blocks and more have dirty in a stretch, and little enough that urgent pages soon have their
// turn.
constexpr std::size_t most_in_order = 4096;  // buffers
constexpr std::uint64_t most_bytes_in_order = 16 << 20;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

write_back::write_back(write_buffers buffers, fault_injector* faults, request_recorder* requests,
                       std::uint64_t write_behind)
    : buffers_{std::move(buffers)},
      faults_{faults},
      requests_{requests},
      write_behind_{write_behind},
      marks_{buffers_},
      watch_(buffers_.count()),
      counts_(buffers_.endpoints()),
      jobs_(most_jobs) {}

void write_back::finish() {
  stop();
  if (std::exchange(finished_, true)) return;
  static_cast<void>(flush(nullptr, {}, busy_pages::write));
  report_lost();
}

write_back::~write_back() {
  finish();
  std::set<written_file*> seen;  // a file may have several series
  for (auto const& [series, file] : files_) {
    if (!seen.insert(file.get()).second) continue;
    end_writer(*file);
    say_loss(*file);
  }
}

void write_back::start(unsigned threads) {
  if (!threads_.empty()) return;
  bool const pages = buffers_.count() != 0;
  if (!pages) threads = 1;  // jobs come even if no page can be dirty
  stopping_ = false;
  free_threads_.store(threads, std::memory_order_relaxed);
  ending_.store(false, std::memory_order_relaxed);
  threads_.reserve(threads + 1);
  orders_.clear();
  orders_.reserve(threads + 1);
  auto const most =
      std::min({std::size_t{buffers_.count()}, most_in_order,
                std::max(batch_size(), std::size_t(most_bytes_in_order >> buffers_.page_shift()))});
  for (unsigned i = 0; i <= threads; ++i) orders_.emplace_back(most);
  for (unsigned i = 0; i < threads; ++i)
    threads_.push_back(start_thread(lower_host_threads, [this, i, threads] { serve(i, threads); }));
  if (pages)
    threads_.push_back(start_thread(lower_host_threads, [this] { stand_in(orders_.back()); }));
}

void write_back::stop() {
  {
    std::lock_guard const lock{jobs_mutex_};
    stopping_ = true;
  }
  ending_.store(true, std::memory_order_relaxed);
  wake_.notify_all();
  stand_in_wake_.notify_all();
  for (auto& t : threads_) t.join();
  threads_.clear();
}

bool write_back::post(slow_work const& work) noexcept {
  {
    std::lock_guard const lock{jobs_mutex_};
    if (job_count_ == most_jobs) return false;
    jobs_[(first_job_ + job_count_++) % most_jobs] = work;
  }
  wake_.notify_one();
  return true;
}

void write_back::serve(unsigned number, unsigned threads) noexcept {
  set_up_thread("gpufs-wb-" + std::to_string(number));
  auto const begin_of = [&](unsigned n) {
    return std::uint32_t(std::uint64_t(buffers_.count()) * n / threads);
  };
  buffer_stretch const share{begin_of(number), begin_of(number + 1)};
  for (;;) {
    slow_work next;
    {
      std::unique_lock lock{jobs_mutex_};
      if (job_count_ == 0 && stopping_) return;
      if (job_count_ != 0) {
        next = jobs_[first_job_];
        first_job_ = (first_job_ + 1) % most_jobs;
        --job_count_;
        if (free_threads_.fetch_sub(1, std::memory_order_relaxed) == 1) stand_in_wake_.notify_one();
      }
    }
    if (next.run != nullptr) {
      next.run(next);
      free_threads_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    auto const before = looks();
    if (auto const written = write_background(orders_[number], share); !written.empty()) {
      for (auto const& h : written)
        if (h.file != nullptr && begin_sync(*h.file)) break;
      continue;
    }
    // While pages are dirty, others may soon fill the buffers.
    rest(looks() == before ? look_again : look_again / threads);
  }
}

// Writes pages while all threads have jobs, which may wait long for a disk.
void write_back::stand_in(write_order& order) noexcept {
  set_up_thread("gpufs-wb-spare");
  // The last thread counts itself out under the mutex. In begin_sync(), one that stays counts out.
  auto const alone = [&] { return free_threads_.load(std::memory_order_relaxed) == 0; };
  std::unique_lock lock{jobs_mutex_};
  for (;;) {
    stand_in_wake_.wait(lock, [&] { return stopping_ || alone(); });
    if (stopping_) return;
    lock.unlock();
    // It begins no sync: that may wait for the disk, too.
    bool const wrote = !write_background(order, {0, buffers_.count()}).empty();
    lock.lock();
    if (!wrote) stand_in_wake_.wait_for(lock, look_again, [&] { return stopping_; });
  }
}

// Waits until there may be something to do. One resting thread looks for dirty pages again after
// `interval`, so that the others need not.
void write_back::rest(std::chrono::microseconds interval) {
  std::unique_lock lock{jobs_mutex_};
  auto const something = [&] { return stopping_ || job_count_ != 0; };
  if (something()) return;
  bool idle = false;
  {
    std::lock_guard const files_lock{files_mutex_};
    idle = files_.empty() && files_without_memory_.empty();
  }
  // While no file is open for writing, no page becomes dirty. attach() wakes this thread.
  if (idle || watched_) {
    wake_.wait(lock);
    return;
  }
  watched_ = true;
  wake_.wait_for(lock, interval, something);
  watched_ = false;
  if (something()) wake_.notify_one();  // another thread watches while this one has a job
}

void write_back::attach(std::uint64_t version, file_pointer file) {
  bool first = false;
  {
    std::lock_guard const order{
        jobs_mutex_};  // a thread that is about to sleep has looked at files_ under it
    std::lock_guard const lock{files_mutex_};
    first = files_.empty() && files_without_memory_.empty();
    file->marks.set(rpc::mark_of(version));
    if (find_series(rpc::series_of(version)) == file) return;
    try {
      files_.insert_or_assign(rpc::series_of(version), file);
    } catch (std::bad_alloc const&) {
      if (files_without_memory_.full()) throw;
      files_without_memory_.push_back({rpc::series_of(version), std::move(file)});
    }
  }
  if (first) wake_.notify_one();  // one thread watches from now on
}

void write_back::forget(written_file& file) {
  std::lock_guard const lock{files_mutex_};
  std::erase_if(files_, [&](auto const& entry) { return entry.second.get() == &file; });
  files_without_memory_.erase_if([&](auto const& entry) { return entry.file.get() == &file; });
  file.marks.reset();
}

std::size_t write_back::attached() const {
  std::lock_guard const lock{files_mutex_};
  return files_.size() + files_without_memory_.size();
}

bool write_back::wanted_now(std::uint32_t i, bool pressed) {
  auto const word = posted(i);
  auto const sequence = word >> rpc::posted_shift;
  bool const busy = (word & rpc::posted_busy) != 0 && !buffers_.ended(i);
  if (busy || sequence == written(i) >> rpc::written_shift) return false;
  auto& w = watch_[i];
  if (w.failed.load(std::memory_order_relaxed) == sequence) return false;
  if (pressed || (word & rpc::posted_urgent) != 0) return true;
  if (w.seen.exchange(sequence, std::memory_order_relaxed) != sequence) {
    w.seen_at.store(now_ns(), std::memory_order_relaxed);
    return false;
  }
  return now_ns() - w.seen_at.load(std::memory_order_relaxed) >= settled.count();
}

// Finds the buffers of a thread's share that should not stay dirty longer, or others' if there are
// none.
void write_back::find_background(write_order& order, buffer_stretch share) {
  auto const all = mark_set{}.set();
  auto const [begin, end] = share;
  bool pressed = hurried_.load(std::memory_order_relaxed) != 0;
  if (!pressed) {  // this thread's share of the buffers stands for all of them
    std::uint64_t dirty = 0;
    marks_.each(begin, end, all, [&](std::uint32_t i) {
      dirty += is_dirty(i) ? 1 : 0;
      return true;
    });
    pressed = dirty * 2 > end - begin;
  }
  auto const goes_on = std::clamp(order.searched_to(), begin, end);
  order.clear(pressed);
  auto const add = [&](std::uint32_t i) {
    if (wanted_now(i, pressed)) order.add(i, version_of(i), page_of(i));
    return !order.full();
  };
  // A search that found too much has left the rest to this one.
  marks_.each(goes_on, end, all, add);
  if (!order.full()) marks_.each(begin, goes_on, all, add);
  // What lies beyond is the others' work, unless there is none here or one of them waits for a
  // disk.
  auto const helps = [&] {
    return order.empty() || (!order.full() && begins_sync_.load(std::memory_order_relaxed));
  };
  if (helps()) marks_.each(end, buffers_.count(), all, add);
  if (helps()) marks_.each(0, begin, all, add);
  order.sort();
}

void write_back::lock_in_order(write_order& order, batch& locked) {
  auto const most = batch_size();
  while (!order.empty() && locked.size() < most) {
    auto const i = order.take();
    locked_buffer buffer;
    if (!wanted_now(i, order.pressed()) || !lock_buffer(i, busy_pages::wait, buffer)) continue;
    // A flush may have failed since then, and reported it. A second failure would be reported
    // again.
    if (watch_[i].failed.load(std::memory_order_relaxed) == buffer.sequence)
      release_buffer(buffer, false);
    else
      locked.push_back(std::move(buffer));
  }
}

// Writes one batch of the buffers that should not stay dirty longer, and returns it.
write_back::batch write_back::write_background(write_order& order, buffer_stretch share) {
  batch locked;
  lock_in_order(order, locked);
  if (locked.empty()) {
    find_background(order, share);
    lock_in_order(order, locked);
  }
  if (locked.empty()) return locked;
  wake_.notify_one();  // another thread looks for more, or watches, during the write
  write(locked);
  return locked;
}

}  // namespace gpufs::daemon
