#include <apps/bench/array_rates.hpp>
#include <apps/bench/nvme_reads.hpp>
#include <apps/bench/random_rates.hpp>
#include <apps/common/storage_limits.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t small_page = 512;
constexpr random_rates::reading by_warps{.by_warp = true};

study_options study_of_shape(block_reads_setup const& s) {
  study_options o;
  o.blocks = s.blocks;
  o.threads = s.threads;
  o.seed = s.seed;
  return o;
}

/// Each missed page is a command. A page that was asked for again counts twice.
pass_result by_kernels(pass_result const& done) {
  if (done.device_commands == 0 || 10 * done.device_commands < 9 * done.counters.misses)
    throw std::runtime_error(
        fmt::format("kernels sent {} commands of their own for {} missed pages",
                    done.device_commands, done.counters.misses));
  return done;
}

pass_result warps_of(study const& all, bool check) {
  random_rates::reading r = by_warps;
  r.check = check;
  return random_rates(all).gread_pass(r);
}

}  // namespace

block_reads::block_reads(block_reads_setup const& setup)
    : setup_(setup),
      options_(study_of_shape(setup)),
      made_(setup.folder, setup.bytes, setup.seed),
      file_(made_.path()),
      memory_(made_.path(), fmt::format("nvme:mem:{}", setup.bytes)),
      namespace_(made_.path(), "nvme:soft:" + made_.path()),
      direct_(made_.path(), "nvme:direct:" + made_.path()) {}

study block_reads::study_of(host_file const& file, bool check) const {
  study all(options_, setup_.settings, file, setup_.bytes);
  all.check_bytes(check);
  return all;
}

pass_result block_reads::memory_4k(bool check) const {
  return by_kernels(warps_of(study_of(memory_, check), check));
}

pass_result block_reads::namespace_4k(bool check) const {
  return by_kernels(warps_of(study_of(namespace_, check), check));
}

pass_result block_reads::file_4k(bool check) const {
  config pulls = setup_.settings;
  pulls.path = io_path::pull;
  return warps_of(study(options_, pulls, file_, setup_.bytes), check);
}

pass_result block_reads::direct_4k(bool check) const {
  study const all = study_of(direct_, check);
  return by_kernels(random_rates(all).gread_pass({.by_warp = true, .cold = true, .check = check}));
}

double block_reads::storage_GBps() const {
  file_.drop_from_page_cache();
  storage_limits const limits = measure_storage_limits(file_, setup_.bytes, setup_.seed);
  if (!limits.random_iops) throw std::runtime_error("limit of the storage: " + limits.why_not);
  return *limits.random_iops * smallest_read / 1e9;
}

pass_result block_reads::memory_512(bool check) const {
  study const all = study_of(memory_, check);
  return by_kernels(array_rates(all).ranges_pass("rand512", small_page));
}

double block_reads::pull_512_GBps() const {
  study const all = study_of(file_, false);
  return random_rates(all).pull_GBps({.range = small_page, .by_warp = true});
}

}  // namespace gpufs::apps
