// What must not be done with shared memory ends the process that does it, with a message.
#include <gpufs/mapping.hpp>

#include <test/support/child.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

__global__ void store_word(std::uint32_t* to) { *to = 1; }

/// What the child of this program for `part` prints. It must not succeed.
std::string failing(char const* part) {
  scratch_folder folder;
  std::string const output = folder / "output";
  child c(part, folder / "nothing", {.output_to = output});
  CHECK(!c.succeeds());
  return text_of(output);
}

bool says(std::string const& output, char const* line) {
  return output.find(line) != std::string::npos;
}

}  // namespace

TEST_CASE("child: stores against its declaration") {
  if (!is_part("stores against its declaration")) return;
  shared_memory memory;
  auto const m = memory.allocate(4096);
  {
    shared_call call;
    call.reads(m);
    launch(call, store_word, 1, 1, m.as<std::uint32_t>());
  }
  memory.synchronize();
}

TEST_CASE("child: uses an object that has gone") {
  if (!is_part("uses an object that has gone")) return;
  shared_memory memory;
  auto m = memory.allocate(4096);
  auto volatile* const word = m.as<std::uint32_t>();
  static_cast<void>(m.unmap());
  *word = 1;
}

TEST_CASE("shared refusals: a kernel that stores to what its call only reads (emulated device)") {
  if (current_device().kind != "emulated") return;
  CHECK(says(failing("stores against its declaration"),
             "gpufs: a kernel used a shared object against its call's declaration"));
}

TEST_CASE("shared refusals: an object that has gone is not served") {
  CHECK(says(failing("uses an object that has gone"), "SIGSEGV"));
}

namespace {
/// Whether a child of fork() lives to the end of a store of 2.
bool child_can_write(std::uint32_t* word) {
  pid_t const child = ::fork();
  if (child == 0) {
    *const_cast<std::uint32_t volatile*>(word) = 2;
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

template <class Call>
bool is_refused(Call const& call) {
  try {
    call();
    return false;
  } catch (shared_memory_error const& e) {
    return e.code() == EIO;
  }
}
}  // namespace

TEST_CASE("shared refusals: a child of fork() ends instead of waiting, and may end what it has") {
  auto memory = std::make_unique<shared_memory>();
  auto m = memory->allocate(4096);
  auto* const word = m.as<std::uint32_t>();
  *word = 0;
  launch(store_word, 1, 1, word);
  memory->synchronize();
  CHECK(!child_can_write(word));
  int status = 0;
  pid_t const ender = ::fork();
  if (ender == 0) {
    bool right = m.acquire(0, 4, gpufs::access::read) == -EIO;
    right = right && is_refused([&] { static_cast<void>(memory->allocate(4096)); });
    right = right && is_refused([&] { static_cast<void>(memory->map("/proc/self/exe")); });
    right = right && m.prefetch_to_device(0, 4) == -EIO && m.unmap() == 0;
    memory.reset();
    ::_exit(right ? 0 : 1);
  }
  CHECK(::waitpid(ender, &status, 0) == ender);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(*word == 1);
}

TEST_CASE("shared refusals: a child of fork() writes nothing to what its parent was writing") {
  mapping_config settings;
  settings.fault_handler = fault_handling::signal;
  shared_memory memory(settings);
  auto const m = memory.allocate(4096);
  auto* const word = m.as<std::uint32_t>();
  *word = 5;  // the CPU may go on writing without a fault
  CHECK(!child_can_write(word));
  CHECK(*word == 5);
}
