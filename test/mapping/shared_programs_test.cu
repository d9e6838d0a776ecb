// Random programs of CPU accesses, launches and calls of shared memory, beside the same on plain
// arrays. After each step that reads, the bytes must be the same.
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/held_kernels.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;

/// An object, and what its words must be.
struct twin {
  mapping shared;
  words plain;
  bool is_batch, waits_on_touch;
  [[nodiscard]] std::uint32_t* data() const { return shared.as<std::uint32_t>(); }
  [[nodiscard]] std::uint32_t* kernels() const { return for_kernels(shared); }
};

class program {
 public:
  program(std::uint64_t seed, mapping_config const& c) : random_(seed), settings_(c), memory_(c) {
    // Some chunks stay in the host's memory in any case.
    std::uint64_t const objects = 2 + below(3) + (c.spill_dir.empty() ? 0 : 5);
    for (std::uint64_t n = 0; n < objects; ++n) twins_.push_back(new_twin());
  }

  /// Returns whether all bytes that the step read were right.
  bool step() { return do_step() && keeps_budgets(); }
  [[nodiscard]] unsigned refused() const { return refused_; }
  [[nodiscard]] std::uint64_t spilled() const { return memory_.stats().spill_bytes; }

  bool all_right() {
    memory_.synchronize();
    bool right = true;
    for (auto const& t : twins_) right = right && is_right(t, 0, t.plain.size());
    return right;
  }

 private:
  bool do_step() {
    switch (below(15)) {
      case 0: return replace();
      case 1:
      case 2: return write();
      case 3: return read();
      case 4: return copy();
      case 5: return ready();
      case 6: return launch_undeclared();
      case 7: return read_file();
      case 8: return write_file();
      case 9: return copy_by_call();
      case 10: return set();
      case 11: return advise();
      default: return launch_declared();
    }
  }

  bool keeps_budgets() {
    auto const now = memory_.tiers();
    return (settings_.device_memory == 0 || now.device <= settings_.device_memory) &&
           now.host <= settings_.host_memory;
  }

  bool advise() {
    auto& t = any();
    auto const [first, count] = part_of(t.plain, t.plain.size());
    return t.shared.advise(first * 4, count * 4, memory_advice(below(4))) == 0;
  }

  /// As test::launched(). Refusals are counted.
  template <class Launch>
  bool launched(Launch const& launch) {
    bool const done = gpufs::test::launched(launch);
    if (!done) ++refused_;
    return done;
  }

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  twin& any() { return twins_[below(twins_.size())]; }

  static constexpr coherence_protocol protocols[] = {
      coherence_protocol::batch, coherence_protocol::lazy, coherence_protocol::rolling};

  twin new_twin() {
    std::uint64_t const longest = below(4) == 0 ? 1'500'000 : 40 << 10;
    std::uint64_t const count = 1 + below(longest);
    map_options options;
    if (below(2) == 0) options.protocol = protocols[below(3)];
    options.wait_on_touch = below(2) == 0;
    return {memory_.allocate(count * 4, options), words(count),
            options.protocol.value_or(settings_.protocol) == coherence_protocol::batch,
            options.wait_on_touch};
  }

  struct stretch {
    std::uint64_t first, count;
  };
  stretch part_of(words const& w, std::uint64_t most) {
    std::uint64_t const first = below(w.size());
    return {first, 1 + below(std::min<std::uint64_t>(most, w.size() - first))};
  }

  static bool is_right(twin const& t, std::uint64_t first, std::uint64_t count) {
    return std::memcmp(t.data() + first, t.plain.data() + first, count * 4) == 0;
  }

  bool replace() {
    memory_.synchronize();
    auto& t = any();
    bool const right = is_right(t, 0, t.plain.size()) && t.shared.unmap() == 0;
    t = new_twin();
    return right;
  }

  bool write() {
    memory_.synchronize();
    auto& t = any();
    auto const [first, count] = part_of(t.plain, 5000);
    std::uint64_t const stride = 1 + below(40);
    for (std::uint64_t i = first; i < first + count; i += stride)
      t.data()[i] = t.plain[i] = static_cast<std::uint32_t>(random_());
    return true;
  }

