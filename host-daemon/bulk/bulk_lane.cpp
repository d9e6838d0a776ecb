// The reads of a bulk call.
#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/bulk/bulk_lane.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>

namespace gpufs::daemon {

namespace {

// The most parts under way. Each may keep memory for a detour of O_DIRECT.
constexpr std::size_t most_jobs = 32;

}  // namespace

bulk_parts::bulk_parts(std::span<bulk_range> ranges, std::uint64_t longest, std::uint64_t file_end)
    : ranges_{ranges}, longest_{longest}, file_end_{file_end} {
  outcomes_.reserve(ranges.size());
  for (auto const& r : ranges) outcomes_.push_back({length_of(r)});
  skip_empty();
}

void bulk_parts::skip_empty() noexcept {
  while (range_ < ranges_.size() && begin_ == length_of(ranges_[range_])) ++range_, begin_ = 0;
}

bulk_parts::part bulk_parts::next() noexcept {
  part const p{range_, begin_, std::min(length_of(ranges_[range_]) - begin_, longest_)};
  begin_ += p.length;
  skip_empty();
  return p;
}

void bulk_parts::end(part const& p, std::uint64_t done, std::int32_t error) noexcept {
  auto& o = outcomes_[p.range];
  if (done != p.length && p.begin + done < o.end) o = {p.begin + done, error};
  // Nothing behind a part that came short is moved.
  if (p.range == range_ && o.end < begin_) {
    begin_ = length_of(ranges_[range_]);
    skip_empty();
  }
}

int bulk_parts::set_results() noexcept {
  int first = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    auto const& o = outcomes_[i];
    ranges_[i].result = o.end != 0 ? std::int64_t(o.end) : o.error;
    if (first == 0) first = o.error;
  }
  return first;
}

int bulk_io::lane::read(local_file& file, std::span<bulk_range> ranges, bulk_memory const& to,
                        std::uint64_t file_end) {
  bool const on_device = to.copier != nullptr;
  auto const longest =
      on_device ? std::min<std::uint64_t>(part_bytes, to.copier->part(0).size()) : part_bytes;
  bulk_parts parts{ranges, longest, file_end};
  prepare(on_device ? std::min<std::size_t>(most_jobs, to.copier->parts()) : most_jobs);
  file_ = &file;
  to_ = &to;
  parts_ = &parts;
  idle_policy idle;
  while (parts.more() || reading_ > 0 || !copying_.empty()) {
    bool worked = false;
    while (parts.more() && !free_.empty() && engine_->room() > 0) {
      auto const number = free_.back();
      free_.pop_back();
      start(number);
      worked = true;
    }
    worked |= reap();
    worked |= end_copies();
    if (worked) {
      idle.reset();
    } else if (auto const time = idle.next(); time.count() > 0) {
      reading_ > 0 ? engine_->wait(time) : idle_policy::sleep(time);
    }
  }
  engine_->forget(file);
  return parts.set_results();
}

// Makes room for the jobs of a call, so that nothing allocates once reads are under way.
void bulk_io::lane::prepare(std::size_t jobs) {
  if (jobs_.size() < jobs) jobs_.resize(jobs);
  copying_.reserve(jobs);
  free_.clear();
  for (auto number = jobs; number-- > 0;) free_.push_back(number);
}

void bulk_io::lane::start(std::size_t number) noexcept {
  auto& j = jobs_[number];
  j.part = parts_->next();
  auto const offset = parts_->offset_of(j.part);
  auto const length = j.part.length;
  bool direct = false;
  try {
    direct = paths_.direct(*file_, offset, length);
  } catch (std::bad_alloc const&) {  // then through the OS page cache
  }
  // Bytes behind the range belong to others; those of a pinned part to nobody.
  auto const to = to_->copier != nullptr
                      ? to_->copier->part(unsigned(number))
                      : std::span{to_->host + parts_->position_of(j.part), length};
  j.read.begin(*file_, offset, length, to.data(), to.size(), direct,
               file_read::beyond_end::missing);
  advance(number);
}

// Goes on with a read until it is over or with the engine.
void bulk_io::lane::advance(std::size_t number) noexcept {
  auto& j = jobs_[number];
  for (;;) {
    auto const operation = j.read.next(j.read.left(), number);
    if (operation.from->reads != ~0u) ++operation.from->reads;
    j.recorded = {.kind = host_request::read,
                  .path = operation.from == &file_->direct ? "direct" : "pull",
                  .offset = operation.offset,
                  .length = operation.length,
                  .begin = std::chrono::steady_clock::now()};
    auto const result = engine_->submit(operation);
    if (!result) {
      ++reading_;
      return;
    }
    if (absorb(number, *result)) return arrived(number);
  }
}

// Records the operation that has ended, and takes in its result. Returns true if the read is over.
bool bulk_io::lane::absorb(std::size_t number, std::int64_t result) noexcept {
  auto& j = jobs_[number];
  j.recorded.result = result;
  j.recorded.end = std::chrono::steady_clock::now();
  if (requests_ != nullptr) requests_->record(j.recorded, *file_->host);
  return j.read.absorb(result, paths_);
}

void bulk_io::lane::arrived(std::size_t number) noexcept {
  auto& j = jobs_[number];
  auto const done = j.read.done();
  if (to_->copier == nullptr || done == 0) {
    parts_->end(j.part, done, j.read.error());
  } else if (to_->copier->start(device_copier::direction::to_device, unsigned(number),
                                to_->device + parts_->position_of(j.part), done)) {
    copying_.push_back(number);
    return;
  } else {
    parts_->end(j.part, 0, -EIO);
  }
  free_.push_back(number);
}

bool bulk_io::lane::reap() noexcept {
  if (reading_ == 0) return false;
  std::array<read_result, most_jobs> results;
  auto const count = engine_->poll(results);
  reading_ -= count;
  for (std::size_t i = 0; i < count; ++i) {
    auto const number = std::size_t(results[i].cookie);
    absorb(number, results[i].result) ? arrived(number) : advance(number);
  }
  return count > 0;
}

bool bulk_io::lane::end_copies() noexcept {
  auto const is_over = [this](std::size_t number) {
    auto const state = to_->copier->look(unsigned(number));
    if (state == device_copier::state::under_way) return false;
    auto const& j = jobs_[number];
    bool const copied = state == device_copier::state::copied;
    parts_->end(j.part, copied ? j.read.done() : 0, copied ? j.read.error() : -EIO);
    free_.push_back(number);
    return true;
  };
  return std::erase_if(copying_, is_over) > 0;
}

}  // namespace gpufs::daemon
