#include <gpufs/testing/filesystem.hpp>

#include <test/history/run.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/settings.hpp>
#endif

namespace gpufs::history {

namespace {

/// Makes the clock grow, for kernels that only look at it. The emulated device's change it.
class ticker {
 public:
  explicit ticker(recorder_ref const& to) {
#if !defined(GPUFS_EMULATED)
    thread_ = std::thread([this, to] {
      while (!stop_.load(std::memory_order_relaxed)) host_stamp(to);
    });
#else
    static_cast<void>(to);
#endif
  }
  ~ticker() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }
  ticker(ticker const&) = delete;
  ticker& operator=(ticker const&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void vary_order([[maybe_unused]] std::uint64_t seed) {
#if defined(GPUFS_EMULATED)
  auto s = emulated::current_settings();
  s.seed = seed;
  s.preempt = seed % 3 == 0 ? 4 : 16;
  emulated::configure(s);
#endif
}

void dawdle(std::uint64_t n) {
  std::this_thread::sleep_for(std::chrono::microseconds(n * 0x9e3779b97f4a7c15ull % 400));
}

}  // namespace

struct machine::running {
  program const& p;
  std::string path;
  history results;
  pinned_buffer<record> records;
  pinned_buffer<std::int32_t> handles;
  recorder_ref to;
  buffer<char> device_path;
  std::atomic<std::uint32_t> writes{0};
  std::atomic<bool> may_fail{true};
  std::array<std::unique_ptr<filesystem>, 3> filesystems{};
};

machine::machine() : clock_(1), device_order_(1) { load_kernels(); }

void machine::begin(running& r) {
  auto const& p = r.p;
  r.results.resize(p.calls.size());
  r.records = pinned_buffer<record>(p.calls.size() + 1);
  r.records.fill_zero();
  std::int32_t handles = 1;
  for (auto const& c : p.calls) handles = std::max(handles, c.handle + 1);
  r.handles = pinned_buffer<std::int32_t>(std::uint64_t(handles));
  std::fill(r.handles.begin(), r.handles.end(), -EBADF);
  clock_[0] = 2;  // the initial contents have 0 and 1
  device_order_.fill_zero();
  r.to = {clock_.data(), device_order_.data(), r.records.data(), r.handles.data()};
  r.device_path = buffer<char>(r.path.size() + 1);
  r.device_path.copy_from_host(r.path.c_str(), r.path.size() + 1);
  std::vector<std::byte> contents(p.initial_size);
  for (std::uint64_t i = 0; i < contents.size(); ++i) contents[i] = value_of(initial_tag, i);
  test::write_bytes(r.path, contents);
  if (p.process && !process_) process_.emplace();
}

std::uint64_t machine::stamp() { return host_stamp({clock_.data(), nullptr, nullptr, nullptr}); }

history machine::run(program const& given,
                     std::function<void(std::string const& path)> const& ready) {
  program const p = given;
  vary_order(p.seed);
  running r{p, folder_ / std::to_string(programs_++), {}, {}, {}, {}, {}};
  begin(r);
  if (ready) ready(r.path);
  auto faults = std::make_shared<test::scripted_faults>();
  faults->on_write = [&r](std::uint64_t, std::uint64_t) {
    auto const n = r.writes.fetch_add(1, std::memory_order_relaxed);
    if (r.p.slow) dawdle(n);
    bool const fails = r.may_fail.load() && n >= r.p.fail_from && n < r.p.fail_until;
    return fails ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
  };
  if (p.slow) {
    faults->on_read = [](std::uint64_t offset, std::uint64_t length) {
      dawdle(offset + length);
      return testing::fault_action::pass();
    };
  }
  r.filesystems[1] = std::make_unique<testing::filesystem>(p.settings, faults);
  if (p.filesystems == 2) r.filesystems[2] = std::make_unique<filesystem>(p.settings);
  unsigned last = 0;
  for (auto const& a : p.actors) last = std::max(last, a.phase);
  {
    ticker const ticks(r.to);
    for (unsigned phase = 0; phase <= last; ++phase) {
      if (phase == 2) r.may_fail.store(false);  // the end of the program, which with_end() adds
      run_phase(r, phase);
    }
  }
  for (auto& fs : r.filesystems) fs.reset();
  std::filesystem::remove(r.path);
  return std::move(r.results);
}

void machine::run_phase(running& r, unsigned phase) {
  std::map<unsigned, std::vector<std::uint32_t>> kernels;
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t a = 0; a < r.p.actors.size(); ++a) {
    if (r.p.actors[a].phase != phase) continue;
    if (r.p.actors[a].kind == actor_kind::block)
      kernels[r.p.actors[a].kernel].push_back(a);
    else
      hosts.push_back(a);
  }
  std::vector<device_part> parts;
  std::vector<unsigned> on;
  for (auto const& [kernel, callers] : kernels) {
    unsigned filesystem = 0;
    for (auto const& c : r.p.calls)
      if (std::find(callers.begin(), callers.end(), c.actor) != callers.end())
        filesystem = c.filesystem;
    if (filesystem == 0) continue;
    parts.emplace_back(r.p, callers);
    on.push_back(filesystem);
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i].start(*r.filesystems[on[i]], r.to, r.device_path);
  std::vector<std::thread> threads;
  for (auto const a : hosts) threads.emplace_back([&, a] { make_host_calls(r, a); });
  for (auto& t : threads) t.join();
  for (auto& part : parts) part.wait();
  for (std::size_t i = 0; i < r.p.calls.size(); ++i) {
    auto const& c = r.p.calls[i];
    if (r.p.actors[c.actor].phase != phase) continue;
    auto const& from = r.records[i];
    r.results[i].begin = from.begin;
    r.results[i].end = from.end;
    r.results[i].result = from.result;
  }
  for (auto& part : parts) part.fetch(r.results);
}

void machine::make_host_calls(running& r, std::uint32_t actor) {
  for (std::size_t i = 0; i < r.p.calls.size(); ++i) {
    auto const& c = r.p.calls[i];
    if (c.actor != actor) continue;
    if (c.after != 0) {
      // Pairs with the release of whoever makes that call.
      atomic_ref<std::uint32_t, scope::system> const before(r.records[c.after - 1].finished);
      while (before.load(memory_order_acquire) == 0) std::this_thread::yield();
    }
    record& to = r.records[i];
    to.begin = host_stamp(r.to);
    to.result = c.filesystem == 0 ? outside(r, i) : host_call(r, i);
    to.end = host_stamp(r.to);
    atomic_ref<std::uint32_t, scope::system>(to.finished).store(1, memory_order_release);
  }
}

std::int64_t machine::host_call(running& r, std::size_t number) {
  auto const& c = r.p.calls[number];
  auto& fs = *r.filesystems[c.filesystem];
  int const fd = c.handle < 0 ? -1 : r.handles[std::uint64_t(c.handle)];
  switch (c.what) {
    case call_kind::open: return r.handles[std::uint64_t(c.handle)] = fs.open(r.path, c.flags);
    case call_kind::close: return fs.close(fd);
    case call_kind::sync: return fs.sync(fd);
    case call_kind::sync_all: return fs.sync();
    case call_kind::write: {
      std::vector<std::byte> bytes(c.count);
      for (std::uint64_t k = 0; k < c.count; ++k)
        bytes[k] = value_of(c.tag, std::uint64_t(c.offset) + k);
      return fs.write(fd, bytes.data(), bytes.size(), c.offset);
    }
    case call_kind::size: {
      file_status status{};
      int const error = fs.stat(fd, status);
      return error != 0 ? error : std::int64_t(status.size);
    }
    default: return 0;
  }
}

std::int64_t machine::outside(running& r, std::size_t number) {
  auto const& c = r.p.calls[number];
  auto what = outside_call::read;
  std::vector<std::byte> bytes(c.count);
  switch (c.what) {
    case call_kind::read: break;
    case call_kind::write:
      what = outside_call::write;
      for (std::uint64_t k = 0; k < c.count; ++k)
        bytes[k] = value_of(c.tag, std::uint64_t(c.offset) + k);
      break;
    case call_kind::truncate: what = outside_call::truncate; break;
    case call_kind::size: what = outside_call::size; break;
    case call_kind::age: test::let_stamps_age(r.path); return 0;
    default: return 0;
  }
  auto const result = r.p.process ? process_->call(what, r.path, c.offset, bytes)
                                  : call_outside(what, r.path, c.offset, bytes);
  if (c.what == call_kind::read) r.results[number].bytes = std::move(bytes);
  return result;
}

}  // namespace gpufs::history