  bool read() {
    auto& t = any();
    auto const [first, count] = part_of(t.plain, 20000);
    // As on a GPU: what the CPU reads waits for calls, or is what the device has at the moment.
    bool const may_touch = separate_sides && !t.is_batch && below(3) != 0;
    if (may_touch && !t.waits_on_touch)
      for (auto i = first; i < first + count; i += 1 + below(2000)) {
        static_cast<void>(word_at(t.shared, i));
      }
    if (!may_touch || !t.waits_on_touch) memory_.synchronize();
    return is_right(t, first, count);
  }

  bool copy() {
    memory_.synchronize();
    auto& from = any();
    auto& to = any();
    auto const a = part_of(from.plain, 3000), b = part_of(to.plain, 3000);
    std::uint64_t const bytes = std::min(a.count, b.count) * 4;
    std::memmove(to.data() + b.first, from.data() + a.first, bytes);
    std::memmove(to.plain.data() + b.first, from.plain.data() + a.first, bytes);
    return true;
  }

  bool ready() {
    memory_.synchronize();
    auto& t = any();
    auto const [first, count] = part_of(t.plain, 20000);
    if (below(2) == 0) return t.shared.prefetch_to_device(first * 4, count * 4) == 0;
    gpufs::access const use[] = {access::read, access::write, access::read_write};
    auto const how = use[below(3)];
    if (t.shared.acquire(first * 4, count * 4, how) != 0) return false;
    if (how == access::read) return is_right(t, first, count);
    for (std::uint64_t i = first; i < first + count; ++i)
      t.data()[i] = t.plain[i] = static_cast<std::uint32_t>(i + 17);
    return true;
  }

  // The calls for files and memory need no synchronize().
  bool read_file() {
    auto& t = any();
    auto const [first, count] = part_of(t.plain, 20000);
    auto const random = random_();
    words from(count);
    for (std::uint64_t i = 0; i < count; ++i) from[i] = static_cast<std::uint32_t>(random + i * 7);
    file_.fill(from);
    std::uint64_t const bytes = below(4) == 0 ? 1 + below(count * 4) : count * 4;
    bool const is_at_position = below(2) == 0;
    auto const got = is_at_position ? memory_.read(file_.fd(), t.data() + first, bytes)
                                    : memory_.pread(file_.fd(), t.data() + first, bytes, 0);
    std::memcpy(t.plain.data() + first, from.data(), bytes);
    return got == std::int64_t(bytes);
  }

  bool write_file() {
    auto& t = any();
    auto const [first, count] = part_of(t.plain, 20000);
    file_.fill(words());
    bool const is_at_position = below(2) == 0;
    auto const put = is_at_position ? memory_.write(file_.fd(), t.data() + first, count * 4)
                                    : memory_.pwrite(file_.fd(), t.data() + first, count * 4, 0);
    auto const found = file_.content<std::uint32_t>();
    return put == std::int64_t(count * 4) && found.size() == count &&
           std::memcmp(found.data(), t.plain.data() + first, count * 4) == 0;
  }

  bool copy_by_call() {
    auto& from = any();
    auto& to = any();
    auto const a = part_of(from.plain, 3000), b = part_of(to.plain, 3000);
    std::uint64_t const count = std::min(a.count, b.count), bytes = count * 4;
    std::uint64_t const kind = below(3);
    int result = 0;
    if (kind == 0) {  // from plain memory
      words const source(count, static_cast<std::uint32_t>(random_()));
      result = memory_.copy(to.data() + b.first, source.data(), bytes);
      std::memcpy(to.plain.data() + b.first, source.data(), bytes);
    } else if (kind == 1) {  // to plain memory
      words target(count);
      result = memory_.copy(target.data(), from.data() + a.first, bytes);
      if (std::memcmp(target.data(), from.plain.data() + a.first, bytes) != 0) return false;
    } else {
      result = memory_.copy(to.data() + b.first, from.data() + a.first, bytes);
      std::memmove(to.plain.data() + b.first, from.plain.data() + a.first, bytes);
    }
    return result == 0;
  }

  bool set() {
    auto& t = any();
    auto const [first, count] = part_of(t.plain, 20000);
    int const value = int(below(256));
    std::memset(t.plain.data() + first, value, count * 4);
    return memory_.set(t.data() + first, value, count * 4) == 0;
  }

