// Host side of the grep kernel: packs the job, launches, puts ranges together.
#include <gpufs/gpufs.hpp>

#include <apps/common/show_progress.hpp>
#include <apps/common/to_device.hpp>
#include <apps/gpufs-grep/grep_kernel.hpp>
#include <apps/gpufs-grep/grep_run.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace gpufs::apps {

struct grep_run::state {
  grep_shape shape;
  search_word word;
  std::vector<grep_range> ranges;
  std::vector<std::size_t> file_of;  // of each range
  std::size_t files = 0;
  buffer<grep_range> device_ranges;
  buffer<char> paths;
  buffer<std::int64_t> results;
  buffer<std::uint64_t> next;
  buffer<char> windows;
  pinned_buffer<std::uint64_t> finished;
};

grep_run::grep_run(std::vector<listed_file> const& files, search_word const& word,
                   grep_shape const& shape)
    : state_(std::make_unique<state>()) {
  state& s = *state_;
  s.shape = shape;
  s.word = word;
  s.files = files.size();
  std::vector<char> paths;
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::uint64_t const path = paths.size();
    paths.insert(paths.end(), files[f].path.begin(), files[f].path.end());
    paths.push_back('\0');
    std::uint64_t begin = 0;
    for (; files[f].bytes - begin > shape.range_bytes; begin += shape.range_bytes) {
      s.ranges.push_back({path, begin, begin + shape.range_bytes});
      s.file_of.push_back(f);
    }
    s.ranges.push_back({path, begin, ~0ull});
    s.file_of.push_back(f);
  }
  s.device_ranges = to_device(s.ranges);
  s.paths = to_device(paths);
  s.results = buffer<std::int64_t>(std::max<std::size_t>(s.ranges.size(), 1));
  s.next = buffer<std::uint64_t>(1);
  s.windows = buffer<char>(shape.blocks * (front_bytes + shape.chunk_bytes));
  s.finished = pinned_buffer<std::uint64_t>(shape.blocks);
  load_kernel(grep_kernel);
}

grep_run::~grep_run() = default;

std::uint64_t grep_run::ranges() const { return state_->ranges.size(); }

double grep_run::run(fs_ref const& fs, std::function<void(std::uint64_t)> const& show) {
  state& s = *state_;
  s.results.fill_zero();
  s.next.fill_zero();
  s.finished.fill_zero();
  grep_job job;
  job.range = s.device_ranges.data();
  job.ranges = s.ranges.size();
  job.paths = s.paths.data();
  job.results = s.results.data();
  job.next = s.next.data();
  job.finished = s.finished.data();
  job.windows = s.windows.data();
  job.chunk_bytes = s.shape.chunk_bytes;
  job.word = s.word;

  stream& on = this_thread_stream();
  auto const start = std::chrono::steady_clock::now();
  launch(grep_kernel, s.shape.blocks, s.shape.threads, fs, job);
  show_progress(on, s.finished, show);
  on.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::int64_t> grep_run::counts() const {
  state const& s = *state_;
  std::vector<std::int64_t> results(s.ranges.size());
  s.results.copy_to_host(results.data(), results.size());
  std::vector<std::int64_t> counts(s.files, 0);
  line_state file;
  for (std::size_t p = 0; p < results.size(); ++p) {
    std::int64_t& count = counts[s.file_of[p]];
    if (s.ranges[p].begin == 0) file = {};
    if (results[p] < 0 || count < 0) {
      count = count < 0 ? count : results[p];  // the first range that failed
      continue;
    }
    file = file.then(line_state::unpacked(static_cast<std::uint64_t>(results[p])));
    if (s.ranges[p].end == ~0ull) count = static_cast<std::int64_t>(file.lines());
  }
  return counts;
}

}  // namespace gpufs::apps
