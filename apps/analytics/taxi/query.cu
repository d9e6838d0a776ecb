#include <gpufs/gpufs.hpp>

#include <apps/analytics/direct_inputs.hpp>
#include <apps/analytics/opened.hpp>
#include <apps/analytics/sources.hpp>
#include <apps/analytics/strided.hpp>
#include <apps/analytics/taxi/query.hpp>
#include <apps/analytics/warp_sum.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/seconds_since.hpp>

#include <chrono>
#include <optional>
#include <utility>

#include <fcntl.h>

namespace gpufs::apps::analytics {

namespace {

using element = std::int64_t;

/// Sums of a result as 64-bit words, which wrap around as the host's do: trips, sums, ratios.
constexpr unsigned word_count = column_count + 2;
constexpr unsigned ratio_word = column_count + 1;

struct query_job {
  std::uint64_t rows;
  std::uint64_t page_rows;
  std::uint64_t stride;
  bool with_means;
  bool holds_little;  ///< lanes hold no page while they wait for another: there are few frames
  std::uint64_t* words;
  error_word* error;
};

/// The columns behind the first one.
template <class Source>
struct other_columns {
  Source of[column_count - 1];
};

/// The words of Query for the trip of one row.
template <unsigned Query, class Other>
__device__ void add_trip(query_job const& job, std::uint64_t row, element distance,
                         Other const* others, std::uint64_t (&words)[word_count]) {
  element values[column_count] = {distance};
  GPUFS_UNROLL
  for (unsigned c = 1; c <= Query; ++c) values[c] = others[c - 1][row];
  words[0] += 1;
  GPUFS_UNROLL
  for (unsigned c = 0; c <= Query; ++c) words[c + 1] += static_cast<std::uint64_t>(values[c]);
  if constexpr (Query == most_queries - 1) {
    if (!job.with_means) return;
    element const earned = earnings(values[1], values[2], values[3], values[4], values[5]);
    words[ratio_word] += static_cast<std::uint64_t>(ratio_of(earned, distance));
  }
}

/// Readers of the columns behind the first one that Query needs.
template <unsigned Query, class Source>
class other_readers {
 public:
  using reader = typename Source::reader;

  template <class Context>
  __device__ other_readers(other_columns<Source> const& columns, Context& context)
      : other_readers(columns, context, std::make_index_sequence<Query>()) {}

  __device__ void note_errors(error_word* to) const {
    for (unsigned c = 0; c < Query; ++c) note_error(to, c + 1, readers_[c].error());
  }
  [[nodiscard]] __device__ reader const* get() const { return readers_; }

 private:
  template <class Context, std::size_t... Column>
  __device__ other_readers(other_columns<Source> const& columns, Context& context,
                           std::index_sequence<Column...>)
      : readers_{reader(columns.of[Column], context, nullptr)...} {}

  reader readers_[Query];
};
template <class Source>
class other_readers<0, Source> {
 public:
  template <class Context>
  __device__ other_readers(other_columns<Source> const&, Context&) {}
  __device__ void note_errors(error_word*) const {}
  [[nodiscard]] __device__ typename Source::reader const* get() const { return nullptr; }
};

/// A warp takes a page of the first column at a time. Lanes that meet a long trip read its row of
/// the other columns.
template <unsigned Query, class First, class Other>
__global__ void __launch_bounds__(32 * most_warps)
    answer_query(typename First::files files, First first, other_columns<Other> others,
                 query_job job) {
  __shared__ element pieces[most_warps][piece_bytes / sizeof(element)];
  warp_context<typename First::files> context(files);
  typename First::reader distances(first, context, pieces[threadIdx.x / base::warp_size]);
  other_readers<Query, Other> const readers(others, context);
  std::uint64_t words[word_count] = {};
  std::uint64_t const pages = (job.rows + job.page_rows - 1) / job.page_rows;
  std::uint64_t const warps = std::uint64_t{gridDim.x} * blockDim.x / base::warp_size;
  for (std::uint64_t turn = base::warp_number(); turn < pages; turn += warps) {
    if (has_failed(job.error)) break;
    std::uint64_t const begin = part_at_turn(turn, pages, job.stride) * job.page_rows;
    std::uint64_t const left = job.rows - begin;
    std::uint64_t const end = begin + (left < job.page_rows ? left : job.page_rows);
    distances.visit(begin, end, [&](std::uint64_t row, element distance) {
      if (distance < long_trip) return;
      if (job.holds_little) distances.release();
      add_trip<Query>(job, row, distance, readers.get(), words);
    });
    if (job.holds_little) distances.release();
    note_error(job.error, 0, distances.error());
    readers.note_errors(job.error);
  }
  for (unsigned w = 0; w < word_count; ++w) add_over_warp(words[w], job.words[w]);
}

/// The result in device memory.
class query_words {
 public:
  query_words() : words_(word_count) {}
  [[nodiscard]] std::uint64_t* clear() {
    words_.fill_zero();
    return words_.data();
  }
  [[nodiscard]] taxi_result result() const {
    std::uint64_t words[word_count];
    words_.copy_to_host(words, word_count);
    taxi_result r;
    r.trips = words[0];
    for (unsigned c = 0; c < column_count; ++c) r.sums[c] = static_cast<element>(words[c + 1]);
    r.ratios = static_cast<element>(words[ratio_word]);
    return r;
  }

