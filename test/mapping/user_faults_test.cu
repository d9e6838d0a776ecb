// Shared memory whose accesses are caught by userfaultfd: system calls name objects as they like,
// threads get on side by side, and where the system refuses it there is the way by signals.
// ThreadSanitizer does not know that a thread was stopped and went on.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/user_faults.hpp>
#include <test/support/child.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

/// With a sanitizer there are no more, and notes() would say so.
mapping_config few_addresses() {
  mapping_config c;
  c.address_space = 64ull << 30;
  return c;
}

mapping_config by_user_faults(coherence_protocol protocol = coherence_protocol::rolling,
                              std::uint64_t block = block_automatic) {
  mapping_config c = few_addresses();
  c.fault_handler = fault_handling::userfault;
  c.protocol = protocol;
  c.coherence_block = block;
  return c;
}

void mix(mapping const& m, mapping const& zeros, std::uint32_t salt) {
  shared_call call;
  call.reads(zeros).reads_writes(m);
  launch(call, mix_words, 2, 32, m.as<std::uint32_t>(), zeros.as<std::uint32_t const>(),
         std::uint64_t(0), m.size() / 4, salt);
}

void mix(words& w, std::uint32_t salt) {
  for (std::uint64_t i = 0; i < w.size(); ++i)
    w[i] = w[i] * 3 + static_cast<std::uint32_t>(i) + salt;
}

/// One thread's object: what the CPU, kernels and system calls do with it, beside the same in plain
/// memory.
class user {
 public:
  user(shared_memory& memory, std::uint64_t words_of, std::uint64_t seed)
      : random_(seed),
        memory_(memory),
        object_(memory.allocate(words_of * 4)),
        zeros_(memory.allocate(words_of * 4)),
        plain_(words_of) {}

  /// Returns what was wrong, or nothing.
  std::string step() {
    auto const first = random_() % plain_.size(), count = 1 + random_() % (plain_.size() - first);
    auto* const at = object_.as<std::uint32_t>() + first;
    switch (random_() % 5) {
      case 0:
        mix(object_, zeros_, std::uint32_t(first));
        mix(plain_, std::uint32_t(first));
        memory_.synchronize(this_thread_stream());
        return "";
      case 1:
        for (std::uint64_t i = 0; i < count; i += 1 + random_() % 700)
          at[i] = plain_[first + i] = std::uint32_t(random_());
        return "";
      case 2: return std::equal(at, at + count, plain_.begin() + long(first)) ? "" : "CPU reads";
      case 3: return read_file(at, first, count);
      default: return write_file(at, first, count);
    }
  }

 private:
  std::string read_file(std::uint32_t* at, std::uint64_t first, std::uint64_t count) {
    words content(count);
    for (auto& w : content) w = std::uint32_t(random_());
    memory_file const file(content);
    std::copy(content.begin(), content.end(), plain_.begin() + long(first));
    auto const n = ::pread(file.fd(), at, count * 4, 0);
    return n == std::int64_t(count * 4) ? "" : "pread(2)";
  }
  std::string write_file(std::uint32_t const* at, std::uint64_t first, std::uint64_t count) {
    memory_file const file;
    if (::pwrite(file.fd(), at, count * 4, 0) != std::int64_t(count * 4)) return "pwrite(2)";
    words const content = file.content<std::uint32_t>();
    return std::equal(content.begin(), content.end(), plain_.begin() + long(first))
               ? ""
               : "what pwrite(2) wrote";
  }

  std::mt19937_64 random_;
  shared_memory& memory_;
  mapping object_, zeros_;
  words plain_;
};

}  // namespace

TEST_CASE("user faults: system calls name bytes that have to be fetched, or that nobody wrote") {
  if (thread_sanitizer || !has_user_faults()) return;
  for (auto const protocol :
       {coherence_protocol::rolling, coherence_protocol::lazy, coherence_protocol::batch}) {
    for (std::uint64_t const bytes : {std::uint64_t(400), 4 * kibi, 3 * mebi + 20}) {
      CAPTURE(int(protocol));
      CAPTURE(bytes);
      shared_memory memory(by_user_faults(protocol));
      CHECK(memory.notes().empty());
      auto const m = memory.allocate(bytes), zeros = memory.allocate(bytes);
      words expected(bytes / 4);
      memory_file const file;
      CHECK(::pwrite(file.fd(), m.data(), bytes, 0) == std::int64_t(bytes));
      CHECK(file.content<std::uint32_t>() == expected);
      mix(m, zeros, 7);
      mix(expected, 7);
      memory.synchronize();
      CHECK(::pwrite(file.fd(), m.data(), bytes, 0) == std::int64_t(bytes));
      CHECK(file.content<std::uint32_t>() == expected);
      mix(m, zeros, 8);
      memory.synchronize();
      std::iota(expected.begin(), expected.end(), 5);
      file.fill(expected);
      CHECK(::pread(file.fd(), m.data(), bytes, 0) == std::int64_t(bytes));
      mix(m, zeros, 9);
      mix(expected, 9);
      memory.synchronize();
      CHECK(std::memcmp(m.data(), expected.data(), bytes) == 0);
      CHECK(memory.notes().empty());
    }
  }
}

