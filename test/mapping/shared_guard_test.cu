// guard_read_only: a launch that stores to an object which is only read fails. A GPU has no context
// any more then, so such launches have a process of their own.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>
#include <test/support/child.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

/// A kernel that fails leaves the handler of its signal for good. Sanitizers do not know of that,
/// and crash at times.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool is_watched = true;
#elif defined(__has_feature)
constexpr bool is_watched = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool is_watched = false;
#endif

constexpr std::uint64_t count = 5 * mebi / 4 + 100;  // words: three chunks, the last one short

mapping_config guarded() {
  mapping_config settings;
  settings.guard_read_only = true;
  settings.chunk_size = 2 * mebi;
  return settings;
}

/// What the device says of a launch that adds to words [first, first + 1) of the object; empty: it
/// did it.
std::string failure_of_store(shared_memory& memory, mapping const& m, std::uint64_t first) {
  try {
    launch(add_to_all, 1, 1, m.as<std::uint32_t>() + first, std::uint64_t(1), 7u);
    memory.synchronize();
  } catch (device_error const& e) {
    return e.what();
  }
  return {};
}

std::uint64_t sum_of(words const& all) {
  std::uint64_t sum = 0;
  for (auto const w : all) sum += w;
  return sum;
}

/// What a kernel reads.
std::uint64_t sum_by_kernel(shared_memory& memory, mapping const& m) {
  mapping const sum = memory.allocate(sizeof(std::uint64_t));
  launch(sum_words, 1, 1, m.as<std::uint32_t const>(), count, sum.as<std::uint64_t>());
  memory.synchronize();
  return *sum.as<std::uint64_t>();
}

words seen_by_cpu(mapping const& m) {
  auto const* const first = m.as<std::uint32_t const>();
  return {first, first + m.size() / sizeof *first};
}

/// In a child: stores to word `at` of what it maps, and ends the process. The object is not eager,
/// as a thread that has read the file would be left.
[[noreturn]] void store_and_end(shared_memory& memory, mapping const& m, std::uint64_t at) {
  auto const failure = failure_of_store(memory, m, at);
  bool const is_right = !failure.empty() && seen_by_cpu(m) == numbers(count);
  auto const text = failure + "\n";
  auto const ignored = ::write(STDOUT_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
  ::_exit(is_right ? 0 : 1);
}

/// What the child prints that stores to a file of numbers. The file stays as it was.
std::string printed_by(char const* part) {
  named_file const file(numbers(count));
  scratch_folder const folder;
  auto const output = folder / "output";
  child c(part, file.path(), {.output_to = output});
  CHECK(c.succeeds());
  CHECK(file.content() == numbers(count));
  return text_of(output);
}

bool says_guard(std::string const& output) {
  return current_device().kind != "emulated" ||
         output.find(
             "kernel failed in block (0,0,0): it stored to a shared object that is mapped "
             "for reading (guard_read_only)") != std::string::npos;
}

}  // namespace

TEST_CASE("child: stores to GPU memory") {
  if (!is_part("stores to GPU memory")) return;
  shared_memory memory(guarded());
  mapping const m = memory.map(given_path(), {.eager = false});
  CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  CHECK(m.tiers().host == 0);
  store_and_end(memory, m, count - 1);
}

TEST_CASE("child: stores to host memory") {
  if (!is_part("stores to host memory")) return;
  shared_memory memory(guarded());
  mapping m = memory.map(given_path(), {.eager = false});
  m.advise(0, m.size(), memory_advice::host);
  CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  CHECK(m.tiers().device == 0);
  store_and_end(memory, m, 0);
}

TEST_CASE("child: stores behind a fault handler of userfaultfd") {
  if (!is_part("stores behind a fault handler of userfaultfd")) return;
  auto settings = guarded();
  settings.fault_handler = fault_handling::userfault;
  shared_memory memory(settings);
  mapping const m = memory.map(given_path(), {.eager = false});
  store_and_end(memory, m, count / 2);
}

