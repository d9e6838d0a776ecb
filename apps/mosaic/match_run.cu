#include <gpufs/gpufs.hpp>

#include <apps/common/seconds_since.hpp>
#include <apps/common/to_device.hpp>
#include <apps/mosaic/match_kernel.hpp>
#include <apps/mosaic/match_run.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>

namespace gpufs::apps {

namespace {

template <class Source>
void load_kernels() {
  load_kernel(match_tiles<Source, true>);
  load_kernel(match_tiles<Source, false>);
}

}  // namespace

struct match_run::state {
  state(lsh_index const& index, match_shape s)
      : shape(s),
        coefficients(to_device(index.coefficients)),
        table_begin(to_device(index.table_begin)),
        keys(to_device(index.keys)),
        list_begin(to_device(index.list_begin)),
        ids(to_device(index.ids)),
        view(index.view()) {
    view.coefficients = coefficients.data();
    view.table_begin = table_begin.data();
    view.keys = keys.data();
    view.list_begin = list_begin.data();
    view.ids = ids.data();
  }

  template <class Source, bool ByWarp>
  void start(Source const& source, match_job const& job) {
    launch(match_tiles<Source, ByWarp>, shape.blocks, dim3(32, shape.rows), source, job);
  }

  template <class Source>
  match_result run(std::span<rgba_tile const> places, Source const& source) {
    counters.fill_zero();
    failure.fill_zero();
    buffer<rgba_tile> pixels(places.size());
    buffer<tile_match> best(places.size());
    match_result r;
    r.best.resize(places.size());
    auto const start_time = std::chrono::steady_clock::now();
    pixels.copy_from_host(places.data(), places.size());
    match_job job;
    job.pixels = reinterpret_cast<std::uint32_t const*>(pixels.data());
    job.places = places.size();
    job.index = view;
    job.best = best.data();
    job.next = counters.data();
    job.compared = counters.data() + 1;
    job.failure = failure.data();
    auto const kernel_time = std::chrono::steady_clock::now();
    shape.by_warp ? start<Source, true>(source, job) : start<Source, false>(source, job);
    this_thread_stream().synchronize();
    r.kernel_seconds = seconds_since(kernel_time);
    best.copy_to_host(r.best.data(), r.best.size());
    r.seconds = seconds_since(start_time);
    unsigned long long sum = 0;
    counters.copy_to_host(&sum, 1, 1);
    r.compared = sum;
    match_failure f;
    failure.copy_to_host(&f, 1);
    if (f.taken != 0) {
      throw std::runtime_error(
          "the histogram of tile " + std::to_string(f.id) + ": " +
          (f.result < 0 ? std::generic_category().message(static_cast<int>(-f.result))
                        : "the file ends after " + std::to_string(f.result) + " bytes of it"));
    }
    return r;
  }

  match_shape shape;
  buffer<std::int32_t> coefficients;
  buffer<std::uint32_t> table_begin, keys, list_begin, ids;
  buffer<unsigned long long> counters{2};
  buffer<match_failure> failure{1};
  lsh_view view;
};

match_run::match_run(lsh_index const& index, match_shape shape)
    : state_(std::make_unique<state>(index, shape)) {
  load_kernels<gread_source>();
  load_kernels<gmmap_source>();
  load_kernels<array_source>();
}

match_run::~match_run() = default;

match_result match_run::from_file(std::span<rgba_tile const> places, match_access how,
                                  fs_ref const& fs, int fd) {
  if (how == match_access::gmmap) return state_->run(places, gmmap_source{fs, fd});
  if (how == match_access::array) return state_->run(places, array_source{fs, fd});
  return state_->run(places, gread_source{fs, fd});
}

match_result match_run::resident(std::span<rgba_tile const> places, std::byte const* records) {
  return state_->run(places, resident_source{records});
}

}  // namespace gpufs::apps
