// The table of settings.
#include <gpufs/cache/replacement/policies.hpp>
#include <gpufs/mapping_options.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <algorithm>
#include <array>
#include <iterator>

namespace gpufs {

namespace {

using namespace owner;

/// A setting that another name led to before, and that name still does.
setting renamed(std::string_view former, setting s) {
  s.former_key = former;
  return s;
}

names<replacement> policies() {
  names<replacement> all;
  cache::for_each_policy(
      [&]<class P>(replacement number, P) { all.emplace_back(P::name, number); });
  return all;
}

/// The cache, readahead and the ways of bytes to it.
std::vector<setting> path_settings() {
  return {
      size("page_size", "bytes per page of the cache, a power of two from 512 to 4M",
           &config::page_size, {.low = 512, .high = 4 * mebi, .power_of_two = true},
           "a power of two from 512 to 4194304"),
      size("cache_size", "bytes of GPU memory for pages, at least 8 pages", &config::cache_size,
           {.low = 4096, .high = 16 * tebi}, "a size from 4K to 16T"),
      number("prefetch_size",
             "bytes read ahead after each missing page, a multiple of page_size; 0 = off; auto = "
             "grows while reads are sequential",
             &config::prefetch_size, read_prefetch, print_prefetch,
             {.low = 0, .high = 512 * mebi, .also = prefetch_automatic},
             "auto, 0 or a size up to 512M"),
      expert(count(
          "prefetch_depth",
          "with a fixed prefetch_size: requests on their way beyond the one being consumed, 0 to "
          "16",
          &config::prefetch_depth, {.low = 0, .high = 16}, "a number from 0 to 16")),
      size("prefetch_memory",
           "bytes of pinned host memory for prefetch buffers, a multiple of 4096, at least a page",
           &config::prefetch_memory, {.low = 64 * kibi, .high = tebi, .multiple_of = 4096},
           "a multiple of 4096 from 64K to 1T"),
      count("host_threads", "threads that serve requests, 1 to 256; 0 = cores less two, at most 14",
            &config::host_threads, {.low = 0, .high = 256},
            "a number from 1 to 256, or 0 for one per core less two"),
      choice<io_backend>("io_backend", "how the host reads files: auto, uring or pread",
                         &config::backend,
                         {{"auto", io_backend::automatic},
                          {"uring", io_backend::uring},
                          {"pread", io_backend::pread}}),
      choice<io_path>(
          "io_path",
          "how bytes reach GPU memory: auto, pull, direct, dma or registered (formerly mapped)",
          &config::path,
          {{"auto", io_path::automatic},
           {"pull", io_path::pull},
           {"dma", io_path::dma},
           {"direct", io_path::direct},
           {"registered", io_path::registered}},
          {{"mapped", "registered"}}),
      expert(choice<bool>("views",
                          "whether the daemon copies warm pages out of mappings of files, without "
                          "a system call: on or off",
                          &config::views, {{"on", true}, {"off", false}})),
      choice<replacement>("replacement", "which page makes room for a new one: lra, fifo or clock",
                          &config::policy, policies()),
      number("rpc_timeout",
             "longest wait of a kernel for the host, 1ms to 1h; in milliseconds, or with suffix ms "
             "or s",
             &config::rpc_timeout_ms, read_milliseconds, print_integer,
             {.low = 1, .high = 3600'000},
             "a time from 1 to 3600000 milliseconds, such as 500, 500ms or 10s"),
      expert(number(
          "dma_timeout",
          "io_path=dma: longest time without progress before kernels pull instead, 1ms to 60s",
          &config::dma_timeout_ms, read_milliseconds, print_integer, {.low = 1, .high = 60'000},
          "a time from 1 to 60000 milliseconds, such as 3, 3ms or 1s")),
  };
}

/// Memory, and limits.
std::vector<setting> size_settings() {
  return {
      size("staging_size",
           "bytes of pinned host memory that data passes through, a multiple of 4096, at least 64K "
           "and 8 pages",
           &config::staging_size, {.low = 64 * kibi, .high = tebi, .multiple_of = 4096},
           "a multiple of 4096 from 64K to 1T"),
      size("write_memory",
           "bytes of pinned host memory for dirty pages, a multiple of 4096, at least a page; 0 = "
           "files cannot be written",
           &config::write_memory, {.low = 0, .high = tebi, .multiple_of = 4096},
           "a multiple of 4096 up to 1T"),
      size("write_behind",
           "bytes written to a file before the system is asked to begin to put them on the disk; "
           "0 = never, as with host_threads = 1",
           &config::write_behind, {.low = 0, .high = tebi}, "a size up to 1T"),
      renamed("window_size", expert(size("file_window_size",
                                         "bytes of a file registered with the GPU together, a "
                                         "power of two from 64K to 1G, at least page_size",
                                         &config::file_window_size,
                                         {.low = 64 * kibi, .high = gibi, .power_of_two = true},
                                         "a power of two from 64K to 1G"))),
      renamed("mapped_memory",
              size("registered_memory",
                   "io_path=registered, auto: most bytes of files registered at once, at least "
                   "file_window_size; 0 = none; auto: and a quarter of the host's memory",
                   &config::registered_memory, {.low = 0, .high = tebi}, "a size up to 1T")),
      expert(count(
          "pulls_in_flight", "warps that pull from host memory at once, up to 4K each, 1 to 65536",
          &config::pulls_in_flight, {.low = 1, .high = 65536}, "a number from 1 to 65536")),
      expert(count("max_open_files", "files open at once, 1 to 65536", &config::max_open_files,
                   {.low = 1, .high = 65536}, "a number from 1 to 65536")),
      renamed("context_slots",
              expert(count(
                  "seats",
                  "contexts that own a prefetch buffer and a replacement queue at once, 1 to 65536",
                  &config::seats, {.low = 1, .high = 65536}, "a number from 1 to 65536"))),
  };
}

/// NVMe controllers of block files.
std::vector<setting> nvme_settings() {
  return {
      expert(count("nvme_queue_pairs",
                   "queue pairs of each NVMe member, 1 to 128; 0 = two for each thread of a "
                   "software controller, 64 of all members; up to 16 of a drive",
                   &config::nvme_queue_pairs, {.low = 0, .high = 128}, "a number from 0 to 128")),
      expert(count("nvme_queue_depth", "entries of an NVMe queue, a power of two from 16 to 4096",
                   &config::nvme_queue_depth, {.low = 16, .high = 4096, .power_of_two = true},
                   "a power of two from 16 to 4096")),
      expert(count("nvme_threads",
                   "threads of each software NVMe controller, 1 to 64; 0 = the cores less two, "
                   "at most 14, shared by the members",
                   &config::nvme_threads, {.low = 0, .high = 64},
                   "a number from 1 to 64, or 0 for a share of the cores less two")),
  };
}

/// What is seen of the work.
std::vector<setting> report_settings() {
  return {
      choice<bool>("file_counters",
                   "whether hits, misses and bytes are counted for each open file: on or off",
                   &config::file_counters, {{"on", true}, {"off", false}}),
      choice<log_level>("log", "what the process logs on stderr: off, error, warn, info or debug",
                        &config::log,
                        {{"off", log_level::off},
                         {"error", log_level::error},
                         {"warn", log_level::warn},
                         {"info", log_level::info},
                         {"debug", log_level::debug}}),
      text("trace",
           "file that each request to the host is written to (gpufs trace FILE sums it up), "
           "empty: none; %p is the process",
           &config::trace),
  };
}

std::vector<setting> make_settings() {
  auto all = path_settings();
  std::ranges::move(size_settings(), std::back_inserter(all));
  std::ranges::move(nvme_settings(), std::back_inserter(all));
  std::ranges::move(report_settings(), std::back_inserter(all));
  return all;
}

}  // namespace

template <class Config>
std::string basic_setting<Config>::environment_name() const {
  return owner::environment_name(key);
}

template <class Config>
std::string basic_setting<Config>::flag() const {
  return owner::flag_name(key);
}

template struct basic_setting<config>;
template struct basic_setting<mapping_config>;

std::vector<setting> const& settings() {
  static std::vector<setting> const all = make_settings();
  return all;
}

setting const& find_setting(std::string_view key, std::string_view origin) {
  auto const named = [&](setting const& s) {
    return s.key == key || (!key.empty() && s.former_key == key);
  };
  auto const found = std::ranges::find_if(settings(), named);
  if (found != settings().end()) return *found;
  std::string known;
  for (auto const& s : settings()) known += fmt::format("{}{}", known.empty() ? "" : ", ", s.key);
  throw config_error(fmt::format("{}: unknown setting; known: {}", origin, known));
}

std::uint64_t parse_size(std::string_view text, std::string_view origin) {
  auto const bytes = owner::read_size(text);
  if (!bytes)
    owner::reject(
        origin, text,
        "a size below 16777216T: digits, and K, M, G or T after them where wanted (64K, 2M, 1G)");
  return *bytes;
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<std::pair<std::uint64_t, char>, 4> units{
      {{tebi, 'T'}, {gibi, 'G'}, {mebi, 'M'}, {kibi, 'K'}}};
  for (auto const& [unit, letter] : units) {
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  }
  return std::to_string(bytes);
}

}  // namespace gpufs
