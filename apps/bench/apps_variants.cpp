#include <apps/bench/apps_variants.hpp>
#include <apps/common/program.hpp>
#include <apps/common/storage_limits.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

namespace gpufs::apps {

namespace {

std::uint64_t whole_mebibytes(std::uint64_t bytes) {
  return std::max<std::uint64_t>((bytes + (1 << 20) - 1) >> 20, 4) << 20;
}

/// The caches of the paper: 2 GB, and 500 MB (256 MB for 3DCONV); in proportion for smaller inputs.
struct cache_sizes {
  std::uint64_t large, small;
  cache_sizes(apps_options const& o, std::uint64_t bytes, std::string_view app) {
    bool const paper = o.size == "paper";
    large = paper ? 2ull << 30 : whole_mebibytes(2 * bytes);
    small = paper ? (app == "3dconv" ? 256ull << 20 : 500ull << 20) : whole_mebibytes(bytes / 2);
  }
};

using way_to_run = std::function<run_times(session&)>;

variant_run run_of(session const& s, run_times const& t) {
  return {app_run{{}, {}, s.bytes_read(), t.io_seconds, t.seconds}, {}};
}

/// A variant that runs the application.
variant runs(std::string name, way_to_run way) {
  return {std::move(name), false, false, leaves::arrays_and_outputs,
          [way = std::move(way)](session& s) { return run_of(s, way(s)); }};
}

variant cold(variant v) {
  v.cold = true;
  return v;
}

variant extra(variant v) {
  v.extra = true;
  return v;
}

way_to_run by_hand(bool pinned) {
  return [pinned](session& s) { return s.run(*make_cpuio_loader(s.largest_file(), pinned)); };
}

/// Reads with gpufs, from an empty cache.
way_to_run with_gpufs(config c, io_shape shape, std::uint64_t page, std::uint64_t prefetch,
                      std::uint64_t cache, replacement policy) {
  c.page_size = page;
  c.prefetch_size = prefetch;
  c.cache_size = cache;
  c.policy = policy;
  return [c, shape](session& s) { return s.run(*make_gread_loader(c, shape)); };
}

/// Reads with our model of GPUfs, pages of 4 KiB.
way_to_run with_original(io_shape shape, std::uint64_t prefetch, std::uint64_t cache) {
  original::options o;
  o.page_size = 4096;
  o.readahead = prefetch;
  o.cache_size = cache;
  return [shape, o](session& s) { return s.run(*make_original_loader(o, shape)); };
}

/// The rate of the storage for the application's files. Each file is read once past the OS page
/// cache, except files too short for one read.
variant_run storage_run(session const& s) {
  app_run all;
  try {
    for (auto const& f : s.data().files()) {
      if (f.file.size() < smallest_read) continue;
      all.bytes += f.file.size();
      all.seconds += static_cast<double>(f.file.size()) / read_past_page_cache(f.file);
    }
  } catch (std::system_error const& e) {
    return {std::nullopt, fmt::format("no reads past the OS page cache: {}", e.what())};
  }
  if (all.bytes == 0) return {std::nullopt, fmt::format("no file has {} bytes", smallest_read)};
  all.io_seconds = all.seconds;
  return {all, {}};
}

}  // namespace

std::vector<variant> variants_of(apps_options const& o, config const& settings, io_shape shape,
                                 port_description const& what, std::uint64_t bytes) {
  constexpr std::uint64_t page = 4096, ahead = 64 << 10;
  cache_sizes const cache(o, bytes, what.name);
  auto const lra = replacement::lra;
  auto const gpufs = [&](std::uint64_t page_size, std::uint64_t prefetch, std::uint64_t cache_size,
                         replacement policy) {
    return with_gpufs(settings, shape, page_size, prefetch, cache_size, policy);
  };
  way_to_run const pipelined = [](session& s) { return s.run(*make_pipelined_loader()); };
  std::vector<variant> all{
      runs("cpuio", by_hand(false)),
      runs("pipelined", pipelined),
      runs("64K", gpufs(64 << 10, 0, cache.large, lra)),
      runs("4K+64K", gpufs(page, ahead, cache.large, lra)),
      runs("original-4K", with_original(shape, 0, cache.large)),
      runs("small-lra", gpufs(page, ahead, cache.small, lra)),
      runs("small-fifo", gpufs(page, ahead, cache.small, replacement::fifo)),
      runs("small-original-4K", with_original(shape, 0, cache.small)),
      runs("small-original-4K+64K", with_original(shape, ahead, cache.small)),
      cold(runs("cpuio-cold", by_hand(false))),
      cold(runs("64K-cold", gpufs(64 << 10, 0, cache.large, lra))),
      cold(runs("4K+64K-cold", gpufs(page, ahead, cache.large, lra))),
      cold(runs("4K+auto-cold", gpufs(page, prefetch_automatic, cache.large, lra))),
      {"storage-cold", true, false, leaves::nothing, [](session& s) { return storage_run(s); }},
      extra(runs("cpuio-pinned", by_hand(true))),
      extra(cold(runs("pipelined-cold", pipelined))),
      extra(cold(runs("original-4K-cold", with_original(shape, 0, cache.large)))),
      extra(runs("4K", gpufs(page, 0, cache.large, lra))),
      extra(runs("4K+auto", gpufs(page, prefetch_automatic, cache.large, lra))),
      extra(runs("small-clock", gpufs(page, ahead, cache.small, replacement::clock))),
  };
  config fused = settings;
  fused.page_size = page;
  fused.prefetch_size = ahead;
  fused.cache_size = cache.large;
  if (what.fused) {
    all.push_back({"fused", false, true, leaves::outputs_of_fused, [fused, shape](session& s) {
                     gread_files files(fused);
                     return run_of(s, s.run_fused(files, shape, false));
                   }});
  }
  if (bytes <= cache.small)
    std::erase_if(all, [](variant const& v) { return v.name.starts_with("small-"); });
  return all;
}

void require_variant(std::string_view name) {
  port_description const any{.name = "",
                             .summary = "",
                             .blocks = 1,
                             .fused = true,
                             .real_input = "",
                             .pictures = false,
                             .extras = {},
                             .make = nullptr};
  std::string known;
  for (auto const& v :
       variants_of({}, {}, {}, any, std::numeric_limits<std::uint64_t>::max() / 2)) {
    if (v.name == name) return;
    known += " " + v.name;
  }
  throw usage_error(fmt::format("--variants={}: must be among{}", name, known));
}

}  // namespace gpufs::apps