TEST_CASE("child: stores after it is only read again") {
  if (!is_part("stores after it is only read again")) return;
  shared_memory memory(guarded());
  mapping m = memory.map(given_path(), {.access = access::read_write});
  CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  CHECK(m.remap(access::read) == 0);
  CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  store_and_end(memory, m, 1);
}

TEST_CASE("guard_read_only: a store to what lies in GPU memory fails, and changes nothing" *
          doctest::skip(is_watched)) {
  CHECK(says_guard(printed_by("stores to GPU memory")));
}

TEST_CASE("guard_read_only: a store to what lies at the host fails, and changes nothing" *
          doctest::skip(is_watched)) {
  CHECK(says_guard(printed_by("stores to host memory")));
}

TEST_CASE("guard_read_only: userfaultfd makes no difference" * doctest::skip(is_watched)) {
  CHECK(says_guard(printed_by("stores behind a fault handler of userfaultfd")));
}

TEST_CASE("guard_read_only: an object that is remapped for reading is guarded from then on" *
          doctest::skip(is_watched)) {
  CHECK(says_guard(printed_by("stores after it is only read again")));
}

TEST_CASE("guard_read_only: other objects take stores, and files are read") {
  named_file const read(numbers(count)), written(numbers(count));
  shared_memory memory(guarded());
  mapping const in = memory.map(read.path());
  mapping out = memory.map(written.path(), {.access = access::read_write});
  mapping const plain = memory.allocate(count * 4);
  launch(mix_words, 2, 64, out.as<std::uint32_t>(), in.as<std::uint32_t const>(), std::uint64_t(0),
         count, 5u);
  launch(mix_words, 2, 64, plain.as<std::uint32_t>(), in.as<std::uint32_t const>(),
         std::uint64_t(0), count, 5u);
  memory.synchronize();
  CHECK(out.sync() == 0);
  auto const from = numbers(count);
  words mixed(count), sums(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    sums[i] = from[i] + std::uint32_t(i) + 5;
    mixed[i] = from[i] * 3 + sums[i];
  }
  CHECK(seen_by_cpu(plain) == sums);
  CHECK(written.content() == mixed);
  CHECK(seen_by_cpu(in) == from);
  CHECK(out.stats().fill_bytes == count * 4);
}

TEST_CASE("guard_read_only: an object that is remapped for writing takes stores") {
  named_file const file(numbers(count));
  shared_memory memory(guarded());
  mapping m = memory.map(file.path());
  CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  CHECK(m.remap(access::read_write) == 0);
  CHECK(failure_of_store(memory, m, 3).empty());
  CHECK(m.sync() == 0);
  auto expected = numbers(count);
  expected[3] += 7;
  CHECK(file.content() == expected);
}

TEST_CASE("guard_read_only: what others wrote is read anew into guarded chunks") {
  named_file const file(numbers(count));
  shared_memory memory(guarded());
  mapping m = memory.map(file.path());
  CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  let_stamps_age(file.path());
  file.write(words(count, 2u), 0);
  CHECK(m.refresh() == 0);
  CHECK(sum_by_kernel(memory, m) == 2 * count);
}

TEST_CASE("guard_read_only: a launch that failed leaves others as they are (emulated device)" *
          doctest::skip(is_watched)) {
  if (current_device().kind != "emulated") return;
  named_file const file(numbers(count));
  shared_memory memory(guarded());
  mapping const m = memory.map(file.path());
  for (auto const at : {std::uint64_t(0), count - 1}) {
    auto const failure = failure_of_store(memory, m, at);
    CHECK(says_guard(failure));
    CHECK(!failure.ends_with(":0"));  // no place that nobody knows
    CHECK(sum_by_kernel(memory, m) == sum_of(numbers(count)));
  }
}

TEST_CASE("guard_read_only: notes() has nothing to say where the device obeys") {
  for (bool const is_on : {false, true}) {
    mapping_config settings;
    settings.guard_read_only = is_on;
    shared_memory memory(settings);
    mapping const m = memory.allocate(4096);
    CHECK(std::ranges::none_of(memory.notes(), [](std::string const& note) {
      return note.find("guard_read_only") != std::string::npos;
    }));
  }
}
