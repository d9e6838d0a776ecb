#include <gpufs/gpufs.hpp>

#include <apps/analytics/direct_inputs.hpp>
#include <apps/analytics/graph/search.hpp>
#include <apps/analytics/graph/search_kernels.hpp>
#include <apps/analytics/opened.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/seconds_since.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>

namespace gpufs::apps::analytics {

namespace {

__global__ void __launch_bounds__(32 * most_warps)
    start_values(search_job job, bool are_levels, std::uint64_t source) {
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t v = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < job.vertices;
       v += step) {
    job.values[v] = !are_levels ? static_cast<vertex>(v) : v == source ? 0 : no_level;
    if (!are_levels) job.next_active[v] = 1;
  }
  if (job.next_frontier != nullptr && blockIdx.x == 0 && threadIdx.x == 0)
    job.next_frontier[0] = static_cast<vertex>(source);
}

/// What searches of all variants share: device memory, and the passes.
class passes {
 public:
  explicit passes(search_setup const& s)
      : setup_(s), vertices_(s.graph->header().vertices), values_(vertices_), words_(1) {
    if (s.what == algorithm::cc || s.by == frontier::queue)
      for (auto& b : pair_) b = buffer<std::uint32_t>(vertices_);
    load_kernel(start_values);
  }

  template <class Source>
  void load_kernels() {
    load_kernel(search_pass<level_pass, Source>);
    load_kernel(search_pass<label_pass, Source>);
  }

  /// Passes until nothing changes. Returns their number. Throws std::runtime_error.
  template <class Source>
  std::uint64_t run(typename Source::files const& files, Source const& source,
                    std::uint64_t const* offsets, std::uint64_t from) {
    bool const is_bfs = setup_.what == algorithm::bfs, is_queue = is_bfs && pair_[0].size() != 0;
    search_job job{};
    job.vertices = vertices_;
    job.offsets = offsets;
    job.values = values_.data();
    job.stride = setup_.stride;
    job.holds_little = setup_.settings.cache_size / setup_.settings.page_size <
                       4 * setup_.shape.warps() * base::warp_size;
    job.words = words_.data();
    if (is_queue) job.next_frontier = pair_[0].data();
    if (!is_bfs) job.next_active = pair_[0].data();
    launch(start_values, setup_.shape.blocks, setup_.shape.threads, job, is_bfs, from);
    job.frontier_count = 1;
    std::uint64_t done = 0;
    for (bool again = true; again; ++done) {
      this_thread_stream().synchronize();
      job.level = static_cast<std::uint32_t>(done);
      take_turns(job, is_queue, done);
      words_.fill_zero();
      is_bfs ? start<level_pass>(files, source, job) : start<label_pass>(files, source, job);
      this_thread_stream().synchronize();
      search_words const found = checked_words();
      job.frontier_count = found.queued;
      again = is_queue ? found.queued != 0 : found.is_changed != 0;
    }
    return done;
  }

  void copy_values(std::vector<std::uint32_t>& to) const {
    values_.copy_to_host(to.data(), vertices_);
  }

 private:
  /// What the last pass has made is what this one works on.
  void take_turns(search_job& job, bool is_queue, std::uint64_t pass) {
    auto& last = pair_[pass % 2];
    auto& next = pair_[(pass + 1) % 2];
    if (is_queue) {
      job.frontier = last.data();
      job.next_frontier = next.data();
    } else if (setup_.what == algorithm::cc) {
      next.fill_zero();
      job.active = last.data();
      job.next_active = next.data();
    }
  }

  template <class Pass, class Source>
  void start(typename Source::files const& files, Source const& source, search_job const& job) {
    launch(search_pass<Pass, Source>, setup_.shape.blocks, setup_.shape.threads, files, source,
           job);
  }

  search_words checked_words() const {
    search_words found{};
    words_.copy_to_host(&found, 1);
    std::string const& path = setup_.graph->file().file.path();
    require_no_error(found.error, {path});
    if (found.wrong_edge != 0)
      throw std::runtime_error(path + ": edge " + std::to_string(found.wrong_edge - 1) +
                               " leads to a vertex beyond the last one");
    return found;
  }

  search_setup const& setup_;
  std::uint64_t vertices_;
  buffer<std::uint32_t> values_;
  buffer<std::uint32_t> pair_[2];  // frontiers of bfs, or flags of cc: of the last pass, the next
  buffer<search_words> words_;
};

class file_search final : public graph_search {
 public:
  file_search(variant how, search_setup const& s)
      : how_(how),
        setup_(s),
        passes_(s),
        offsets_(s.graph->header().vertices + 1),
        pinned_(s.graph->header().vertices + 1) {
    passes_.load_kernels<by_array<std::uint64_t>>();
    passes_.load_kernels<by_pointer<std::uint64_t>>();
    passes_.load_kernels<by_gread<std::uint64_t>>();
  }

