// Shared memory while the system and the device refuse calls: each call at each place of a program.
// An error is named once, what was read before is right, and nothing hangs or stays behind.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/user_faults.hpp>
#include <test/refusals/refused_calls.hpp>
#include <test/refusals/shared_sweep.hpp>
#include <test/support/in_library.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t count = 20'000, bytes = count * 4;

/// Ends the program at the first error that the refusal explains.
struct stopped {};

/// A program that uses all of shared_memory's calls. The CPU touches only what acquire() made
/// ready: without bytes, a touch would end the process.
class program {
 public:
  /// `outcome`: what the refused call says, 0: none is refused.
  program(coherence_protocol protocol, int outcome, bool is_tight, fault_handling how)
      : outcome_(outcome) {
    settings_.protocol = protocol;
    settings_.fault_handler = how;
    if (is_tight) {  // one object in device memory, two at the host
      settings_.device_memory = 2 << 20;
      settings_.host_memory = 4 << 20;
    }
    settings_.coherence_block = 4096;
    settings_.rolling_size = 2;
  }

  void run() {
    try {
      try {
        steps();
      } catch (shared_memory_error const& e) {
        explain(-e.code(), e.what());
      } catch (device_error const& e) {
        explain(-EIO, e.what());
      }
    } catch (stopped const&) {
    }
    for (auto* const m : {&a_, &b_, &c_}) {
      int const result = library([&] { return m->unmap(); });
      if (result != 0)
        CHECK_MESSAGE((outcome_ != 0 && refusal::happened() && result == -EIO), result);
    }
  }

 private:
  void explain(std::int64_t error, std::string const& where) {
    CHECK_MESSAGE((outcome_ != 0 && refusal::happened()), where, ": ", error);
    bool const is_named = error == -EIO || error == -ENOMEM || error == -outcome_;
    CHECK_MESSAGE(is_named, where, ": ", error);
    throw stopped{};
  }
  void must(int result, char const* where) {
    if (result != 0) explain(result, where);
  }

  // Until all is done, as programs do. Interruptions do not end it, unless they come for ever.
  template <class Call>
  void move_all(Call const& call, char const* where) {
    unsigned interrupted = 0;
    for (std::uint64_t done = 0; done < bytes;) {
      auto const n = library([&] { return call(done); });
      if (n == -EINTR && ++interrupted < 10) continue;
      if (n < 0) explain(n, where);
      REQUIRE(n > 0);
      done += std::uint64_t(n);
    }
  }

  void steps() {
    library([&] {
      memory_.emplace(settings_);
      a_ = memory_->allocate(bytes);
      b_ = memory_->allocate(bytes);
      c_ = memory_->allocate(bytes);
    });
    write_by_cpu();
    read_file();
    launch_declared();
    write_file();
    copy_and_set();
    launch_undeclared();
    compare(a_, plain_a_, "a");
    compare(b_, plain_b_, "b");
  }

  void write_by_cpu() {
    must(library([&] { return a_.acquire(0, bytes, access::write); }), "acquire to write");
    for (std::uint64_t i = 0; i < count; ++i)
      a_.as<std::uint32_t>()[i] = plain_a_[i] = std::uint32_t(i * 5);
    must(library([&] { return a_.prefetch_to_device(0, bytes / 2); }), "prefetch");
  }

  void read_file() {
    std::iota(plain_b_.begin(), plain_b_.end(), 100);
    memory_file const file(plain_b_);
    move_all(
        [&](auto done) { return memory_->read(file.fd(), b_.as<char>() + done, bytes - done); },
        "read");
    compare(b_, plain_b_, "what was read");
    move_all(
        [&](auto done) {
          return memory_->pread(file.fd(), b_.as<char>() + done, bytes - done, done);
        },
        "pread");
  }

  void launch_declared() {
    library([&] {
      shared_call call;
      call.reads(b_).reads_writes(a_);
      launch(call, mix_words, 2, 32, a_.as<std::uint32_t>(), b_.as<std::uint32_t const>(),
             std::uint64_t(0), count, 3u);
      memory_->synchronize();
    });
    for (std::uint64_t i = 0; i < count; ++i)
      plain_a_[i] = plain_a_[i] * 3 + plain_b_[i] + std::uint32_t(i) + 3;
  }

  void write_file() {
    memory_file const file;
    move_all(
        [&](auto done) { return memory_->write(file.fd(), a_.as<char>() + done, bytes - done); },
        "write");
    CHECK(file.content<std::uint32_t>() == plain_a_);
    memory_file const other;
    move_all(
        [&](auto done) {
          return memory_->pwrite(other.fd(), a_.as<char>() + done, bytes - done, done);
        },
        "pwrite");
    CHECK(other.content<std::uint32_t>() == plain_a_);
  }

  void copy_and_set() {
    must(library([&] { return memory_->copy(c_.data(), a_.data(), bytes); }), "copy");
    must(library([&] { return memory_->set(a_.data(), 1, 5000); }), "set");
    std::memset(plain_a_.data(), 1, 5000);
    words plain(count);
    must(library([&] { return memory_->copy(plain.data(), a_.data(), bytes); }), "copy out");
    CHECK(plain == plain_a_);
  }

  void launch_undeclared() {
    library([&] {
      // Where not all fits, this one goes to device memory and another leaves it.
      CHECK(c_.advise(0, bytes, memory_advice::device) == 0);
      launch(mix_words, 2, 32, b_.as<std::uint32_t>(), a_.as<std::uint32_t const>(),
             std::uint64_t(0), count, 8u);
      memory_->synchronize(this_thread_stream());
    });
    for (std::uint64_t i = 0; i < count; ++i)
      plain_b_[i] = plain_b_[i] * 3 + plain_a_[i] + std::uint32_t(i) + 8;
  }

  void compare(mapping& m, words const& expected, char const* which) {
    must(library([&] { return m.acquire(0, bytes, access::read); }), which);
    CHECK_MESSAGE(std::memcmp(m.data(), expected.data(), bytes) == 0, which);
  }

  int outcome_;
  mapping_config settings_;
  std::optional<shared_memory> memory_;
  mapping a_, b_, c_;
  words plain_a_ = words(count), plain_b_ = words(count);
};

int sweeps_run = 0;

void sweep(coherence_protocol protocol, bool is_tight = false,
           fault_handling how = fault_handling::signal) {
  sweep_calls([=](int outcome) { program(protocol, outcome, is_tight, how).run(); });
  ++sweeps_run;
}

}  // namespace

TEST_CASE("shared calls: rolling objects while calls are refused") {
  sweep(coherence_protocol::rolling);
}
TEST_CASE("shared calls: lazy objects while calls are refused") { sweep(coherence_protocol::lazy); }
TEST_CASE("shared calls: batch objects while calls are refused") {
  sweep(coherence_protocol::batch);
}
TEST_CASE("shared calls: objects that do not fit into device memory while calls are refused") {
  sweep(coherence_protocol::rolling, true);
}
TEST_CASE("shared calls: objects with userfaultfd, where permitted, while calls are refused") {
  sweep(coherence_protocol::rolling, true, fault_handling::userfault);
}

// Last, as it counts what the others have refused.
TEST_CASE("shared calls: every call of shared memory was refused") {
  if (sweeps_run < 5) return;  // only some cases run
  for (auto const& call : refusable_calls()) {
    std::string const name = call.name;
    if (is_of_user_faults(call.call) && !has_user_faults()) continue;
    if (is_of_shared_memory(call.call))
      CHECK_MESSAGE(reached_calls[std::size_t(call.call)] > 0, name);
  }
}
