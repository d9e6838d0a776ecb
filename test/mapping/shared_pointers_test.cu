// Pointers inside shared data: what the CPU has linked, a kernel walks and grows, and the CPU walks
// again. Addresses are the same on both sides, also from one object into another.
#include <gpufs/mapping.hpp>

#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

struct node {
  std::uint64_t key;
  std::uint64_t value;
  node* next;
  node* less;
  node* more;
};

/// Each thread follows the chain of a bucket and adds its values.
__global__ void add_chains(node* const* buckets, std::uint64_t count, std::uint64_t* sums) {
  std::uint64_t const b = blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x;
  if (b >= count) return;
  std::uint64_t sum = 0;
  for (node const* n = buckets[b]; n != nullptr; n = n->next) sum += n->value;
  sums[b] = sum;
}

/// Each thread takes the nodes of a stock that fall into its bucket and puts them in front of it.
__global__ void grow_chains(node** buckets, std::uint64_t count, node* stock, std::uint64_t nodes,
                            std::uint64_t first_key) {
  std::uint64_t const b = blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x;
  if (b >= count) return;
  for (std::uint64_t n = 0; n < nodes; ++n) {
    std::uint64_t const key = first_key + n;
    if (key % count != b) continue;
    stock[n].key = key;
    stock[n].value = key * key;
    stock[n].next = buckets[b];
    buckets[b] = &stock[n];
  }
}

/// Each thread looks for keys in the tree and adds their values.
__global__ void look_up(node* const* root, std::uint64_t const* keys, std::uint64_t count,
                        std::uint64_t* found) {
  std::uint64_t const i = blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  node const* n = *root;
  while (n != nullptr && n->key != keys[i]) n = keys[i] < n->key ? n->less : n->more;
  found[i] = n == nullptr ? ~0ull : n->value;
}

mapping_config small_blocks(coherence_protocol p) {
  mapping_config c;
  c.protocol = p;
  c.coherence_block = 4 << 10;
  return c;
}

constexpr coherence_protocol protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                            coherence_protocol::rolling};

}  // namespace

TEST_CASE("shared pointers: chains that the CPU links, a kernel walks, grows, and the CPU walks") {
  constexpr std::uint64_t count = 61, linked = 3000, grown = 2000;
  for (auto const p : protocols) {
    CAPTURE(int(p));
    shared_memory memory(small_blocks(p));
    auto const table = memory.allocate(count * sizeof(node*));
    auto const nodes = memory.allocate(linked * sizeof(node));
    auto const stock = memory.allocate(grown * sizeof(node));
    auto const sums = memory.allocate(count * sizeof(std::uint64_t));
    auto** const buckets = table.as<node*>();
    std::vector<std::uint64_t> expected(count);
    for (std::uint64_t key = 0; key < linked; ++key) {
      node& n = nodes.as<node>()[key];
      n = {key, key * key, buckets[key % count], nullptr, nullptr};
      buckets[key % count] = &n;
      expected[key % count] += key * key;
    }
    auto const sums_are_right = [&] {
      launch(add_chains, 2, 32, buckets, count, sums.as<std::uint64_t>());
      memory.synchronize();
      for (std::uint64_t b = 0; b < count; ++b) {
        if (sums.as<std::uint64_t>()[b] != expected[b]) return false;
      }
      return true;
    };
    CHECK(sums_are_right());
    launch(grow_chains, 2, 32, buckets, count, stock.as<node>(), grown, linked);
    for (std::uint64_t key = linked; key < linked + grown; ++key)
      expected[key % count] += key * key;
    memory.synchronize();
    std::set<std::uint64_t> keys;
    for (std::uint64_t b = 0; b < count; ++b) {
      for (node const* n = buckets[b]; n != nullptr; n = n->next) {
        REQUIRE(n->key % count == b);
        REQUIRE(keys.insert(n->key).second);
      }
    }
    CHECK(keys.size() == linked + grown);
    CHECK(*keys.rbegin() == linked + grown - 1);
    // The CPU takes the first node of each chain out, and the kernel sees that.
    for (std::uint64_t b = 0; b < count; ++b) {
      expected[b] -= buckets[b]->value;
      buckets[b] = buckets[b]->next;
    }
    CHECK(sums_are_right());
  }
}

TEST_CASE("shared pointers: a tree over three objects is searched by a kernel") {
  CAPTURE(seed());
  for (auto const p : protocols) {
    CAPTURE(int(p));
    std::mt19937_64 random(seed());
    constexpr std::uint64_t count = 2000;
    shared_memory memory(small_blocks(p));
    mapping const parts[] = {memory.allocate(count * sizeof(node)),
                             memory.allocate(count * sizeof(node)),
                             memory.allocate(count * sizeof(node))};
    auto const root = memory.allocate(sizeof(node*));
    auto const keys = memory.allocate(2 * count * 8), found = memory.allocate(2 * count * 8);
    for (std::uint64_t i = 0; i < count; ++i) {
      node& fresh = parts[random() % 3].as<node>()[i];
      fresh = {random() % 100'000 * 2, i, nullptr, nullptr, nullptr};
      node** at = root.as<node*>();
      while (*at != nullptr && (*at)->key != fresh.key)
        at = fresh.key < (*at)->key ? &(*at)->less : &(*at)->more;
      if (*at == nullptr)
        *at = &fresh;
      else
        (*at)->value = i;
      keys.as<std::uint64_t>()[2 * i] = fresh.key;
      keys.as<std::uint64_t>()[2 * i + 1] = fresh.key + 1;  // odd: not there
    }
    launch(look_up, 2 * count / 64 + 1, 64, root.as<node*>(), keys.as<std::uint64_t const>(),
           2 * count, found.as<std::uint64_t>());
    memory.synchronize();
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < 2 * count; ++i) {
      node const* n = *root.as<node*>();
      std::uint64_t const key = keys.as<std::uint64_t>()[i];
      while (n != nullptr && n->key != key) n = key < n->key ? n->less : n->more;
      wrong += found.as<std::uint64_t>()[i] != (n == nullptr ? ~0ull : n->value);
      wrong += (n == nullptr) != (i % 2 == 1);
    }
    CHECK(wrong == 0);
  }
}
