// The table of settings of a shared_memory, and its validation.
#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping_settings.hpp>
#include <gpufs/owner/setting_kinds.hpp>

namespace gpufs {

namespace {

using namespace owner;

constexpr std::uint64_t least_block = 4 * kibi, most_block = 32 * mebi;
constexpr std::uint64_t granularity = device_memory::shared_range::granularity;

/// A size, or `auto` for the value `automatic`.
template <std::uint64_t automatic>
std::optional<std::uint64_t> read_size_or_auto(std::string_view text) {
  return text == "auto" ? std::optional(automatic) : read_size(text);
}
template <std::uint64_t automatic>
std::string print_size_or_auto(std::uint64_t n) {
  return n == automatic ? "auto" : format_size(n);
}

template <std::uint64_t automatic>
mapping_setting size_or_auto(std::string_view key, std::string_view help,
                             std::uint64_t mapping_config::*member, range allowed,
                             std::string_view allowed_text) {
  allowed.also = automatic;
  return number(key, help, member, read_size_or_auto<automatic>, print_size_or_auto<automatic>,
                allowed, allowed_text);
}

std::optional<std::uint64_t> read_rolling(std::string_view text) {
  return text == "auto" ? std::optional<std::uint64_t>(rolling_automatic) : read_integer(text);
}
std::string print_rolling(std::uint64_t n) {
  return n == rolling_automatic ? "auto" : print_integer(n);
}

/// What moves when, between CPU and GPU.
std::vector<mapping_setting> protocol_settings() {
  return {
      choice<coherence_protocol>("protocol",
                                 "when bytes move between CPU and GPU: batch, lazy or rolling",
                                 &mapping_config::protocol,
                                 {{"rolling", coherence_protocol::rolling},
                                  {"lazy", coherence_protocol::lazy},
                                  {"batch", coherence_protocol::batch}}),
      size_or_auto<block_automatic>(
          "coherence_block",
          "bytes of a block of rolling objects, a power of two from 4K to 32M; auto = 2M, but at "
          "most a sixteenth of the object and at least 64K",
          &mapping_config::coherence_block,
          {.low = least_block, .high = most_block, .power_of_two = true},
          "auto or a power of two from 4K to 32M"),
      number(
          "rolling_size",
          "blocks that the CPU has written and that are not sent yet, 1 to 1073741824; auto = some "
          "per object, and more after writes to blocks just sent",
          &mapping_config::rolling_size, read_rolling, print_rolling,
          {.low = 1, .high = 1 << 30, .also = rolling_automatic},
          "auto or a number from 1 to 1073741824"),
      expert(count("rolling_per_object", "with rolling_size=auto: blocks per object at first",
                   &mapping_config::rolling_per_object, {.low = 1, .high = 1024},
                   "a number from 1 to 1024")),
      expert(
          count("rolling_patience",
                "with rolling_size=auto: one block more after so many writes to blocks just sent",
                &mapping_config::rolling_patience, {.low = 1, .high = 1 << 20},
                "a number from 1 to 1048576")),
      choice<fault_handling>("fault_handler",
                             "how accesses of the CPU are caught: signal or userfault; auto = "
                             "signal",
                             &mapping_config::fault_handler,
                             {{"auto", fault_handling::automatic},
                              {"signal", fault_handling::signal},
                              {"userfault", fault_handling::userfault}}),
      expert(choice<write_detection>(
          "detect_writes", "how pages that kernels have changed are found: hash or all",
          &mapping_config::detect_writes,
          {{"hash", write_detection::hash}, {"all", write_detection::all}})),
      expert(choice<bool>(
          "guard_read_only",
          "whether a launch fails that stores to an object of access read, for debugging: on or "
          "off",
          &mapping_config::guard_read_only, {{"on", true}, {"off", false}})),
  };
}

/// Memory.
std::vector<mapping_setting> memory_settings() {
  return {
      choice<memory_backing>(
          "backing",
          "what memory objects lie in: auto = memory of their own for the CPU and the GPU; managed "
          "= CUDA's managed memory",
          &mapping_config::backing,
          {{"auto", memory_backing::automatic}, {"managed", memory_backing::managed}}),
      expert(size("address_space", "bytes of addresses for all objects, a multiple of 2M",
                  &mapping_config::address_space,
                  {.low = device_memory::shared_range::least_bytes,
                   .high = 64 * tebi,
                   .multiple_of = granularity},
                  "a multiple of 2M from 64G to 64T")),
      size("device_memory", "most bytes of GPU memory for objects; 0 = what is free, less a tenth",
           &mapping_config::device_memory, {.low = 0, .high = ~0ull}, "a size"),
      size_or_auto<host_memory_automatic>(
          "host_memory",
          "most bytes of host memory that the GPU uses over the bus; 0 = none; auto = a quarter of "
          "the host's",
          &mapping_config::host_memory, {.low = 0, .high = ~0ull}, "auto or a size"),
      size_or_auto<pinned_automatic>(
          "pinned_memory",
          "most bytes of the CPU's side that are pinned; 0 = none; auto = a quarter of the host's",
          &mapping_config::pinned_memory, {.low = 0, .high = ~0ull}, "auto or a size"),
      text("spill_dir",
           "folder for intermediate data that host_memory does not hold; empty: it stays there",
           &mapping_config::spill_dir),
      text("mapping_profile",
           "file of what launches touch that have a name: written for managed objects, used for "
           "others; empty: none",
           &mapping_config::mapping_profile),
      size_or_auto<chunk_automatic>(
          "chunk_size",
          "bytes that move between GPU memory and the host at once, a power of two from 2M to 1G; "
          "auto = 64M",
          &mapping_config::chunk_size, {.low = granularity, .high = gibi, .power_of_two = true},
          "auto or a power of two from 2M to 1G"),
      count("fill_threads", "threads that read or write a file's bytes, for each object, 1 to 256",
            &mapping_config::fill_threads, {.low = 1, .high = 256}, "a number from 1 to 256"),
  };
}

}  // namespace

std::vector<mapping_setting> const& mapping_settings() {
  static std::vector<mapping_setting> const all = [] {
    auto both = protocol_settings();
    std::ranges::move(memory_settings(), std::back_inserter(both));
    return both;
  }();
  return all;
}

// A value that was set in code passes the same check as its text would.
void validate(mapping_config const& c) {
  mapping_config checked;
  for (auto const& s : mapping_settings()) s.assign(checked, s.print(c), s.key);
}

}  // namespace gpufs
