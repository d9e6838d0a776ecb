// The kernels of `gpufs bench rand` for --access gmmap, array and async.
#include <apps/bench/read.hpp>

namespace gpufs::apps {

namespace {

template <class Way>
reading_kernels of(bench_shape const& shape) {
  if (shape.by_warp)
    return {read_file<Way, true, most_threads_by_warp, 1>, read_and_check<Way, true>, Way::depth};
  return {read_file<Way, false, most_threads_by_warp, 1>, read_and_check<Way, false>, Way::depth};
}

}  // namespace

reading_kernels kernels_of_other_ways(bench_shape const& shape) {
  return shape.way == bench_way::gmmap   ? of<by_gmmap>(shape)
         : shape.way == bench_way::array ? of<by_array>(shape)
                                         : of<by_async>(shape);
}

}  // namespace gpufs::apps
