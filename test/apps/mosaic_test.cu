// The mosaic: kernel against host, known answers, the rules that cut candidates, damaged files.
#include <gpufs/gpufs.hpp>

#include <apps/common/generator.hpp>
#include <apps/common/host_file.hpp>
#include <apps/mosaic/database.hpp>
#include <apps/mosaic/match_run.hpp>
#include <apps/mosaic/picture.hpp>
#include <apps/mosaic/reference.hpp>
#include <apps/mosaic/synthetic.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::apps;

namespace {

constexpr unsigned test_rows = 2;  // of 32 threads

/// Matches from the file, through a cache of `frames` pages.
match_result from_file(lsh_index const& index, std::vector<rgba_tile> const& places,
                       std::string const& hist, bool by_warp = true, std::uint64_t page_size = 4096,
                       match_access how = match_access::gread, std::uint64_t frames = 16) {
  filesystem fs(test::small_config(page_size, frames));
  int const fd = fs.open(hist, O_RDONLY);
  REQUIRE(fd >= 0);
  match_run run(index, {2, test_rows, by_warp});
  return run.from_file(places, how, fs.ref(), fd);
}

match_result on_host(lsh_index const& index, std::vector<rgba_tile> const& places,
                     std::string const& hist) {
  host_file const file(hist);
  match_result r;
  r.best = match_on_host(
      index.view(), places,
      [&](std::uint32_t id, float* buffer) -> float const* {
        file.read(buffer, histogram_bytes, id * record_bytes);
        return buffer;
      },
      r.compared);
  return r;
}

lsh_index index_of(database const& d, unsigned bits, bool centred = false) {
  lsh_options o;
  o.bits = bits;
  o.centred = centred;
  o.tables = 8;
  bucket_occupancy ignored;
  return index_database(d, o, ignored);
}

/// One value of all pixels and channels: its histogram says which.
rgba_tile flat(std::uint8_t value) {
  rgba_tile t;
  t.fill(value);
  return t;
}

void write_tiles(database const& d, std::vector<rgba_tile> const& tiles) {
  std::ofstream rgba(d.rgba(), std::ios::binary), hist(d.hist(), std::ios::binary);
  std::array<std::byte, record_bytes> record;
  for (auto const& t : tiles) {
    put_record(histogram_of(t), record);
    rgba.write(reinterpret_cast<char const*>(t.data()), record_bytes);
    hist.write(reinterpret_cast<char const*>(record.data()), record_bytes);
  }
}

/// A hand-made index: table t has lists[t] under key 0, which every picture has, since all
/// coefficients are zero.
lsh_index index_by_hand(std::uint64_t tiles, std::vector<std::vector<std::uint32_t>> const& lists,
                        bucket_occupancy& occupancy) {
  lsh_options o;
  o.tables = static_cast<std::uint32_t>(lists.size());
  o.bits = 20;
  std::vector<std::vector<std::uint32_t>> keys;
  for (auto const& list : lists) {
    std::vector<std::uint32_t> of_tile(tiles);
    for (std::uint32_t i = 0; i < tiles; ++i) of_tile[i] = 1 + i;  // a bucket of its own
    for (auto const id : list) of_tile[id] = 0;
    keys.push_back(of_tile);
  }
  return make_index(o, std::vector<std::int32_t>(std::size_t{lsh_dimensions} * o.tables * o.bits),
                    keys, occupancy);
}

/// What an exception says, or "nothing".
template <class Work>
std::string complaint(Work const& work) {
  try {
    work();
  } catch (std::exception const& e) {
    return e.what();
  }
  return "nothing";
}

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE(
    "mosaic: the kernel finds the host's tiles and distances, whoever reads, whatever the pages "
    "and the source") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  std::uint64_t const seed = test::seed();
  generate_database(d, 200, seed, true);
  auto const places = picture_of_strangers(test::scaled(5, 2), 2, seed).places;
  for (bool const centred : {false, true}) {
    lsh_index const index = index_of(d, 5, centred);
    match_result const right = on_host(index, places, d.hist());
    CHECK(right.compared > places.size());
    for (bool const by_warp : {true, false}) {
      CAPTURE(centred);
      CAPTURE(by_warp);
      for (std::uint64_t const page_size : {std::uint64_t{4096}, std::uint64_t{65536}}) {
        CAPTURE(page_size);
        for (auto const how : {match_access::gread, match_access::gmmap, match_access::array}) {
          CAPTURE(int(how));
          match_result const got = from_file(index, places, d.hist(), by_warp, page_size, how);
          CHECK(got.best == right.best);
          CHECK(got.compared == right.compared);
        }
      }
      host_file const file(d.hist());
      std::vector<std::byte> bytes(file.size());
      file.read(bytes.data(), bytes.size(), 0);
      buffer<std::byte> records(bytes.size());
      records.copy_from_host(bytes.data(), bytes.size());
      CHECK(match_run(index, {3, test_rows, by_warp}).resident(places, records.data()).best ==
            right.best);
    }
  }
}

