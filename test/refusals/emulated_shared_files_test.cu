// Objects with files while the system and the device refuse calls: what sync() has promised is in
// the file, every other word is an old one or a new one, and nothing hangs or stays behind.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/refusals/refused_calls.hpp>
#include <test/refusals/shared_sweep.hpp>
#include <test/support/in_library.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t count = thread_sanitizer ? 6'000 : 30'000, bytes = count * 4;

/// Ends the program at the first error that the refusal explains.
struct stopped {};

/// A file, what it may have, and what it must have since a call has said so.
struct tracked_file {
  explicit tracked_file(words begin) : file(begin), now(std::move(begin)), promised(now) {}
  named_file file;
  words now, promised;
  words before = now;  ///< earlier words that may be there still

  void changed(words to) { before = std::exchange(now, std::move(to)); }
  void is_promised() { before = promised = now; }
  [[nodiscard]] bool is_right() const {
    auto const content = file.content();
    if (content.size() != now.size()) return false;
    for (std::uint64_t i = 0; i < content.size(); ++i) {
      bool const known =
          content[i] == now[i] || content[i] == before[i] || content[i] == promised[i];
      if (!known) return false;
    }
    return true;
  }
};

words numbers(std::uint32_t first) {
  words all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

__global__ void copy_words(std::uint32_t* to, std::uint32_t const* from, std::uint64_t n) {
  for (auto i = thread_number(); i < n; i += thread_count()) to[i] = from[i];
}

enum class memory_kind { roomy, tight, managed };

class program {
 public:
  program(int outcome, memory_kind kind) : outcome_(outcome) {
    if (kind == memory_kind::tight) {  // one object in device memory, two at the host
      settings_.device_memory = 2 << 20;
      settings_.host_memory = 4 << 20;
    }
    if (kind == memory_kind::managed) settings_.backing = memory_backing::managed;
    settings_.coherence_block = 16 << 10;
    settings_.fill_threads = 2;
  }

  void run() {
    bool has_ended = false;
    try {
      try {
        steps();
        has_ended = true;
      } catch (shared_memory_error const& e) {
        explain(-e.code(), e.what());
      } catch (device_error const& e) {
        explain(-EIO, e.what());
      }
    } catch (stopped const&) {
    }
    for (auto* const m : {&in_, &both_, &out_}) {
      int const result = library([&] { return m->unmap(); });
      if (result != 0) CHECK_MESSAGE((outcome_ != 0 && refusal::happened()), result);
      if (result == 0 && has_ended && m != &in_) (m == &both_ ? changed_ : made_).is_promised();
    }
    CHECK(changed_.is_right());
    CHECK(made_.is_right());
    CHECK(source_.file.content() == source_.now);
  }

 private:
  void explain(std::int64_t error, std::string const& where) {
    CHECK_MESSAGE((outcome_ != 0 && refusal::happened()), where, ": ", error);
    throw stopped{};
  }
  void must(int result, char const* where) {
    if (result != 0) explain(result, where);
  }

  void steps() {
    library([&] {
      memory_.emplace(settings_);
      in_ = memory_->map(source_.file.path());
      both_ = memory_->map(changed_.file.path(), {.access = access::read_write});
      out_ = memory_->map(made_.file.path(),
                          {.access = access::write, .create = true, .length = bytes});
    });
    launch_mixed();
    must(library([&] { return both_.sync(); }), "sync");
    changed_.is_promised();
    change_by_cpu();
    must(library([&] { return both_.write_back(); }), "write_back");
    changed_.is_promised();
    if (!is_managed()) must(library([&] { return both_.refresh(); }), "refresh");
    must(library([&] { return both_.acquire(0, bytes, access::read); }), "acquire");
    CHECK(std::equal(changed_.now.begin(), changed_.now.end(), both_.as<std::uint32_t>()));
    if (is_managed())
      must(library([&] { return out_.sync(); }), "sync");
    else
      must(library([&] { return out_.remap(access::read_write); }), "remap");
    made_.is_promised();
  }

  [[nodiscard]] bool is_managed() const { return settings_.backing == memory_backing::managed; }

  void launch_mixed() {
    words mixed = changed_.now, made = made_.now;
    for (std::uint64_t i = 0; i < count; ++i)
      mixed[i] = mixed[i] * 3 + source_.now[i] + std::uint32_t(i) + 3;
    std::copy_n(source_.now.begin(), count / 4, made.begin());
    // A launch that is refused behind its hand-over may have run or not.
    changed_.changed(mixed);
    made_.changed(made);
    library([&] {
      shared_call call;
      call.reads(in_).reads_writes(both_);
      launch(call, mix_words, 2, 32, both_.as<std::uint32_t>(), in_.as<std::uint32_t const>(),
             std::uint64_t(0), count, 3u);
      launch(copy_words, 2, 32, out_.as<std::uint32_t>(), in_.as<std::uint32_t const>(), count / 4);
      memory_->synchronize();
    });
  }

  void change_by_cpu() {
    must(library([&] { return both_.acquire(0, bytes / 3, access::read_write); }),
         "acquire to write");
    words next = changed_.now;
    for (std::uint64_t i = 0; i < count / 12; i += 3)
      both_.as<std::uint32_t>()[i] = next[i] = std::uint32_t(i * 11);
    changed_.changed(next);
  }

  int outcome_;
  mapping_config settings_;
  tracked_file source_{numbers(7)}, changed_{numbers(100)}, made_{words(count, 1)};
  std::optional<shared_memory> memory_;
  mapping in_, both_, out_;
};

}  // namespace

TEST_CASE("shared files: every call is refused at each place") {
  sweep_calls([](int outcome) { program(outcome, memory_kind::roomy).run(); });
}
TEST_CASE("shared files: the same where they do not fit into device memory") {
  sweep_calls([](int outcome) { program(outcome, memory_kind::tight).run(); });
}
TEST_CASE("shared files: the same in managed memory") {
  sweep_calls([](int outcome) { program(outcome, memory_kind::managed).run(); });
}