TEST_CASE("user faults: threads with system calls, launches and accesses side by side") {
  if (thread_sanitizer || !has_user_faults()) return;
  CAPTURE(seed());
  constexpr unsigned threads = 4;
  for (std::uint32_t const rolling : {rolling_automatic, 1u}) {
    CAPTURE(rolling);
    mapping_config settings = by_user_faults(coherence_protocol::rolling, 4 * kibi);
    settings.rolling_size = rolling;
    shared_memory memory(settings);
    std::vector<std::string> wrong(threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        user own(memory, 5000 + 3000 * t, seed() + t);
        for (unsigned n = 0; n < scaled(150, 30) && wrong[t].empty(); ++n) wrong[t] = own.step();
      });
    }
    for (auto& thread : all) thread.join();
    for (auto const& what : wrong) CHECK(what == "");
  }
}

TEST_CASE("user faults: a file is read while system calls wait for it, and written back") {
  if (thread_sanitizer || !has_user_faults()) return;
  constexpr std::uint64_t count = 600'000;
  words content(count);
  std::iota(content.begin(), content.end(), 3);
  memory_file const file(content);
  shared_memory memory(by_user_faults());
  {
    auto m = memory.map(file.fd(), {.access = access::read_write, .eager = false});
    memory_file const out;
    CHECK(::pwrite(out.fd(), m.data(), count * 4, 0) == std::int64_t(count * 4));
    CHECK(out.content<std::uint32_t>() == content);
    words const other(1000, 77);
    memory_file const in(other);
    CHECK(::pread(in.fd(), m.as<char>() + mebi, 4000, 0) == 4000);
    std::copy(other.begin(), other.end(), content.begin() + mebi / 4);
    CHECK(m.unmap() == 0);
  }
  CHECK(file.content<std::uint32_t>() == content);
}

TEST_CASE("child: userfaultfd is not permitted") {
  if (!is_part("userfaultfd is not permitted")) return;
  if (::setgid(65534) != 0 || ::setuid(65534) != 0) return;  // a root that may do little
  REQUIRE(::prctl(PR_SET_DUMPABLE, 1) == 0);  // LeakSanitizer looks at the process at its end
  shared_memory memory(by_user_faults());
  auto const notes = memory.notes();
  if (notes.empty()) return;  // this system permits it to all
  CHECK(notes[0].starts_with("fault_handler: signal, as userfaultfd: "));
  auto const m = memory.allocate(4000), zeros = memory.allocate(4000);
  mix(m, zeros, 1);
  memory.synchronize();
  memory_file const file(words(1000));
  CHECK(::pread(file.fd(), m.data(), 4000, 0) == -1);
  CHECK(errno == EFAULT);
  CHECK(m.as<std::uint32_t>()[999] == 1000);
}

TEST_CASE("user faults: where it is not permitted, signals do the same, and notes() says so") {
  if (::geteuid() != 0) return;
  CHECK(child("userfaultfd is not permitted", "").succeeds());
}

TEST_CASE("user faults: the environment chooses, and what it says is checked") {
  auto const notes_with = [](char const* value) {
    ::setenv("GPUFS_FAULT_HANDLER", value, 1);
    auto const notes = shared_memory(few_addresses()).notes();
    ::unsetenv("GPUFS_FAULT_HANDLER");
    return notes;
  };
  CHECK(notes_with("signal").size() == 1);  // that system calls need wrappers
  CHECK(notes_with("auto").size() == 1);
  if (has_user_faults()) CHECK(notes_with("userfault").empty());
  ::setenv("GPUFS_FAULT_HANDLER", "sigsegv", 1);
  CHECK_THROWS_WITH_AS(shared_memory(),
                       "GPUFS_FAULT_HANDLER=sigsegv: must be one of auto signal userfault",
                       config_error);
  ::unsetenv("GPUFS_FAULT_HANDLER");
}