TEST_CASE(
    "mosaic: of a picture made of the database's tiles each is found at distance 0; not so one "
    "whose record has changed") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  generate_database(d, 100, test::seed(), true);
  lsh_index const index = index_of(d, 6);
  auto const places = picture_of_tiles(d, 4, 2, 3).places;
  auto const found = from_file(index, places, d.hist()).best;
  for (auto const& match : found) CHECK(match.distance == 0);
  for (std::size_t i = 0; i < places.size(); ++i) {
    rgba_tile stored;
    host_file(d.rgba()).read(stored.data(), record_bytes, found[i].id * record_bytes);
    CHECK(stored == places[i]);
  }

  {  // One byte of a count of the first place's tile: the count is another one then.
    std::fstream hist(d.hist(), std::ios::binary | std::ios::in | std::ios::out);
    auto const at = static_cast<std::streamoff>(found[0].id * record_bytes + 3);
    hist.seekg(at);
    int const before = hist.get();
    hist.seekp(at);
    hist.put(before == 0x41 ? 0x42 : 0x41);
  }
  auto const again = from_file(index, places, d.hist()).best;
  CHECK(again[0].distance != 0);
  CHECK(again == on_host(index, places, d.hist()).best);
  CHECK(contains(complaint([&] { index_of(d, 6); }),
                 "record " + std::to_string(found[0].id) + " holds no histogram"));
}

TEST_CASE("mosaic: a bucket keeps the 32 smallest ids") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  std::vector<rgba_tile> tiles(50, flat(0));
  tiles[31] = flat(100);
  tiles[32] = flat(200);
  write_tiles(d, tiles);
  std::vector<std::uint32_t> list(40);
  for (std::uint32_t i = 0; i < list.size(); ++i) list[i] = i;
  bucket_occupancy o;
  lsh_index const index = index_by_hand(tiles.size(), {list}, o);
  CHECK(o.largest == 40);
  CHECK(o.cut == 8);
  CHECK(o.lost == 8);
  CHECK(o.buckets == 11);
  CHECK(o.of_size[0] == 10);
  CHECK(o.of_size[6] == 1);
  for (bool const by_warp : {true, false}) {
    match_result const r = from_file(index, {flat(100), flat(200)}, d.hist(), by_warp);
    CHECK(r.compared == 64);
    CHECK(r.best[0] == tile_match{31, 0});
    CHECK(r.best[1] == tile_match{0, 3 * 2 * 1024 * 1024});  // all are as far: the first one
  }
}

TEST_CASE(
    "mosaic: lists are taken in the order of their tables, each id once, 256 in all; the first of "
    "the nearest wins") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  std::vector<rgba_tile> tiles(400, flat(0));
  tiles[255] = flat(100);  // the last one that is looked at
  tiles[256] = flat(200);  // the first one that is not
  tiles[70] = tiles[3] = flat(50);
  write_tiles(d, tiles);
  std::vector<std::vector<std::uint32_t>> lists;
  // The first table has no id below 64; each further one repeats 16 ids of the one before.
  for (std::uint32_t first = 64; first < 128; first += 16) {
    lists.emplace_back();
    for (std::uint32_t i = 0; i < 32; ++i) lists.back().push_back(first + i);
  }
  for (std::uint32_t first : {0u, 32u, 144u, 176u, 208u, 240u}) {
    lists.emplace_back();
    for (std::uint32_t i = 0; i < 32; ++i) lists.back().push_back(first + i);
  }
  bucket_occupancy o;
  lsh_index const index = index_by_hand(tiles.size(), lists, o);
  CHECK(o.cut == 0);
  std::vector<std::uint32_t> const keys(lists.size(), 0);
  auto const candidates = candidates_of(index.view(), keys);
  CHECK(candidates.size() == 256);
  CHECK(candidates.front() == 64);
  CHECK(candidates[79] == 143);
  CHECK(candidates[80] == 0);
  CHECK(candidates.back() == 255);
  for (bool const by_warp : {true, false}) {
    match_result const r = from_file(index, {flat(100), flat(200), flat(50)}, d.hist(), by_warp);
    CHECK(r.compared == 3 * 256);
    CHECK(r.best[0] == tile_match{255, 0});
    CHECK(r.best[1].distance != 0);
    CHECK(r.best[2] == tile_match{70, 0});  // before 3, in an earlier table
  }
}

TEST_CASE(
    "mosaic: without candidates there is no tile, and its place in the picture gets its average "
    "colour") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  write_tiles(d, {flat(10), flat(20)});
  bucket_occupancy o;
  lsh_index const index = index_by_hand(2, {{}, {}}, o);
  picture p{1, 1, {flat(77)}};
  match_result const r = from_file(index, p.places, d.hist());
  CHECK(r.compared == 0);
  CHECK(r.best[0] == tile_match{});
  CHECK(on_host(index, p.places, d.hist()).best == r.best);
  CHECK(write_mosaic(p, r.best, d, folder / "out") == folder / "out/mosaic.png");
}

