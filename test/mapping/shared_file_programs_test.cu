// Random programs over objects with files, beside plain arrays that stand for the object and for
// the file.
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;

/// Stores in pairs of words: what an object of access write keeps apart.
__global__ void store_pairs(std::uint32_t* to, std::uint64_t first, std::uint64_t pairs,
                            std::uint32_t salt) {
  for (auto i = thread_number(); i < pairs; i += thread_count()) {
    to[2 * (first + i)] = salt + static_cast<std::uint32_t>(i);
    to[2 * (first + i) + 1] = salt * 3 + static_cast<std::uint32_t>(i);
  }
}

/// A file, and an object of a part of it. `now` is what the file will have once all is written
/// back, `disk` what it has.
class twin {
 public:
  twin(std::mt19937_64& random, shared_memory& memory, unsigned page_words)
      : random_(random), memory_(memory) {
    std::uint64_t const pages = below(4) == 0 ? 2000 : 100;
    std::uint64_t const count = 2 * (page_words + below(pages * page_words));
    disk_.resize(count);
    for (auto& w : disk_) w = static_cast<std::uint32_t>(random_());
    file_.write(disk_, 0);
    now_ = disk_;
    first_ = below(count / page_words) * page_words;
    count_ = 2 * (1 + below((count - first_) / 2));
    map();
  }

  bool step() {
    switch (below(13)) {
      case 0:
      case 1: return store_by_cpu();
      case 2: return read_by_cpu();
      case 3:
      case 4: return store_by_kernel();
      case 5: return mix_by_kernel();
      case 6: return write_back();
      case 7: return by_call();
      case 8: return others_write();
      case 9: return discard();
      case 10: return ready();
      case 11: return remap();
      default: return again();
    }
  }

  bool end() { return object_.unmap() == 0 && is_in_file(); }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  [[nodiscard]] bool reads() const { return use_ == access::read_write; }
  [[nodiscard]] std::uint32_t* data() const { return object_.as<std::uint32_t>(); }

  void map() {
    constexpr coherence_protocol protocols[] = {coherence_protocol::lazy,
                                                coherence_protocol::rolling};
    constexpr std::uint64_t blocks[] = {block_automatic, 4096, 16384, 1 << 20};
    use_ = below(3) == 0 ? access::write : access::read_write;
    object_ = memory_.map(file_.path(), {.access = use_,
                                         .length = count_ * 4,
                                         .offset = first_ * 4,
                                         .eager = below(2) == 0,
                                         .protocol = protocols[below(2)],
                                         .block = blocks[below(4)]});
  }

  struct stretch {
    std::uint64_t first, pairs;
  };
  stretch part(std::uint64_t most) {
    std::uint64_t const first = below(count_ / 2);
    return {first, 1 + below(std::min<std::uint64_t>(most, count_ / 2 - first))};
  }
  [[nodiscard]] bool is_right(stretch s) const {
    return !reads() ||
           std::memcmp(data() + 2 * s.first, &now_[first_ + 2 * s.first], s.pairs * 8) == 0;
  }
  [[nodiscard]] bool is_in_file() const { return file_.content() == now_; }

