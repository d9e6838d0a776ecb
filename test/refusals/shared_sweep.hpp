// Sweeps over programs of shared memory: each call of the system or the device that a program makes
// is refused, once and for ever.
#pragma once

#include <gpufs/device.hpp>

#include <test/refusals/refused_calls.hpp>
#include <test/support/descriptors.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace gpufs::test {

/// How often each call was refused in all sweeps.
inline std::array<long, std::size_t(refusable::count)> reached_calls;

/// `run`: runs the program. Its argument is what the refused call says, 0: none is refused.
template <class Run>
void sweep_calls(Run const& run) {
  std::array<long, std::size_t(refusable::count)> counts;
  run(0);  // what is made once per process is there
  {
    call_counter const counting;
    run(0);
    for (std::size_t i = 0; i < counts.size(); ++i)
      counts[i] = call_counter::count_of(refusable(i));
  }
  long points = 0;
  for (auto const& call : refusable_calls()) {
    // The first places, and the last.
    long const all = counts[std::size_t(call.call)], most = thread_sanitizer ? 3 : 24;
    // ThreadSanitizer makes a point take seconds. It looks for races, not for outcomes.
    auto const outcomes =
        std::span(call.outcomes).first(thread_sanitizer ? 1 : call.outcomes.size());
    for (int const what : outcomes) {
      for (long n = 0; n < all; n = n < most || n == all - 1 ? n + 1 : all - 1) {
        for (auto const how_long : {refused::once, refused::from_then_on}) {
          if (how_long == refused::from_then_on && n != 0 && n != all - 1) continue;
          auto const where = std::string(call.name) + " number " + std::to_string(n) + " of " +
                             std::to_string(all) +
                             (how_long == refused::once ? "" : " and all behind it") +
                             ", outcome " + std::to_string(what);
          CAPTURE(where);
          auto const descriptors = open_descriptors();
          {
            refusal const now(call.call, n, what, how_long);
            run(what);
          }
          reached_calls[std::size_t(call.call)] += refusal::happened() ? 1 : 0;
          ++points;
          CHECK(open_descriptors() == descriptors);
          try {  // a stream that failed has said so
            this_thread_stream().synchronize();
          } catch (device_error const&) {
          }
        }
      }
    }
  }
  MESSAGE(points << " injection points");
}

}  // namespace gpufs::test
