#include <gpufs/gpufs.hpp>

#include <apps/analytics/direct_inputs.hpp>
#include <apps/analytics/lookups/lookups.hpp>
#include <apps/analytics/opened.hpp>
#include <apps/analytics/sources.hpp>
#include <apps/analytics/warp_sum.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/seconds_since.hpp>

#include <chrono>

#include <fcntl.h>

namespace gpufs::apps::analytics {

namespace {

using element = std::uint64_t;

struct lookup_job {
  lookup_plan plan;
  std::uint64_t* sum;
  error_word* error;
};

/// Warps take 32 threads of the plan at a time. Each lane has four look-ups under way.
template <class Source>
__global__ void __launch_bounds__(32 * most_warps)
    look_up(typename Source::files files, Source source, lookup_job job) {
  constexpr unsigned together = 4;
  warp_context<typename Source::files> context(files);
  typename Source::reader elements(source, context, nullptr);
  std::uint64_t const warps = std::uint64_t{gridDim.x} * blockDim.x / base::warp_size;
  lookup_plan const& plan = job.plan;
  element sum = 0;
  for (std::uint64_t turn = base::warp_number(); turn < plan.threads / base::warp_size;
       turn += warps) {
    if (has_failed(job.error)) break;
    std::uint64_t const thread = turn * base::warp_size + lane_id();
    for (std::uint64_t step = 0; step < plan.steps; step += together) {
      element found[together] = {};
      GPUFS_UNROLL
      for (unsigned k = 0; k < together; ++k)
        if (step + k < plan.steps) found[k] = elements[plan.element(thread, step + k)];
      GPUFS_UNROLL
      for (unsigned k = 0; k < together; ++k) sum += found[k];
    }
    note_error(job.error, 0, elements.error());
  }
  add_over_warp(sum, *job.sum);
}

/// The kernel and its results.
class looking_up {
 public:
  explicit looking_up(lookup_setup const& s)
      : setup_(s), plan_(s.plan), sum_(1), draws_(s.plan.draw_count) {
    if (s.plan.draw_count == 0) return;
    draws_.copy_from_host(s.plan.draws, s.plan.draw_count);
    plan_.draws = draws_.data();
  }

  template <class Source>
  std::uint64_t run(typename Source::files const& files, Source const& source) {
    sum_.fill_zero();
    errors_.clear();
    lookup_job const job{plan_, sum_.data(), errors_.word()};
    launch(look_up<Source>, setup_.shape.blocks, setup_.shape.threads, files, source, job);
    this_thread_stream().synchronize();
    errors_.require_none({setup_.file->file.path()});
    std::uint64_t sum = 0;
    sum_.copy_to_host(&sum, 1);
    return sum;
  }

 private:
  lookup_setup const& setup_;
  lookup_plan plan_;  // with draws in GPU memory
  buffer<std::uint64_t> sum_;
  buffer<std::uint32_t> draws_;
  kernel_errors errors_;
};

class file_lookups final : public lookups {
 public:
  file_lookups(variant how, lookup_setup const& s) : how_(how), setup_(s), kernel_(s) {
    load_kernel(look_up<by_array<element>>);
    load_kernel(look_up<by_pointer<element>>);
  }

  run_outcome run(std::uint64_t& sum) override {
    run_outcome r;
    filesystem fs(setup_.settings);
    opened_files files(fs, setup_.drives);
    auto const& file = setup_.file->file;
    file_part const part{files.open(file.path(), O_RDONLY, advice::random), 0,
                         setup_.plan.elements};
    if (setup_.is_warm) r.registering_seconds = register_windows(fs, part.fd, file.size());
    auto const look_up_all = [&] {
      open_files const opened{fs.ref()};
      return how_ == variant::array ? kernel_.run(opened, by_array<element>{part})
                                    : kernel_.run(opened, by_pointer<element>{part});
    };
    if (setup_.is_hot) (void)look_up_all();
    statistics const before = fs.stats();
    auto const start = std::chrono::steady_clock::now();
    sum = look_up_all();
    r.seconds = seconds_since(start);
    r.counters.emplace(fs.stats() - before);
    r.notes = fs.notes();
    return r;
  }

 private:
  variant how_;
  lookup_setup const& setup_;
  looking_up kernel_;
};

class direct_lookups final : public lookups {
 public:
  direct_lookups(variant how, lookup_setup const& s)
      : how_(how), kernel_(s), inputs_(make_direct_inputs(how, {s.file})) {
    load_kernel(look_up<in_memory<element>>);
  }

  run_outcome run(std::uint64_t& sum) override {
    run_outcome r;
    auto const start = std::chrono::steady_clock::now();
    if (how_ != variant::memory) inputs_->load();
    r.load_seconds = seconds_since(start);
    sum = kernel_.run(no_files{},
                      in_memory<element>{reinterpret_cast<element const*>(inputs_->bytes(0))});
    r.seconds = seconds_since(start);
    return r;
  }

 private:
  variant how_;
  looking_up kernel_;
  std::unique_ptr<direct_inputs> inputs_;
};

}  // namespace

std::unique_ptr<lookups> make_lookups(variant how, lookup_setup const& s) {
  if (how == variant::pointer) require_frames(s);
  if (uses_filesystem(how)) return std::make_unique<file_lookups>(how, s);
  return std::make_unique<direct_lookups>(how, s);
}

}  // namespace gpufs::apps::analytics
