// The line scanner of gpufs-grep, run over windows of a text as the kernel's threads do, against
// the plain count of the host.
#include <apps/gpufs-grep/reference.hpp>
#include <apps/gpufs-grep/word_scan.hpp>
#include <test/fuzz/input.hpp>

#include <cstring>
#include <vector>

using namespace gpufs;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::input in{data, size};
  std::uint64_t const begin = in.below(16);  // of the window that is looked at first
  std::uint64_t const step = 1 + in.below(40);
  auto const word_text = in.line();
  auto const text = in.rest();
  apps::search_word word;
  if (word_text.empty() || word_text.size() > apps::longest_word) return 0;
  word.length = unsigned(word_text.size());
  std::memcpy(word.bytes, word_text.data(), word_text.size());

  // The text ends where the memory ends, but for the rest of an 8-byte word.
  std::vector<std::uint64_t> memory((begin + text.size() + 7) / 8);
  auto* const bytes = reinterpret_cast<char*>(memory.data());
  if (!text.empty()) std::memcpy(bytes + begin, text.data(), text.size());
  apps::line_state all;
  auto const end = begin + text.size();
  for (auto at = begin; at < end; at += step) {
    auto const stop = std::min(at + step, end);
    apps::text_window const window{bytes, at, stop, end, at == begin};
    all = all.then(apps::line_state::unpacked(
        apps::detail::scan_words(window, word, at / 8, (stop + 7) / 8).packed()));
  }
  require(all.lines() == apps::count_lines(text, word_text), "as many lines as grep finds");
  return 0;
}
