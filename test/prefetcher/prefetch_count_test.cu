// What readahead saves and what it costs, in exact counts of requests and bytes.
#include <gpufs/gpufs.hpp>
#include <gpufs/owner/layout.hpp>

#include <prefetcher/stride.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;
constexpr std::uint64_t stride_part = prefetch::stride_share;

config pulling(std::uint64_t page, std::uint64_t cache, std::uint64_t prefetch) {
  auto c = small_config(page, cache / page);
  c.path = io_path::pull;
  c.prefetch_size = prefetch;
  c.prefetch_memory = 64 * mebi;
  return c;
}

/// Has each of `blocks` blocks read its own part of the file's first `bytes` bytes in pieces, in
/// order.
void add_pass(read_batch& batch, int fd, std::string const& path, std::uint64_t bytes,
              unsigned blocks, std::uint64_t piece) {
  std::uint64_t const part = bytes / blocks;
  for (std::uint64_t at = 0; at < part; at += piece) {
    for (unsigned b = 0; b < blocks; ++b) batch.add(fd, path, std::int64_t(b * part + at), piece);
  }
}

}  // namespace

TEST_CASE(
    "prefetch counts: 60 KiB ahead of 4 KiB pages make at most 1/15 of the requests, and a second "
    "pass makes none") {
  scratch_folder folder;
  constexpr std::uint64_t size = scaled(8, 4) * mebi;
  auto const path = make_file(folder, "file", size);
  for (unsigned const blocks : {1u, 4u}) {
    for (std::uint64_t const piece : {4 * kibi, 16 * kibi, 256 * kibi}) {
      std::uint64_t without = 0;
      for (std::uint64_t const prefetch : {std::uint64_t{0}, 60 * kibi}) {
        filesystem fs(pulling(4 * kibi, 2 * size, prefetch));
        int const fd = fs.open(path, O_RDONLY);
        read_batch batch;
        add_pass(batch, fd, path, size, blocks, piece);
        batch.run(fs.ref(), blocks, 64);
        CAPTURE(blocks);
        CAPTURE(piece);
        CAPTURE(prefetch);
        CHECK(batch.problems() == "");
        auto const first = fs.stats();
        CHECK(first.misses == size / (4 * kibi));
        CHECK(first.bytes_pulled == size);
        if (prefetch == 0) {
          without = first.read_requests;
          CHECK(without == size / (4 * kibi));
          CHECK(first.prefetch_hits == 0);
        } else {
          CHECK(first.read_requests <= without / 15);
          CHECK(first.prefetch_hits == first.misses);
        }
        batch.run(fs.ref(), blocks, 64);
        CHECK(batch.problems() == "");
        auto const second = fs.stats() - first;
        CHECK(second.requests == 0);
        CHECK(second.misses == 0);
        CHECK(second.bytes_pulled == 0);
      }
    }
  }
}