  bool store_by_cpu() {
    memory_.synchronize();
    auto const s = part(3000);
    std::uint64_t const stride = 1 + below(30);
    for (auto i = s.first; i < s.first + s.pairs; i += stride) {
      for (auto const w : {2 * i, 2 * i + 1})
        data()[w] = now_[first_ + w] = static_cast<std::uint32_t>(random_());
    }
    return true;
  }
  bool read_by_cpu() {
    memory_.synchronize();
    return is_right(part(5000));
  }
  bool store_by_kernel() {
    auto const s = part(4000);
    auto const salt = static_cast<std::uint32_t>(random_());
    shared_call call;
    call.writes(object_, 8 * s.first, 8 * s.pairs);
    bool const is_declared = below(2) == 0;
    if (!launched([&] {
          if (is_declared)
            launch(call, store_pairs, 2, 64, data(), s.first, s.pairs, salt);
          else
            launch(store_pairs, 2, 64, data(), s.first, s.pairs, salt);
        }))
      return true;
    for (std::uint64_t i = 0; i < s.pairs; ++i) {
      now_[first_ + 2 * (s.first + i)] = salt + static_cast<std::uint32_t>(i);
      now_[first_ + 2 * (s.first + i) + 1] = salt * 3 + static_cast<std::uint32_t>(i);
    }
    return true;
  }
  bool mix_by_kernel() {
    if (!reads()) return true;
    auto const s = part(2000);
    auto const salt = static_cast<std::uint32_t>(random_());
    if (!launched([&] {
          launch(mix_words, 1, 64, data(), static_cast<std::uint32_t const*>(data()), 2 * s.first,
                 2 * s.pairs, salt);
        }))
      return true;
    for (auto i = 2 * s.first; i < 2 * (s.first + s.pairs); ++i) {
      auto& w = now_[first_ + i];
      w = w * 3 + w + static_cast<std::uint32_t>(i) + salt;
    }
    return true;
  }
  bool write_back() {
    bool const right = (below(2) == 0 ? object_.write_back() : object_.sync()) == 0;
    disk_ = now_;
    return right && is_in_file() && object_.unwritten().empty();
  }
  bool by_call() {
    auto const s = part(3000);
    auto const value = static_cast<int>(below(256));
    std::memset(&now_[first_ + 2 * s.first], value, s.pairs * 8);
    return memory_.set(data() + 2 * s.first, value, s.pairs * 8) == 0;
  }
  // Nothing of ours is unwritten then, so that no page has two writers.
  bool others_write() {
    bool const right = write_back();
    std::uint64_t const first = below(now_.size() / 2);
    std::uint64_t const pairs = 1 + below(now_.size() / 2 - first);
    for (auto i = 2 * first; i < 2 * (first + pairs); ++i)
      now_[i] = static_cast<std::uint32_t>(random_());
    file_.write(
        {now_.begin() + std::int64_t(2 * first), now_.begin() + std::int64_t(2 * (first + pairs))},
        2 * first * 4);
    disk_ = now_;
    memory_.synchronize();
    // An object that does not read shows what it was written, and gives that to no one again.
    return object_.refresh() == 0 && right;
  }
  bool discard() {
    memory_.synchronize();
    now_ = disk_;
    return object_.discard() == 0;
  }
  bool ready() {
    memory_.synchronize();
    auto const s = part(5000);
    if (below(2) == 0) return object_.prefetch_to_device(8 * s.first, 8 * s.pairs) == 0;
    return object_.acquire(8 * s.first, 8 * s.pairs, access::read) == 0 && is_right(s);
  }
  bool again() {
    bool const right = object_.unmap() == 0 && is_in_file();
    disk_ = now_;
    map();
    return right;
  }

  bool remap() {
    memory_.synchronize();
    bool const right = object_.remap(access::read) == 0 && is_in_file() &&
                       std::memcmp(data(), &now_[first_], count_ * 4) == 0;
    disk_ = now_;
    bool const is_summed = sum_by_kernel();
    use_ = below(2) == 0 ? access::write : access::read_write;
    return right && is_summed && object_.remap(use_) == 0;
  }

  // Of a part of an object that is only read.
  bool sum_by_kernel() {
    auto const s = part(2000);
    mapping sum = memory_.allocate(sizeof(std::uint64_t));
    shared_call call;
    call.reads(object_, 8 * s.first, 8 * s.pairs).writes(sum);
    if (!launched([&] {
          launch(call, sum_words, 1, 32, static_cast<std::uint32_t const*>(data() + 2 * s.first),
                 2 * s.pairs, sum.as<std::uint64_t>());
        }))
      return true;
    memory_.synchronize();
    std::uint64_t expected = 0;
    for (auto i = 2 * s.first; i < 2 * (s.first + s.pairs); ++i) expected += now_[first_ + i];
    return *sum.as<std::uint64_t>() == expected;
  }

  std::mt19937_64& random_;
  shared_memory& memory_;
  named_file file_;
  words disk_, now_;
  std::uint64_t first_, count_;  // of the object, in words of the file
  gpufs::access use_;
  mapping object_;
};

}  // namespace

TEST_CASE("random programs over objects with files leave the bytes that plain arrays have") {
  constexpr unsigned page_words = 1024;
  auto const first_seed = test::seed();
  constexpr unsigned programs = thread_sanitizer ? 4 : 40, steps = 40;
  scratch_folder const folder;
  for (unsigned number = 0; number < programs; ++number) {
    CAPTURE(number);
    std::mt19937_64 random(first_seed + number);
    mapping_config config;
    config.rolling_size = random() % 2 == 0 ? rolling_automatic : std::uint32_t(1 + random() % 6);
    config.fill_threads = std::uint32_t(1 + random() % 4);
    config.detect_writes = random() % 4 == 0 ? write_detection::all : write_detection::hash;
    // All in device memory, and less and less of it and of the host's.
    constexpr std::uint64_t mebi = 1 << 20;
    std::uint64_t const budgets[] = {0, 1, 2 * mebi, 4 * mebi, 8 * mebi};
    config.device_memory = budgets[random() % 5];
    config.host_memory = random() % 3 == 0 ? 64 * mebi : budgets[random() % 5];
    if (random() % 4 != 0) config.chunk_size = 2 * mebi;
    if (random() % 3 == 0) config.spill_dir = folder.path();
    shared_memory memory(config);
    std::vector<std::unique_ptr<twin>> twins;
    for (unsigned i = 0; i < 2; ++i)
      twins.push_back(std::make_unique<twin>(random, memory, page_words));
    for (unsigned step = 0; step < steps; ++step) {
      CAPTURE(step);
      REQUIRE(twins[random() % twins.size()]->step());
    }
    for (auto const& t : twins) REQUIRE(t->end());
  }
}