  // What the kernel does to the plain words.
  static void mix(words& to, words const& from, stretch const& s, std::uint32_t salt) {
    for (auto i = s.first; i < s.first + s.count; ++i)
      to[i] = to[i] * 3 + from[i] + static_cast<std::uint32_t>(i) + salt;
  }

  bool launch_undeclared() {
    auto& to = any();
    auto& from = any();
    auto s = part_of(to.plain, 3000);
    if (s.first >= from.plain.size()) return true;
    s.count = std::min<std::uint64_t>(s.count, from.plain.size() - s.first);
    auto const salt = static_cast<std::uint32_t>(random_());
    if (launched([&] {
          launch(mix_words, 2, 32, to.kernels(), from.kernels(), s.first, s.count, salt);
        }))
      mix(to.plain, from.plain, s, salt);
    return true;
  }

  bool launch_declared() {
    auto& to = any();
    auto& from = any();
    auto s = part_of(to.plain, 3000);
    if (s.first >= from.plain.size()) return true;
    s.count = std::min<std::uint64_t>(s.count, from.plain.size() - s.first);
    auto const salt = static_cast<std::uint32_t>(random_());
    shared_call call;
    bool const whole = below(2) == 0;
    if (whole)
      call.reads(from.shared).writes(to.shared);
    else
      call.reads(from.shared, s.first * 4, s.count * 4)
          .reads_writes(to.shared, s.first * 4, s.count * 4);
    if (launched([&] {
          launch(call, mix_words, 2, 32, to.kernels(), from.kernels(), s.first, s.count, salt);
        }))
      mix(to.plain, from.plain, s, salt);
    return true;
  }

  std::mt19937_64 random_;
  mapping_config settings_;
  unsigned refused_ = 0;
  shared_memory memory_;
  memory_file file_;
  std::vector<twin> twins_;
};

/// Runs programs with the settings that `configure(random)` draws.
template <class Configure>
void run_programs(unsigned programs, Configure const& configure) {
  CAPTURE(seed());
  unsigned refused = 0;
  std::uint64_t spilled = 0;
  for (unsigned n = 0; n < programs; ++n) {
    CAPTURE(n);
    std::mt19937_64 random(seed() + n);
    auto const c = configure(random);
    program p(random(), c);
    for (unsigned step = 0; step < 60; ++step) {
      CAPTURE(step);
      REQUIRE(p.step());
    }
    REQUIRE(p.all_right());
    refused += p.refused();
    spilled += p.spilled();
  }
  MESSAGE(refused << " launches refused for want of memory, " << spilled << " bytes spilled");
}

constexpr std::uint64_t mebi = 1 << 20;

mapping_config any_settings(std::mt19937_64& random) {
  auto c = settings_of_suite();
  coherence_protocol const protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                          coherence_protocol::rolling};
  c.protocol = protocols[random() % 3];
  std::uint64_t const blocks[] = {block_automatic, 4 << 10, 16 << 10, 64 << 10, 1 << 20};
  c.coherence_block = blocks[random() % 5];
  c.rolling_size = static_cast<std::uint32_t>(random() % 6);
  if (separate_sides) {  // chunks stay where they are, also if advice wants them at the host
    c.host_memory = 0;
    return c;
  }
  // All in device memory, and less and less of it and of the host's.
  std::uint64_t const budgets[] = {0, 1, 2 * mebi, 4 * mebi, 8 * mebi};
  c.device_memory = budgets[random() % 5];
  c.host_memory = random() % 3 == 0 ? 64 * mebi : budgets[random() % 5];
  if (random() % 4 != 0) c.chunk_size = 2 * mebi;
  return c;
}

}  // namespace

TEST_CASE("shared programs: every byte that a program reads is that of plain arrays") {
  run_programs(scaled(90, 18), any_settings);
}

TEST_CASE("shared programs: the same where most bytes are spilled") {
  if (separate_sides) return;
  scratch_folder const folder;
  run_programs(scaled(40, 8), [&](std::mt19937_64& random) {
    auto c = any_settings(random);
    c.protocol = coherence_protocol::rolling;
    c.device_memory = (2 + random() % 3 * 2) * mebi;
    c.host_memory = random() % 2 * 2 * mebi;
    c.chunk_size = 2 * mebi;
    c.spill_dir = folder.path();
    return c;
  });
}