  run_outcome run(std::uint64_t source, search_result& to) override {
    run_outcome r;
    graph_header const& h = setup_.graph->header();
    to.values.resize(h.vertices);
    if (!served_ || !setup_.is_hot) r.registering_seconds = serve();
    statistics const before = served_->fs.stats();
    auto const start = std::chrono::steady_clock::now();
    read_by_threads(setup_.graph->file().file, reinterpret_cast<std::byte*>(pinned_.data()),
                    pinned_.bytes(), h.offsets_at);
    offsets_.copy_from_host(pinned_.data(), pinned_.size());
    r.load_seconds = seconds_since(start);
    to.passes = search(source);
    passes_.copy_values(to.values);
    r.seconds = seconds_since(start);
    r.counters.emplace(served_->fs.stats() - before);
    r.notes = served_->fs.notes();
    return r;
  }

  void close_file() override { served_.reset(); }

 private:
  struct serving {
    serving(config const& settings, drive_set const& drives) : fs(settings), files(fs, drives) {}
    filesystem fs;
    opened_files files;
    int fd = -1;
  };

  /// Makes a filesystem with an empty cache. Returns the seconds that registering windows took.
  double serve() {
    served_.reset();
    served_ = std::make_unique<serving>(setup_.settings, setup_.drives);
    auto const& file = setup_.graph->file().file;
    served_->fd = served_->files.open(file.path(), O_RDONLY, setup_.lists);
    return setup_.is_warm ? register_windows(served_->fs, served_->fd, file.size()) : 0;
  }

  std::uint64_t search(std::uint64_t source) {
    graph_header const& h = setup_.graph->header();
    file_part const part{served_->fd, static_cast<std::int64_t>(h.edges_at), h.edges};
    open_files const files{served_->fs.ref()};
    auto const by = [&](auto const& lists) {
      return passes_.run(files, lists, offsets_.data(), source);
    };
    if (how_ == variant::array) return by(by_array<std::uint64_t>{part});
    if (how_ == variant::pointer) return by(by_pointer<std::uint64_t>{part});
    return by(by_gread<std::uint64_t>{part});
  }

  variant how_;
  search_setup const& setup_;
  passes passes_;
  buffer<std::uint64_t> offsets_;
  pinned_buffer<std::uint64_t> pinned_;
  std::unique_ptr<serving> served_;
};

class direct_search final : public graph_search {
 public:
  direct_search(variant how, search_setup const& s)
      : how_(how), setup_(s), passes_(s), inputs_(make_direct_inputs(how, {&s.graph->file()})) {
    // Offsets lie in device memory in all variants.
    if (is_in_host_memory()) offsets_ = buffer<std::uint64_t>(s.graph->header().vertices + 1);
    passes_.load_kernels<in_memory<std::uint64_t>>();
  }

  run_outcome run(std::uint64_t source, search_result& to) override {
    run_outcome r;
    graph_header const& h = setup_.graph->header();
    to.values.resize(h.vertices);
    auto const start = std::chrono::steady_clock::now();
    if (how_ != variant::memory) inputs_->load();
    std::byte const* const bytes = inputs_->bytes(0);
    auto const* offsets = reinterpret_cast<std::uint64_t const*>(bytes + h.offsets_at);
    if (is_in_host_memory()) {
      offsets_.copy_from_host(offsets, offsets_.size());
      offsets = offsets_.data();
    }
    r.load_seconds = seconds_since(start);
    auto const* const lists = reinterpret_cast<std::uint64_t const*>(bytes + h.edges_at);
    to.passes = passes_.run(no_files{}, in_memory<std::uint64_t>{lists}, offsets, source);
    passes_.copy_values(to.values);
    r.seconds = seconds_since(start);
    return r;
  }

 private:
  [[nodiscard]] bool is_in_host_memory() const {
    return how_ == variant::zerocopy || how_ == variant::managed;
  }

  variant how_;
  search_setup const& setup_;
  passes passes_;
  std::unique_ptr<direct_inputs> inputs_;
  buffer<std::uint64_t> offsets_;
};

}  // namespace

std::unique_ptr<graph_search> make_graph_search(variant how, search_setup const& s) {
  if (uses_filesystem(how)) return std::make_unique<file_search>(how, s);
  return std::make_unique<direct_search>(how, s);
}

}  // namespace gpufs::apps::analytics