TEST_CASE(
    "prefetch counts: the automatic depth makes one request per 64 KiB, and few beyond where "
    "readers end") {
  scratch_folder folder;
  constexpr std::uint64_t size = scaled(8, 4) * mebi;
  auto const path = make_file(folder, "file", size);
  for (unsigned const blocks : {1u, 4u}) {
    filesystem fs(pulling(4 * kibi, 2 * size, prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    add_pass(batch, fd, path, size, blocks, 16 * kibi);
    batch.run(fs.ref(), blocks, 64);
    CAPTURE(blocks);
    CHECK(batch.problems() == "");
    auto const s = fs.stats();
    CHECK(s.bytes_pulled == size);
    // Four readers have up to 16 ahead each; the last one's are cut off by the end of the file.
    // Each begins with one piece alone.
    CHECK(s.read_requests <= size / (64 * kibi) + blocks + (blocks - 1) * 30);
  }
}

TEST_CASE(
    "prefetch counts: a file 4 times the cache moves per pass its own size and what each reader "
    "has ahead, no more") {
  scratch_folder folder;
  constexpr std::uint64_t size = scaled(4, 2) * mebi;
  auto const path = make_file(folder, "file", size);
  constexpr unsigned blocks = 4;
  for (std::uint64_t const page : {4 * kibi, 16 * kibi}) {
    for (std::uint64_t const prefetch :
         {std::uint64_t{0}, 48 * kibi, 240 * kibi, prefetch_automatic}) {
      for (std::uint32_t const depth : {0u, 1u, 3u}) {
        if (depth != 0 && (prefetch == 0 || prefetch == prefetch_automatic))
          continue;  // means nothing there
        auto c = pulling(page, size / 4, prefetch);
        c.prefetch_depth = depth;
        filesystem fs(c);
        int const fd = fs.open(path, O_RDONLY);
        std::uint64_t const chunk =
            prefetch == 0 ? page : owner::layout::of(c, 2, 1ull << 30).chunk_bytes;
        std::uint64_t const ahead = prefetch == prefetch_automatic ? 30 * chunk
                                    : prefetch == 0                ? 0
                                                                   : depth * chunk;
        std::uint64_t const most = size + blocks * (chunk + ahead);
        read_batch batch;
        add_pass(batch, fd, path, size, blocks, page);
        CAPTURE(page);
        CAPTURE(prefetch);
        CAPTURE(depth);
        constexpr unsigned passes = 2;
        for (unsigned pass = 0; pass < passes; ++pass) {
          auto const before = fs.stats();
          batch.run(fs.ref(), blocks, 64);
          CHECK(batch.problems() == "");
          auto const done = fs.stats() - before;
          CHECK(done.bytes_pulled <= size);
          CHECK(done.bytes_delivered == size);
          CHECK(done.read_requests * chunk <= most);
        }
        fs.stop();  // answers what was still on its way
        CHECK(fs.stats().host_bytes <= passes * most);
      }
    }
  }
}

TEST_CASE(
    "prefetch counts: reads that jump fetch what they ask for with an automatic depth, a request "
    "each with a fixed one") {
  scratch_folder folder;
  constexpr std::uint64_t size = scaled(8, 4) * mebi;
  auto const path = make_file(folder, "file", size);
  for (std::uint64_t const prefetch : {60 * kibi, prefetch_automatic}) {
    filesystem fs(pulling(4 * kibi, 2 * size, prefetch));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    constexpr unsigned reads = 60;
    for (unsigned i = 0; i < reads; ++i)
      batch.add(fd, path, std::int64_t((i * 23 + 5) % 61 * (size / 64)), 8 * kibi);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(prefetch);
    CHECK(batch.problems() == "");
    auto const s = fs.stats();
    CHECK(s.read_requests == reads);
    CHECK(s.host_bytes == reads * (prefetch == prefetch_automatic ? 8 * kibi : 64 * kibi));
  }
}

TEST_CASE(
    "prefetch counts: a long read after a jump has its own bytes read ahead, and none behind its "
    "end") {
  scratch_folder folder;
  constexpr std::uint64_t piece = 256 * kibi;
  constexpr unsigned places = 61;
  auto const path = make_file(folder, "file", places * piece);
  for (unsigned const blocks : {1u, 4u}) {
    filesystem fs(pulling(4 * kibi, 2 * places * piece, prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    constexpr unsigned reads = 24;
    for (unsigned i = 0; i < reads; ++i)
      batch.add(fd, path, std::int64_t((i * 23 + 5) % places * piece), piece);
    batch.run(fs.ref(), blocks, 64);
    CAPTURE(blocks);
    CHECK(batch.problems() == "");
    fs.stop();
    auto const s = fs.stats();
    CHECK(s.host_bytes == reads * piece);
    CHECK(s.read_requests == reads * (piece / (64 * kibi)));
  }
}

TEST_CASE(
    "prefetch counts: callers that share pages read each page from the host once, and at most a "
    "tenth more, as without readahead") {
  scratch_folder folder;
  constexpr std::uint64_t size = scaled(2, 1) * mebi;
  auto const path = make_file(folder, "file", size);
  struct {
    std::string pattern;
    caller_kind who;
    unsigned blocks, threads;
    std::uint64_t stride, record;
  } const rows[] = {
      {"a record after the other, by warps", caller_kind::tile, 4, 256, 512, 512},
      {"records that cross pages", caller_kind::block, 2, 64, 1000, 1000},
      {"records with one reader", caller_kind::block, 1, 64, 2048, 64},
      {"a field of each record, several records on a page", caller_kind::block, 8, 64, 2048, 64},
      {"a field of each record, a page and more apart", caller_kind::block, 8, 64, 20480, 64},
      {"pieces of a page's part", caller_kind::block, 8, 64, 4096, 4096},
      {"sparse pieces", caller_kind::block, 8, 64, 16384, 4096},
      {"several 4 KiB pages at once", caller_kind::block, 8, 128, 16384, 16384},
  };
  for (auto const& r : rows) {
    for (std::uint64_t const page : {4 * kibi, 64 * kibi}) {
      filesystem fs(pulling(page, 16 * size, prefetch_automatic));
      int const fd = fs.open(path, O_RDONLY);
      read_batch batch;
      std::set<std::uint64_t> pages;
      for (std::uint64_t at = 0; at + r.record <= size; at += r.stride) {
        batch.add(fd, path, std::int64_t(at), r.record);
        for (std::uint64_t p = at / page; p <= (at + r.record - 1) / page; ++p) pages.insert(p);
      }
      batch.run(fs.ref(), r.blocks, r.threads, r.who);
      CAPTURE(r.pattern);
      CAPTURE(page);
      CHECK(batch.problems() == "");
      CHECK(fs.stats().misses == pages.size());
      fs.stop();  // answers what was still on its way
      CHECK(fs.stats().host_bytes * 10 <= pages.size() * page * 11);
    }
  }
}

TEST_CASE("prefetch counts: a caller that is alone on its pages reads ahead as far as it may") {
  scratch_folder folder;
  constexpr std::uint64_t size = 4 * mebi;
  constexpr std::uint64_t chunk = 64 * kibi;
  auto const path = make_file(folder, "file", size);
  for (std::uint64_t const page : {4 * kibi, 64 * kibi}) {
    for (std::uint64_t const piece : {1000ull, 16384ull}) {
      filesystem fs(pulling(page, 2 * size, prefetch_automatic));
      int const fd = fs.open(path, O_RDONLY);
      read_batch batch;
      std::uint64_t const part = 16 * chunk;
      for (std::uint64_t at = 0; at < part; at += piece)
        batch.add(fd, path, std::int64_t(at), base::least(piece, part - at));
      batch.run(fs.ref(), 1, 64);
      CAPTURE(page);
      CAPTURE(piece);
      CHECK(batch.problems() == "");
      // The depth doubles up to 30 chunks, and is filled up once a quarter of it is used up. A host
      // that is late may miss the last time.
      wait_until([&] { return fs.stats().host_bytes >= part + 15 * chunk; }, "reads ahead");
      fs.stop();
      CHECK(fs.stats().host_bytes <= part + 31 * chunk);
    }
  }
}

/// Of this many pieces at a constant distance, those that a caller waits for. Others come with one
/// of these: an eighth of those before it.
std::uint64_t pieces_alone(std::uint64_t pieces) {
  std::uint64_t alone = 0;
  for (std::uint64_t n = 0; n < pieces; ++alone) {
    std::uint64_t const repeats = n < 2 ? 0 : n - 1;
    n += 1 + std::min<std::uint64_t>(repeats / stride_part, prefetch::most_pieces_entered);
  }
  return alone;
}

TEST_CASE(
    "prefetch counts: pieces at a constant distance are brought in ahead, each once and with no "
    "page between them") {
  scratch_folder folder;
  constexpr std::uint64_t size = 8 * mebi;
  auto const path = make_file(folder, "file", size);
  struct {
    std::uint64_t page, distance, piece;
  } const rows[] = {
      {4 * kibi, 16 * kibi, 4 * kibi},
      {4 * kibi, 16 * kibi, 512},
      {4 * kibi, 20000, 512},
      {4 * kibi, 16 * kibi, 4000},
      {4 * kibi, 17000, 4000},
      {4 * kibi, 48 * kibi, 16 * kibi},
      {64 * kibi, 192 * kibi, 64 * kibi},
      {4 * kibi, 320 * kibi, 256 * kibi},
  };
  for (auto const& r : rows) {
    filesystem fs(pulling(r.page, 2 * size, prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    std::uint64_t pieces = 0;
    std::set<std::uint64_t> pages;
    for (std::uint64_t at = 0; at + r.piece <= size; at += r.distance, ++pieces) {
      batch.add(fd, path, std::int64_t(at), r.piece);
      for (std::uint64_t p = at / r.page; p <= (at + r.piece - 1) / r.page; ++p) pages.insert(p);
    }
    batch.run(fs.ref(), 1, 64);
    CAPTURE(r.page);
    CAPTURE(r.distance);
    CAPTURE(r.piece);
    CHECK(batch.problems() == "");
    fs.stop();
    auto const s = fs.stats();
    // Behind the last piece the distance may lead to one more, which the file's end cuts.
    std::uint64_t const least = pages.size() * r.page;
    CHECK(s.host_bytes >= least);
    CHECK(s.host_bytes <= least + (r.piece / r.page + 2) * r.page);
    CHECK(s.misses == pages.size());
    if (prefetch::pieces_by_pages(r.piece, r.page)) {
      // A piece of two pages comes as a chunk, and finds fewer channels.
      CHECK(s.misses - s.pages_ahead <= pieces_alone(pieces) * (r.distance % r.page == 0 ? 1 : 3));
    } else {
      // Until it has read ten, it has none ahead. Each of these has at most two pages more.
      CHECK(s.prefetch_hits + 10 * (r.piece / r.page + 2) >= s.misses);
      CHECK(s.pages_ahead == 0);
    }
  }
}

TEST_CASE(
    "prefetch counts: a caller whose constant distance ends has read at most an eighth in vain") {
  scratch_folder folder;
  constexpr std::uint64_t size = 16 * mebi;
  auto const path = make_file(folder, "file", size);
  constexpr std::uint64_t page = 4 * kibi, distance = 24 * kibi;
  for (unsigned const run : {2u, 3u, 9u, 10u, 16u, 40u}) {
    filesystem fs(pulling(page, 2 * size, prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    std::uint64_t pieces = 0;
    // Runs end at places that no distance of their own leads to.
    for (std::uint64_t begin = 0; begin + run * distance <= size; begin += run * distance + page)
      for (unsigned i = 0; i < run; ++i, ++pieces)
        batch.add(fd, path, std::int64_t(begin + i * distance), page);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(run);
    CHECK(batch.problems() == "");
    fs.stop();
    CHECK(fs.stats().host_bytes * stride_part <= pieces * page * (stride_part + 1));
  }
}
