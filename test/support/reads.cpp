#include <test/support/cache_state.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

namespace gpufs::test {

namespace {

constexpr std::uint64_t guard = 64;  // bytes before and behind each buffer that nobody may touch
constexpr std::uint64_t most_spare =
    4096;  // room that is kept for a gread that writes more than there is
constexpr std::uint64_t most_failing = 1 << 20;

std::uint64_t round_up(std::uint64_t n) { return (n + guard - 1) / guard * guard; }

// By memcmp(), as loops over bytes take long under sanitizers.
bool is_zero(std::span<std::byte const> bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

void read_batch::add(int fd, std::string const& file, std::int64_t offset, std::uint64_t count,
                     unsigned misalign) {
  expectation e{0, pread_bytes(file, std::uint64_t(offset), count), 0, 0};
  e.result = std::int64_t(e.bytes.size());
  e.free = e.bytes.size();
  e.room = std::min(count, e.bytes.size() + most_spare);
  std::uint64_t const place = round_up(output_bytes_) + guard + misalign;
  ops_.push_back({fd, 0, offset, count, place, 0});
  output_bytes_ = place + e.room + guard;
  expected_.push_back(std::move(e));
}

void read_batch::add_failing(int fd, std::int64_t offset, std::uint64_t count,
                             std::int64_t result) {
  std::uint64_t const place = round_up(output_bytes_) + guard;
  if (result < 0 && count > most_failing)
    throw std::invalid_argument{"read_batch: a failing gread may ask for 1 MiB at most"};
  std::uint64_t const room = std::min(count, result < 0 ? most_failing : most_spare);
  ops_.push_back({fd, 0, offset, count, place, 0});
  output_bytes_ = place + room + guard;
  expected_.push_back({result, {}, room, result < 0 ? room : 0});
}

void read_batch::add_cut(int fd, std::string const& file, std::int64_t offset, std::uint64_t count,
                         std::uint64_t there) {
  if (count > most_failing || there > count)
    throw std::invalid_argument{"read_batch: a gread that is cut may ask for 1 MiB at most"};
  std::uint64_t const place = round_up(output_bytes_) + guard;
  ops_.push_back({fd, 0, offset, count, place, 0});
  output_bytes_ = place + count + guard;
  expected_.push_back(
      {std::int64_t(there), pread_bytes(file, std::uint64_t(offset), there), count, count});
}

void read_batch::finish(stream* on) {
  (on != nullptr ? *on : this_thread_stream()).synchronize();
  done_.resize(ops_.size());
  device_ops_.copy_to_host(done_.data(), done_.size());
  got_.resize(output_bytes_);
  output_.copy_to_host(got_.data(), got_.size());
}

std::string read_batch::problem(std::size_t i) const {
  auto const& op = done_[i];
  auto const& e = expected_[i];
  auto const where = [&] {
    return fmt::format("op {}: gread(fd {}, count {}, offset {}) into address {} modulo 64", i,
                       op.fd, op.count, op.offset, op.place % 64);
  };
  if (op.result != e.result)
    return fmt::format("{} returned {}, not {}", where(), op.result, e.result);
  auto const* const bytes = got_.data() + op.place;
  if (!e.bytes.empty() && std::memcmp(bytes, e.bytes.data(), e.bytes.size()) != 0) {
    auto const b = std::size_t(
        std::ranges::mismatch(e.bytes, std::span{bytes, e.bytes.size()}).in1 - e.bytes.begin());
    return fmt::format("{}: byte {} is {:#x}, not {:#x}", where(), b, int(bytes[b]),
                       int(e.bytes[b]));
  }
  auto const end = std::int64_t(e.room + guard);
  for (auto const& [from, to] :
       {std::pair{-std::int64_t(guard), std::int64_t(0)}, std::pair{std::int64_t(e.free), end}}) {
    if (is_zero({bytes + from, std::size_t(std::max(to - from, std::int64_t(0)))})) continue;
    auto b = from;
    while (bytes[b] == std::byte{0}) ++b;
    return fmt::format("{}: wrote {:#x} at byte {} of its buffer, of which {} are its own", where(),
                       int(bytes[b]), b, e.free);
  }
  return {};
}

std::string read_batch::problems() const {
  std::string first;
  std::size_t more = 0;
  for (std::size_t i = 0; i < done_.size(); ++i) {
    auto text = problem(i);
    if (text.empty()) continue;
    if (first.empty())
      first = std::move(text);
    else
      ++more;
  }
  if (done_.size() != ops_.size()) return "not run";
  return more == 0 ? first : fmt::format("{}; and {} more of {}", first, more, ops_.size());
}

std::vector<std::int64_t> read_batch::results() const {
  std::vector<std::int64_t> all;
  for (auto const& op : done_) all.push_back(op.result);
  return all;
}

std::uint64_t read_batch::bytes_expected() const {
  std::uint64_t sum = 0;
  for (auto const& e : expected_) sum += e.bytes.size();
  return sum;
}

void check_twice(filesystem& fs, read_batch& batch, unsigned blocks, unsigned threads,
                 caller_kind who) {
  for (int again = 0; again < 2; ++again) {
    auto const before = fs.stats();
    batch.run(fs.ref(), blocks, threads, who);
    CHECK(batch.problems() == "");
    auto const done = fs.stats() - before;
    CHECK(done.bytes_delivered == batch.bytes_expected());
    CHECK(done.errors == 0);
    CHECK(done.timeouts == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

}  // namespace gpufs::test
