// mosaic: a picture made of the most similar of many small ones, whose histograms a kernel looks up
// in a file: random reads of 4 KiB.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>

#include <apps/common/json_line.hpp>
#include <apps/common/program.hpp>
#include <apps/mosaic/database.hpp>
#include <apps/mosaic/make_command.hpp>
#include <apps/mosaic/sizes.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

using namespace gpufs;
using namespace gpufs::apps;

struct options {
  std::string data;
  std::string size = "smoke";
  std::int64_t tiles = not_given;
  std::uint64_t seed = 1;
  bool histograms_only = false;
  std::string source;
  std::int64_t bits = 0;
  std::int64_t tables = most_tables;
  bool centre = false;
  bool json = false;
};

int generate(options const& o) {
  bool const is_number = o.tiles != not_given;
  if (is_number) check_option("--tiles", o.tiles, 1, std::int64_t{1} << 31);
  std::uint64_t const tiles =
      is_number ? static_cast<std::uint64_t>(o.tiles) : size_named(o.size).tiles;
  std::error_code ignored;
  bool const had_index = std::filesystem::exists(database{o.data}.lsh(), ignored);
  generate_database({o.data}, tiles, o.seed, !o.histograms_only);
  if (had_index) fmt::print("the index was of other tiles, and was removed\n");
  fmt::print("{} tiles, {} bytes of histograms; now: mosaic index --data {}\n", tiles,
             tiles * record_bytes, o.data);
  return 0;
}

int import(options const& o) {
  std::uint64_t const tiles = import_database({o.data}, o.source);
  fmt::print("{} tiles from {}; now: mosaic index --data {}\n", tiles, o.source, o.data);
  return 0;
}

void print_occupancy(options const& o, lsh_index const& x, bucket_occupancy const& b) {
  constexpr char const* names[] = {"1", "2", "3-4", "5-8", "9-16", "17-32", "more"};
  if (o.json) {
    json_line j, sizes;
    for (std::size_t i = 0; i < b.of_size.size(); ++i) sizes.integer(names[i], b.of_size[i]);
    j.text("name", "mosaic-index")
        .integer("tiles", x.tiles)
        .integer("tables", x.tables)
        .integer("bits", x.bits);
    j.boolean("centred", x.centred)
        .integer("bytes", x.bytes())
        .integer("buckets", b.buckets)
        .integer("largest", b.largest);
    j.integer("cut", b.cut).integer("lost", b.lost).object("buckets_of_size", sizes);
    fmt::print("{}\n", j.str());
    return;
  }
  fmt::print(
      "{} tiles in {} tables of {} bits{}: {} bytes, {} buckets, {:.2f} ids each, the largest of "
      "{}\n",
      x.tiles, x.tables, x.bits, x.centred ? ", centred" : "", x.bytes(), b.buckets,
      static_cast<double>(x.ids.size() + b.cut) / static_cast<double>(b.buckets), b.largest);
  fmt::print("  ids    buckets\n");
  for (std::size_t i = 0; i < b.of_size.size(); ++i)
    fmt::print("  {:<6} {}\n", names[i], b.of_size[i]);
  fmt::print("{} ids did not fit their bucket of {}; {} tiles are in no table at all{}\n", b.cut,
             list_limit, b.lost, b.lost != 0 ? ": try --centre, or more --bits" : "");
}

int index(options const& o) {
  check_option("--tables", o.tables, 1, most_tables);
  check_option("--bits", o.bits, 0, most_key_bits);
  database const d{o.data};
  lsh_options l;
  l.tables = static_cast<std::uint32_t>(o.tables);
  l.bits = o.bits != 0 ? static_cast<std::uint32_t>(o.bits) : suitable_bits(records_in(d.hist()));
  l.centred = o.centre;
  l.seed = o.seed;
  bucket_occupancy occupancy;
  lsh_index const x = index_database(d, l, occupancy);
  save_index(x, d.lsh());
  print_occupancy(o, x, occupancy);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Mosaics: each part of a picture is replaced by the most similar of many small pictures, "
      "found by locality-sensitive\n"
      "hashing; a kernel reads the candidates' histograms from a file. First `generate` or "
      "`import`, then `index`, then `make`.",
      "mosaic");
  app.require_subcommand(1);
  options o;

  CLI::App& generate_command = *app.add_subcommand(
      "generate", "makes a database of synthetic tiles: tiles.hist and tiles.rgba");
  generate_command.add_option("--data", o.data, "folder of the database")->required();
  auto* const size =
      generate_command
          .add_option(
              "--size", o.size,
              "smoke (4096 tiles), medium (262144, 1 GiB in each file), paper (5 million, 20.5 GB)")
          ->check(CLI::IsMember({"smoke", "medium", "paper"}))
          ->capture_default_str();
  generate_command.add_option("--tiles", o.tiles, "another number of tiles, up to 2^31")
      ->excludes(size);
  generate_command.add_option("--seed", o.seed, "of the tiles")->capture_default_str();
  generate_command.add_flag("--histograms-only", o.histograms_only,
                            "no tiles.rgba: then no picture can be written, nor made of tiles");

  CLI::App& import_command = *app.add_subcommand("import", "makes a database of real tiles");
  import_command
      .add_option(
          "source", o.source,
          "NAME.rgba: raw records; a folder of icons, or an IDX file (fashion-MNIST): by Python")
      ->required();
  import_command.add_option("--data", o.data, "folder of the database")->required();

  CLI::App& index_command = *app.add_subcommand(
      "index", "hashes the histograms of a database: tiles.lsh; says how full the buckets are");
  index_command.add_option("--data", o.data, "folder of the database")->required();
  index_command.add_option("--tables", o.tables, "hash functions, 1 to 32")->capture_default_str();
  index_command.add_option("--bits", o.bits,
                           "of each key, 0 to 31; 0, the default: so many that a bucket has about "
                           "four ids (2 million tiles: 18)");
  index_command.add_flag("--centre", o.centre,
                         "subtract the mean from histograms before hashing: for keys that cluster");
  index_command.add_option("--seed", o.seed, "of the hash functions")->capture_default_str();
  index_command.add_flag("--json", o.json, "print one JSON object");

  CLI::App& make_command = *app.add_subcommand("make", "makes a mosaic");
  make_options make;
  add_options(make_command, make);
  cli_settings const settings(make_command);

  return run_program(app, argc, argv, [&] {
    if (generate_command.parsed()) return generate(o);
    if (import_command.parsed()) return import(o);
    if (index_command.parsed()) return index(o);
    return make_mosaic(make, settings.load());
  });
}
