// Objects that are spilled while the system and the device refuse calls: what is read is right, an
// error is named, and nothing hangs or stays behind.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/refusals/refused_calls.hpp>
#include <test/refusals/shared_sweep.hpp>
#include <test/support/files.hpp>
#include <test/support/in_library.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t count = 20'000, bytes = count * 4;

/// Ends the program at the first error that the refusal explains.
struct stopped {};

/// Kernels add to objects, one after the other. Device memory holds two of them.
class program {
 public:
  program(scratch_folder const& folder, int outcome)
      : settings_(tight(4 << 20, 0)), outcome_(outcome) {
    settings_.spill_dir = folder.path();
  }

  void run() {
    try {
      try {
        steps();
      } catch (shared_memory_error const& e) {
        explain(-e.code(), e.what());
      } catch (device_error const& e) {
        explain(-EIO, e.what());
      } catch (config_error const& e) {
        explain(-outcome_, e.what());
      }
    } catch (stopped const&) {
    }
    for (auto& m : objects_) {
      int const result = library([&] { return m.unmap(); });
      if (result != 0)
        CHECK_MESSAGE((outcome_ != 0 && refusal::happened() && result == -EIO), result);
    }
  }

  [[nodiscard]] std::uint64_t spilled() const { return spilled_; }

 private:
  void explain(std::int64_t error, std::string const& where) {
    CHECK_MESSAGE((outcome_ != 0 && refusal::happened()), where, ": ", error);
    bool const is_named = error == -EIO || error == -ENOMEM || error == -outcome_;
    CHECK_MESSAGE(is_named, where, ": ", error);
    throw stopped{};
  }

  void steps() {
    library([&] {
      memory_.emplace(settings_);
      for (auto& m : objects_) m = memory_->allocate(bytes);
    });
    for (std::uint32_t round = 1; round < 3; ++round)
      for (auto& m : objects_) add(m, round);
    for (auto& m : objects_) compare(m, 1 + 2);
    spilled_ = memory_->stats().spill_bytes;
  }

  void add(mapping& m, std::uint32_t what) {
    library([&] {
      shared_call call;
      call.reads_writes(m);
      launch(call, add_to_all, 1, 32, m.as<std::uint32_t>(), count, what);
      memory_->synchronize();
    });
  }

  void compare(mapping& m, std::uint32_t expected) {
    int const result = library([&] { return m.acquire(0, bytes, access::read); });
    if (result != 0) explain(result, "acquire");
    auto const* const first = m.as<std::uint32_t>();
    CHECK(std::count(first, first + count, expected) == std::int64_t(count));
  }

  mapping_config settings_;
  int outcome_;
  std::uint64_t spilled_ = 0;
  std::optional<shared_memory> memory_;
  std::array<mapping, 8> objects_;
};

}  // namespace

TEST_CASE("spill: calls are refused while objects are spilled and come back") {
  scratch_folder const folder;
  sweep_calls([&](int outcome) {
    program p(folder, outcome);
    p.run();
    if (outcome == 0) CHECK(p.spilled() != 0);
  });
}
