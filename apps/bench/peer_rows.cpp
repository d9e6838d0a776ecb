#include <apps/bench/peer_copies.hpp>
#include <apps/bench/peer_rows.hpp>

#include <algorithm>

namespace gpufs::apps {

namespace {

access_plan plan_of(peer_work const& w, std::uint64_t blocks) {
  access_plan p;
  p.pattern = access_pattern::random;
  p.blocks = blocks;
  p.request = w.records.bytes;
  p.bytes = w.all.bytes();
  p.draws = w.records.numbers.size();
  p.drawn = w.records.numbers.data();
  return p;
}

double stream_gpufs(peer_work const& w) {
  return w.all.gpufs_pass(w.all.settings(), w.all.plan(), w.all.shape(), w.all.checking()).GBps();
}

double records_gpufs(peer_work const& w) {
  bench_shape s = w.all.shape();
  s.by_warp = true;
  s.threads = std::min(s.threads, most_threads_by_warp);
  return w.all.gpufs_pass(w.all.settings(), plan_of(w, s.readers()), s, w.all.checking()).GBps();
}

template <std::uint64_t page>
double stream_model(peer_work const& w) {
  return w.all.original_GBps(w.all.original_at(page, w.all.fitting_cache()), w.all.plan());
}

template <std::uint64_t page>
double records_model(peer_work const& w) {
  return w.all.original_GBps(w.all.original_at(page, w.all.fitting_cache()),
                             plan_of(w, w.all.shape().blocks));
}

double stream_one_read(peer_work const& w) { return w.all.cpuio_GBps(); }
double stream_pipelined(peer_work const& w) { return w.all.best_pipelined_GBps(); }

constexpr std::uint64_t small_page = 4 << 10, large_page = 64 << 10;

}  // namespace

std::vector<peer_row> const& peer_rows() {
  static std::vector<peer_row> const rows = {
      {"gpufs", "gpufs, default settings", stream_gpufs, records_gpufs},
      {"threads", "threads that pread into pinned chunks, and copies", stream_pipelined,
       records_pread},
      {"pread", "one pread of all, one copy", stream_one_read, nullptr},
      {"mmap", "mmap, one copy", stream_mapped, nullptr},
      {"managed", "threads that pread into unified memory, read by a kernel", stream_managed,
       nullptr},
      {"cufile", "cuFile, 16 threads", stream_cufile, records_cufile},
      {"kvikio", "KvikIO", stream_kvikio, records_kvikio},
      {"model4k", "our model of GPUfs, 4 KiB pages", stream_model<small_page>,
       records_model<small_page>},
      {"model64k", "our model of GPUfs, 64 KiB pages", stream_model<large_page>,
       records_model<large_page>},
  };
  return rows;
}

}  // namespace gpufs::apps
