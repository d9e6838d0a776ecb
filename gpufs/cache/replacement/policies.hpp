// All replacement policies. A new one is a file of its own, and its line here.
#pragma once

#include <gpufs/base/host_device.hpp>
#include <gpufs/cache/replacement/clock.hpp>
#include <gpufs/cache/replacement/fifo.hpp>
#include <gpufs/cache/replacement/lra.hpp>

#include <utility>

namespace gpufs::cache {

/// Calls `f` with each policy_at<N> that exists, in the order of their numbers.
template <class F>
GPUFS_HOST_DEVICE constexpr void for_each_policy(F&& f) {
  [&]<unsigned... N>(std::integer_sequence<unsigned, N...>) {
    auto const call = [&]<unsigned M>(policy_at<M> p) {
      if constexpr (policy_at<M>::exists) f(replacement{M}, p);
    };
    (call(policy_at<N>{}), ...);
  }
  (std::make_integer_sequence<unsigned, most_policies>{});
}

GPUFS_HOST_DEVICE constexpr bool marks_hits(replacement policy) {
  bool marks = false;
  for_each_policy([&]<class P>(replacement number, P) {
    if constexpr (P::marks_hits) marks = marks || number == policy;
  });
  return marks;
}

GPUFS_HOST_DEVICE constexpr bool has_queues(replacement policy) {
  bool queues = false;
  for_each_policy([&]<class P>(replacement number, P) {
    if constexpr (P::has_queues) queues = queues || number == policy;
  });
  return queues;
}

}  // namespace gpufs::cache