 private:
  buffer<std::uint64_t> words_;
};

/// Calls body(std::integral_constant) for the query with this number.
template <class Body>
void with_query(unsigned query, Body const& body) {
  [&]<unsigned... Q>(std::integer_sequence<unsigned, Q...>) {
    ((query == Q ? body(std::integral_constant<unsigned, Q>()) : void()), ...);
  }
  (std::make_integer_sequence<unsigned, most_queries>());
}

std::vector<data_file const*> columns_of(unsigned query, taxi_setup const& s) {
  std::vector<data_file const*> files;
  for (unsigned c = 0; c <= query; ++c) files.push_back(&s.data->files()[c]);
  return files;
}

template <unsigned Query, class First, class Other>
void start_query(taxi_setup const& s, typename First::files const& files, First const& first,
                 other_columns<Other> const& others, query_job const& job) {
  launch(answer_query<Query, First, Other>, s.shape.blocks, s.shape.threads, files, first, others,
         job);
  this_thread_stream().synchronize();
}

query_job job_of(taxi_setup const& s, query_words& words, kernel_errors& errors) {
  errors.clear();
  std::uint64_t const frames = s.settings.cache_size / s.settings.page_size;
  bool const holds_little = frames < 8 * s.shape.warps() * base::warp_size;
  return {s.rows,       s.settings.page_size / sizeof(element),
          s.stride,     s.with_means,
          holds_little, words.clear(),
          errors.word()};
}

class file_query final : public taxi_query {
 public:
  file_query(variant how, unsigned query, taxi_setup const& s)
      : how_(how), query_(query), setup_(s) {
    with_query(query, [](auto q) {
      load_kernel(answer_query<q(), by_array<element>, by_array<element>>);
      load_kernel(answer_query<q(), by_pointer<element>, by_array<element>>);
      load_kernel(answer_query<q(), by_gread<element>, by_array<element>>);
    });
  }

  run_outcome run(taxi_result& to) override {
    run_outcome r;
    filesystem fs(setup_.settings);
    opened_files files(fs, setup_.drives);
    query_job const job = job_of(setup_, words_, errors_);
    int fds[column_count] = {};
    for (unsigned c = 0; c <= query_; ++c) {
      auto const& file = setup_.data->files()[c].file;
      // The first column is read from end to end, the others here and there.
      fds[c] = files.open(file.path(), O_RDONLY, c == 0 ? first_advice() : advice::random);
      if (setup_.is_warm) r.registering_seconds += register_windows(fs, fds[c], file.size());
    }
    statistics const before = fs.stats();
    auto const start = std::chrono::steady_clock::now();
    start_kernel(fs.ref(), fds, job);
    errors_.require_none(files.paths());
    to = words_.result();
    r.seconds = seconds_since(start);
    r.counters.emplace(fs.stats() - before);
    r.notes = fs.notes();
    return r;
  }

 private:
  /// With gread each warp would read ahead pages of other warps.
  [[nodiscard]] advice first_advice() const {
    return how_ == variant::gread ? advice::normal : advice::sequential;
  }

  void start_kernel(fs_ref const& fs, int const (&fds)[column_count], query_job const& job) {
    auto const part = [&](unsigned c) { return file_part{fds[c], 0, setup_.rows}; };
    other_columns<by_array<element>> others{};
    for (unsigned c = 1; c <= query_; ++c) others.of[c - 1].part = part(c);
    with_query(query_, [&](auto q) {
      auto const by = [&](auto const& first) {
        start_query<q()>(setup_, open_files{fs}, first, others, job);
      };
      if (how_ == variant::array) by(by_array<element>{part(0)});
      if (how_ == variant::pointer) by(by_pointer<element>{part(0)});
      if (how_ == variant::gread) by(by_gread<element>{part(0)});
    });
  }

  variant how_;
  unsigned query_;
  taxi_setup const& setup_;
  query_words words_;
  kernel_errors errors_;
};

class direct_query final : public taxi_query {
 public:
  direct_query(variant how, unsigned query, taxi_setup const& s)
      : how_(how),
        query_(query),
        setup_(s),
        inputs_(make_direct_inputs(how, columns_of(query, s))) {
    with_query(query, [](auto q) {
      load_kernel(answer_query<q(), in_memory<element>, in_memory<element>>);
    });
  }

  run_outcome run(taxi_result& to) override {
    run_outcome r;
    query_job const job = job_of(setup_, words_, errors_);
    auto const start = std::chrono::steady_clock::now();
    if (how_ != variant::memory) inputs_->load();
    r.load_seconds = seconds_since(start);
    auto const column = [&](unsigned c) {
      return in_memory<element>{reinterpret_cast<element const*>(inputs_->bytes(c))};
    };
    other_columns<in_memory<element>> others{};
    for (unsigned c = 1; c <= query_; ++c) others.of[c - 1] = column(c);
    with_query(query_,
               [&](auto q) { start_query<q()>(setup_, no_files{}, column(0), others, job); });
    to = words_.result();
    r.seconds = seconds_since(start);
    return r;
  }

 private:
  variant how_;
  unsigned query_;
  taxi_setup const& setup_;
  std::unique_ptr<direct_inputs> inputs_;
  query_words words_;
  kernel_errors errors_;
};

}  // namespace

std::unique_ptr<taxi_query> make_taxi_query(variant how, unsigned query, taxi_setup const& s) {
  if (uses_filesystem(how)) return std::make_unique<file_query>(how, query, s);
  return std::make_unique<direct_query>(how, query, s);
}

}  // namespace gpufs::apps::analytics
