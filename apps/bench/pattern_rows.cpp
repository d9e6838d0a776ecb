#include <apps/bench/pattern_rows.hpp>
#include <apps/harness/zipf.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace gpufs::apps {

std::string target_cell(bool compared, target_of about, double target) {
  if (target == 0 || !compared) return "-";
  return fmt::format("{:.4g}{}", target, about == target_of::ratio ? "x" : "");
}

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20, gibi = 1 << 30, os_page = 4 << 10;

/// Ranges of `request` bytes every `stride` bytes, taken in turn.
access_plan in_turn(std::uint64_t bytes, std::uint64_t request, std::uint64_t stride) {
  access_plan p;
  p.pattern = access_pattern::strided;
  p.bytes = bytes;
  p.request = request;
  p.stride = stride;
  return p;
}

access_plan at_random(std::uint64_t bytes, std::uint64_t seed) {
  access_plan p;
  p.pattern = access_pattern::random;
  p.bytes = bytes;
  p.request = os_page;
  p.draws = bytes / os_page;
  p.seed = seed;
  return p;
}

bool reads_by_warp(access_row row) {
  return row == access_row::columns || row == access_row::records || row == access_row::random ||
         row == access_row::zipf;
}

access_plan requests_of(access_row row, std::uint64_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t most_timed = 1024, distance = 64 * kibi;
  switch (row) {
    case access_row::stream: return in_turn(bytes, 256 * kibi, 256 * kibi);
    case access_row::columns: {
      access_plan p = in_turn(bytes, os_page, mebi);
      p.pattern = access_pattern::columns;
      return p;
    }
    case access_row::pieces: return in_turn(bytes, 512, 16 * kibi);
    case access_row::pages: return in_turn(bytes, os_page, 16 * kibi);
    case access_row::records: return in_turn(bytes, 512, 512);
    case access_row::random:
    case access_row::zipf:
    case access_row::random_blocks: return at_random(bytes, seed);
    case access_row::latency:
    case access_row::hit_latency:
      return in_turn(bytes, os_page,
                     bytes / std::min(most_timed, bytes / distance) / os_page * os_page);
    case access_row::one_block: return in_turn(bytes, mebi, mebi);
    case access_row::hits: return in_turn(bytes, 64 * kibi, 64 * kibi);
    default: throw std::logic_error("bench patterns: a row without requests by gread");
  }
}

}  // namespace