TEST_CASE("mosaic: a record that cannot be read is named") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  write_tiles(d, std::vector<rgba_tile>(20, flat(1)));
  bucket_occupancy o;
  lsh_index const index = index_by_hand(20, {{17}}, o);
  std::filesystem::resize_file(d.hist(), 17 * record_bytes + 1000);
  for (bool const by_warp : {true, false}) {
    CHECK(complaint([&] { (void)from_file(index, {flat(1)}, d.hist(), by_warp); }) ==
          "the histogram of tile 17: the file ends after 1000 bytes of it");
  }
}

TEST_CASE(
    "mosaic: an index is the same after it was saved and loaded; a file that is none, cut off or "
    "changed is refused") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  generate_database(d, 60, 5, false);
  lsh_index const index = index_of(d, 7, true);
  CHECK(flaw(index).empty());
  save_index(index, d.lsh());
  lsh_index const loaded = load_index(d.lsh());
  CHECK(loaded.tiles == 60);
  CHECK(loaded.centred);
  CHECK(loaded.coefficients == index.coefficients);
  CHECK(loaded.table_begin == index.table_begin);
  CHECK(loaded.keys == index.keys);
  CHECK(loaded.list_begin == index.list_begin);
  CHECK(loaded.ids == index.ids);

  auto const size = std::filesystem::file_size(d.lsh());
  auto const why = [&] { return complaint([&] { (void)load_index(d.lsh()); }); };
  auto const put = [&](std::uint64_t at, char value) {
    std::fstream file(d.lsh(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value);
  };
  put(size - 1, 1);
  CHECK(contains(why(), "is damaged"));
  std::filesystem::resize_file(d.lsh(), size - 4);
  CHECK(contains(why(), "by its header must have " + std::to_string(size)));
  put(8, 9);
  CHECK(contains(why(), "has version 9: must have 1"));
  put(0, 'x');
  CHECK(contains(why(), "is not an index of tiles"));
  std::filesystem::resize_file(d.lsh(), 100);
  CHECK(contains(why(), "has 100 bytes, too few"));
  CHECK(contains(why(), d.lsh()));
  std::filesystem::remove(d.lsh());
  CHECK(contains(why(), "No such file"));
}

TEST_CASE("mosaic: an index that a kernel could not look up is refused") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  generate_database(d, 60, 5, false);
  lsh_index const index = index_of(d, 7);
  auto const refused = [&](auto const& change, char const* why) {
    lsh_index wrong = index;
    change(wrong);
    CAPTURE(why);
    CHECK(contains(flaw(wrong), why));
    save_index(wrong, d.lsh());
    CHECK(contains(complaint([&] { (void)load_index(d.lsh()); }), why));
  };
  refused([](lsh_index& x) { x.ids.back() = 60; }, "an id is 60: must be below 60");
  refused([](lsh_index& x) { x.keys.back() = 128; }, "a key is 128: must have 7 bits");
  refused([](lsh_index& x) { x.keys[1] = x.keys[0]; }, "keys of a table are not sorted");
  refused([](lsh_index& x) { x.list_begin.back() -= 1; }, "lists do not cover its ids");
  refused([](lsh_index& x) { x.table_begin[1] = ~0u; }, "tables do not cover its keys");
  refused([](lsh_index& x) { x.coefficients[5] = 1 << 20; }, "a coefficient is 1048576");
  refused(
      [](lsh_index& x) {
        x.ids.insert(x.ids.end(), 40, 1);
        x.list_begin.back() += 40;
      },
      "must have at most 32");
}

TEST_CASE("mosaic: a database is not what has other than whole records") {
  test::scratch_folder const folder;
  database const d{folder.path()};
  write_tiles(d, {flat(1), flat(2)});
  CHECK(records_in(d.hist()) == 2);
  std::filesystem::resize_file(d.hist(), 5000);
  CHECK(contains(complaint([&] { (void)records_in(d.hist()); }),
                 "has 5000 bytes: must be a multiple of 4096"));
  std::filesystem::resize_file(d.hist(), 0);
  CHECK(contains(complaint([&] { (void)records_in(d.hist()); }), "has 0 bytes"));
}

TEST_CASE("mosaic: tiles that are imported as raw records are the ones that are found") {
  test::scratch_folder const folder;
  database const from{folder.path()}, to{folder / "db"};
  generate_database(from, 30, 9, true);
  CHECK(import_database(to, from.rgba()) == 30);
  std::vector<rgba_tile> const places = picture_of_tiles(from, 3, 1, 1).places;
  for (auto const& match : from_file(index_of(to, 4), places, to.hist()).best)
    CHECK(match.distance == 0);
}
