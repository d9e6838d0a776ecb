// A linked structure that CPU and GPU share: linked_list [NODES]. The CPU links the nodes in random
// order, by plain pointers; a kernel follows them and changes the values; the CPU reads these.
#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <random>
#include <vector>

struct node {
  node* next;
  long value;
};

// Each thread follows a list of its own.
__global__ void square(node* const* heads, int lists) {
  int const i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= lists) return;
  for (node* n = heads[i]; n != nullptr; n = n->next) n->value *= n->value;
}

int main(int argc, char** argv) try {
  long const nodes = argc > 1 ? std::atol(argv[1]) : 100000;
  constexpr int lists = 64;
  if (nodes < 1 || nodes > 2000000) return std::fputs("NODES: 1 to 2000000\n", stderr), 2;
  gpufs::shared_memory memory;
  auto const pool = memory.allocate(std::uint64_t(nodes) * sizeof(node));
  auto const first = memory.allocate(lists * sizeof(node*));
  auto* const all = pool.as<node>();
  auto* const heads = first.as<node*>();

  std::vector<long> order(std::size_t(nodes), 0);
  std::iota(order.begin(), order.end(), 0l);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (int i = 0; i < lists; ++i) heads[i] = nullptr;
  for (long i = 0; i < nodes; ++i) {
    all[order[std::size_t(i)]] = {heads[i % lists], i};
    heads[i % lists] = &all[order[std::size_t(i)]];
  }

  gpufs::launch(square, 1, lists, heads, lists);
  memory.synchronize();

  long long sum = 0, expected = 0;
  for (int i = 0; i < lists; ++i)
    for (node const* n = heads[i]; n != nullptr; n = n->next) sum += n->value;
  for (long long i = 0; i < nodes; ++i) expected += i * i;
  std::printf("%ld nodes, sum of squares %lld\n", nodes, sum);
  return sum == expected ? 0 : 1;
} catch (std::exception const& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