std::vector<pattern_row> const& pattern_rows() {
  using enum access_row;
  constexpr auto ratio = target_of::ratio, rate = target_of::rate;
  constexpr auto none = host_limit::none, wanted = host_limit::wanted,
                 touched = host_limit::touched;
  // Targets and stretch targets for 120 x 512 on an H100 or H200, the OS page cache warm.
  static std::vector<pattern_row> const rows = {
      {stream, "stream", "stream, blocks take 256 KiB in turn", "best hand-written pipeline",
       "GB/s", ratio, 1.00, 1.05, none, 0, 4 * gibi},
      {columns, "columns", "warps, columns: 4 KiB at stride 1 MiB",
       "16 threads: pread and copy of the same pieces", "GB/s", ratio, 1.8, 2.4, wanted, 1.05,
       4 * gibi},
      {pieces, "pieces", "blocks, 512 B every 16 KiB", "pull of random 512 B", "M/s", rate, 8, 20,
       touched, 1.1, gibi},
      {pages, "pages", "blocks, 4 KiB every 16 KiB", "pull of the same pages", "GB/s", rate, 25, 40,
       none, 0, 4 * gibi},
      {records, "records", "warps, records of 512 B one after the other", "gpufs: the row stream",
       "GB/s", ratio, 0.9, 1.0, wanted, 1.05, gibi},
      {random, "random", "warps, random 4 KiB, no advice", "pull of the same pages", "GB/s", ratio,
       0.90, 0.98, none, 0, 8 * gibi},
      {zipf, "zipf", "warps, Zipf 1.1, 4 KiB, file of 4 times the cache",
       "16 threads: pread and copy of the same pieces", "GB/s", ratio, 7, 9, none, 0, 4 * gibi},
      {random_blocks, "randomblocks", "whole blocks, random 4 KiB", "pull of the same pages",
       "GB/s", ratio, 0.80, 0.95, none, 0, 2 * gibi},
      {floats, "floats", "a[i], random floats, file of twice the cache",
       "single loads of pinned memory", "M/s", rate, 20, 35, none, 0, 2 * gibi},
      {files, "files", "warps, files of 8 KiB: open, read, close", "16 threads: open, pread, close",
       "k/s", ratio, 0.5, 1.0, none, 0, 8 * gibi},
      {latency, "latency", "one block, one gread of 4 KiB", "pread, copy, wait", "us", rate, 12, 6,
       none, 0, gibi},
      {hit_latency, "hitlatency", "the same, page in the GPU cache", "", "us", rate, 2.0, 1.2, none,
       0, gibi},
      {ring, "ring", "one block, empty round trip of the ring", "", "us", rate, 4.5, 3.5, none, 0,
       gibi},
      {one_block, "oneblock", "one block alone, stream of 1 MiB requests",
       "one block pulls pinned memory", "GB/s", ratio, 0.6, 0.9, none, 0, gibi},
      {hot_stream, "hotstream", "a[i], stream, all in the cache", "plain kernel", "GB/s", ratio,
       0.55, 0.7, none, 0, 2 * gibi},
      {hot_random, "hotrandom", "a[i], random, all in the cache", "plain kernel", "GB/s", ratio,
       0.50, 0.6, none, 0, 2 * gibi},
      {write, "write", "gwrite, stream and sync", "8 threads: pwrite and fdatasync", "GB/s", ratio,
       0.95, 1.0, none, 0, gibi},
      {write_tmpfs, "writetmpfs", "the same on tmpfs", "8 threads: pwrite and fdatasync", "GB/s",
       ratio, 0.95, 1.0, none, 0, gibi},
      {hits, "hits", "blocks, 64 KiB requests, all in the cache", "copy kernel of device memory",
       "GB/s", ratio, 0.90, 1.0, none, 0, gibi},
  };
  return rows;
}

std::uint64_t scaled_bytes(pattern_row const& row, std::uint64_t largest) {
  auto const share = largest / (largest_row_bytes / row.bytes);
  return std::max(share / mebi, std::uint64_t{1}) * mebi;
}

row_plan plan_of(access_row row, std::uint64_t bytes, bench_shape shape, std::uint64_t seed) {
  constexpr double zipf_exponent = 1.1;
  bool const alone =
      row == access_row::one_block || row == access_row::latency || row == access_row::hit_latency;
  row_plan r;
  r.shape = shape;
  r.shape.by_warp = reads_by_warp(row);
  if (r.shape.by_warp) r.shape.threads = std::min(shape.threads, most_threads_by_warp);
  if (alone) r.shape.blocks = 1;
  r.plan = requests_of(row, bytes, seed);
  r.plan.blocks = r.shape.readers();
  if (row == access_row::zipf) {
    r.drawn = zipf_draws(r.plan.bytes / r.plan.request, zipf_exponent, r.plan.draws, seed);
    r.plan.drawn = r.drawn.data();
  }
  return r;
}

touched_bytes touched_by(access_plan const& plan) {
  std::vector<bool> seen(plan.bytes / os_page + 1);
  touched_bytes t;
  for (std::uint64_t b = 0; b < plan.blocks; ++b) {
    for (std::uint64_t i = 0, n = plan.requests_of(b); i < n; ++i) {
      access const a = plan.at(b, i);
      for (std::uint64_t page = a.offset / os_page; page * os_page < a.offset + a.bytes; ++page) {
        t.asked += os_page;
        if (!seen[page]) t.pages += os_page;
        seen[page] = true;
      }
    }
  }
  return t;
}

}  // namespace gpufs::apps
