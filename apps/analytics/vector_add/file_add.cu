// vectorAdd by gpufs: no tiles and no copies. Each warp adds a page at a time.
#include <gpufs/gpufs.hpp>

#include <apps/analytics/kernel_errors.hpp>
#include <apps/analytics/opened.hpp>
#include <apps/analytics/sources.hpp>
#include <apps/analytics/strided.hpp>
#include <apps/analytics/vector_add/vector_add.hpp>
#include <apps/common/seconds_since.hpp>

#include <chrono>

#include <fcntl.h>

namespace gpufs::apps::analytics {

namespace {

using element = std::uint64_t;

constexpr std::uint64_t piece_elements = piece_bytes / sizeof(element);

struct add_job {
  std::uint64_t elements;
  std::uint64_t page_elements;
  std::uint64_t stride;
  int output;
  error_word* error;
};

/// Calls work(begin, end) for the pages of the calling warp, in ascending order unless strided.
template <class Work>
__device__ void for_own_pages(add_job const& job, Work const& work) {
  std::uint64_t const pages = (job.elements + job.page_elements - 1) / job.page_elements;
  std::uint64_t const warps = std::uint64_t{gridDim.x} * blockDim.x / base::warp_size;
  for (std::uint64_t turn = base::warp_number(); turn < pages && !has_failed(job.error);
       turn += warps) {
    std::uint64_t const begin = part_at_turn(turn, pages, job.stride) * job.page_elements;
    std::uint64_t const left = job.elements - begin;
    work(begin, begin + (left < job.page_elements ? left : job.page_elements));
  }
}

/// Sums go to shared memory, and from there to the file by gwrite. No page of c is ever fetched.
template <class Source>
__global__ void __launch_bounds__(32 * most_warps)
    add_to_pages(open_files files, Source a_source, Source b_source, add_job job) {
  __shared__ element pieces[most_warps][2][piece_elements];
  auto& piece = pieces[threadIdx.x / base::warp_size];
  warp_context<open_files> context(files);
  // Of gread, a's piece is where the sums are made.
  element* const sums = piece[0];
  typename Source::reader a(a_source, context, sums), b(b_source, context, piece[1]);
  for_own_pages(job, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t at = begin; at < end; at += piece_elements) {
      std::uint64_t const to = end - at < piece_elements ? end : at + piece_elements;
      // A lane gets the same elements of both.
      a.visit(at, to, [&](std::uint64_t i, element x) { sums[i - at] = x; });
      a.release();  // no lane waits for a page while it holds another one
      b.visit(at, to, [&](std::uint64_t i, element x) { sums[i - at] += x; });
      b.release();
      note_error(job.error, 0, a.error());
      note_error(job.error, 1, b.error());
      this_warp().sync();  // other lanes write these sums to the file
      auto const bytes = static_cast<ssize_t>((to - at) * sizeof(element));
      ssize_t const wrote = gwrite(context.io, job.output, sums, static_cast<std::size_t>(bytes),
                                   static_cast<std::int64_t>(at * sizeof(element)));
      if (wrote != bytes) note_error(job.error, 2, wrote < 0 ? wrote : -EIO);
      this_warp().sync();  // the sums have been written
    }
  });
}

/// Each lane stores its own sums.
__global__ void __launch_bounds__(32 * most_warps)
    add_to_array(open_files files, by_array<element> a_source, by_array<element> b_source,
                 add_job job) {
  warp_context<open_files> context(files);
  by_array<element>::reader a(a_source, context, nullptr), b(b_source, context, nullptr);
  array<element> const c(context.io, job.output, 0, job.elements);
  for_own_pages(job, [&](std::uint64_t begin, std::uint64_t end) {
    a.visit(begin, end, [&](std::uint64_t i, element x) { c.store(i, x + b[i]); });
    note_error(job.error, 0, a.error());
    note_error(job.error, 1, b.error());
    note_error(job.error, 2, c.error());
  });
}

class file_add final : public vector_add {
 public:
  file_add(variant how, vector_add_setup const& s) : how_(how), setup_(s) {
    load_kernel(add_to_array);
    load_kernel(add_to_pages<by_pointer<element>>);
    load_kernel(add_to_pages<by_gread<element>>);
  }

  run_outcome run() override {
    run_outcome r;
    filesystem fs(setup_.settings);
    errors_.clear();
    statistics const before = fs.stats();
    auto const start = std::chrono::steady_clock::now();
    {
      opened_files files(fs, setup_.drives);
      // With gread each warp would read ahead pages of other warps.
      advice const what = how_ == variant::gread ? advice::normal : advice::sequential;
      int const a = files.open(setup_.a->file.path(), O_RDONLY, what);
      int const b = files.open(setup_.b->file.path(), O_RDONLY, what);
      // Arrays need a descriptor that also reads.
      int const c = files.open(setup_.c->path(), how_ == variant::array ? O_RDWR : O_GWRONCE);
      start_kernel(fs, a, b, c);
      this_thread_stream().synchronize();
      errors_.require_none(files.paths());
      files.finish(c);
    }
    r.seconds = seconds_since(start);
    r.counters.emplace(fs.stats() - before);
    r.notes = fs.notes();
    return r;
  }

 private:
  void start_kernel(filesystem& fs, int a, int b, int c) {
    open_files const files{fs.ref()};
    file_part const of_a{a, 0, setup_.elements}, of_b{b, 0, setup_.elements};
    add_job const job{setup_.elements, setup_.settings.page_size / sizeof(element), setup_.stride,
                      c, errors_.word()};
    launch_shape const& shape = setup_.shape;
    if (how_ == variant::array) {
      launch(add_to_array, shape.blocks, shape.threads, files, by_array<element>{of_a},
             by_array<element>{of_b}, job);
    } else if (how_ == variant::pointer) {
      launch(add_to_pages<by_pointer<element>>, shape.blocks, shape.threads, files,
             by_pointer<element>{of_a}, by_pointer<element>{of_b}, job);
    } else {
      launch(add_to_pages<by_gread<element>>, shape.blocks, shape.threads, files,
             by_gread<element>{of_a}, by_gread<element>{of_b}, job);
    }
  }

  variant how_;
  vector_add_setup const& setup_;
  kernel_errors errors_;
};

}  // namespace

std::unique_ptr<vector_add> make_file_add(variant how, vector_add_setup const& s) {
  return std::make_unique<file_add>(how, s);
}

}  // namespace gpufs::apps::analytics
