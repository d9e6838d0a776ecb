// A planted bug: a kernel that fills pages of a cache and writes one word beyond the last one.
// AddressSanitizer must report a heap buffer overflow. With the argument `clean` the kernel stays
// within, and the program must pass.
#include <gpufs/device.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr unsigned page_words = 4096 / sizeof(std::uint32_t);
constexpr unsigned pages = 8;

// A block fills a page.
__global__ void fill_pages(std::uint32_t* frames, unsigned words) {
  std::uint32_t* const page = frames + blockIdx.x * page_words;
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) page[i] = blockIdx.x;
}

}  // namespace

int main(int argc, char** argv) {
  bool const clean = argc > 1 && std::strcmp(argv[1], "clean") == 0;
  gpufs::buffer<std::uint32_t> frames(pages * page_words);
  gpufs::launch(fill_pages, pages, 64, frames.data(), clean ? page_words : page_words + 1);
  gpufs::synchronize();
  std::uint32_t last = 0;
  frames.copy_to_host(&last, 1, pages * page_words - 1);
  std::printf("%s: last word %u\n", clean ? "clean" : "planted", last);
  return clean && last != pages - 1 ? 1 : 0;
}
