// PNS (Parboil): simulations of a Petri net on a torus. Their state is of the GPU alone; the CPU
// reads two numbers of each.
#include <apps/common/generator.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>

namespace gpufs::apps::workloads {

namespace {

constexpr unsigned draws = 256;             // of a round, one per thread
constexpr unsigned most_rounds = 1u << 24;  // what claims of 32 bits tell apart

/// Places (r, c) and transitions (r, c) with r < 2 edge, c < edge.
struct net {
  std::uint64_t edge;
  [[nodiscard]] __host__ __device__ std::uint64_t size() const { return 2 * edge * edge; }
  [[nodiscard]] __host__ __device__ std::uint64_t at(std::uint64_t r, std::uint64_t c) const {
    return r % (2 * edge) * edge + c % edge;
  }
};

/// The places that a transition takes from, and those that it gives to.
struct transition {
  std::uint64_t above, left, below, right;
};
__host__ __device__ inline transition transition_of(net const& n, std::uint64_t number) {
  std::uint64_t const r = number / n.edge, c = number % n.edge, column = c + (r & 1);
  return {n.at(r + 2 * n.edge - 1, column), n.at(r, c), n.at(r + 1, column), n.at(r, c + 1)};
}

/// Claims of later rounds are smaller. The smallest thread of a round wins.
__host__ __device__ inline unsigned claim_of(unsigned rounds, unsigned round, unsigned thread) {
  return (rounds - 1 - round) << 8 | thread;
}

__host__ __device__ inline float variance_of(unsigned long long squares, net const& n) {
  return static_cast<float>(static_cast<double>(squares) / static_cast<double>(n.size()) - 1);
}

/// A block for each trajectory. All rounds are free of order: see the barriers.
__global__ void simulate(net n, unsigned rounds, std::uint64_t seed, std::uint64_t first, int* all,
                         unsigned* all_claims, float* variances, int* largest) {
  __shared__ unsigned long long squares;
  __shared__ int most;
  int* const places = all + blockIdx.x * n.size();
  unsigned* const claims = all_claims + blockIdx.x * n.size();
  for (std::uint64_t p = threadIdx.x; p < n.size(); p += blockDim.x) {
    places[p] = 1;
    claims[p] = ~0u;
  }
  if (threadIdx.x == 0) {
    squares = 0;
    most = 0;
  }
  __syncthreads();
  for (unsigned round = 0; round < rounds; ++round) {
    auto const t =
        transition_of(n, generate_below(seed + first + blockIdx.x,
                                        round * std::uint64_t{draws} + threadIdx.x, n.size()));
    unsigned const mine = claim_of(rounds, round, threadIdx.x);
    atomicMin(&claims[t.above], mine);
    atomicMin(&claims[t.left], mine);
    __syncthreads();
    bool const fires = claims[t.above] == mine && claims[t.left] == mine && places[t.above] > 0 &&
                       places[t.left] > 0;
    __syncthreads();
    if (fires) {
      atomicAdd(&places[t.above], -1);
      atomicAdd(&places[t.left], -1);
      atomicAdd(&places[t.below], 1);
      atomicAdd(&places[t.right], 1);
    }
    __syncthreads();
  }
  unsigned long long my_squares = 0;
  int my_most = 0;
  for (std::uint64_t p = threadIdx.x; p < n.size(); p += blockDim.x) {
    auto const tokens = static_cast<unsigned long long>(places[p]);
    my_squares += tokens * tokens;
    my_most = places[p] > my_most ? places[p] : my_most;
  }
  atomicAdd(&squares, my_squares);
  atomicMax(&most, my_most);
  __syncthreads();
  if (threadIdx.x != 0) return;
  variances[blockIdx.x] = variance_of(squares, n);
  largest[blockIdx.x] = most;
}

/// One trajectory by the CPU.
struct trajectory {
  std::vector<int> places;
  float variance;
  int largest;

  trajectory(net n, unsigned rounds, std::uint64_t seed) : places(n.size(), 1) {
    std::vector<unsigned> claims(n.size(), ~0u);
    for (unsigned round = 0; round < rounds; ++round) {
      transition drawn[draws];
      bool fires[draws];
      for (unsigned i = 0; i < draws; ++i) {
        drawn[i] =
            transition_of(n, generate_below(seed, round * std::uint64_t{draws} + i, n.size()));
        for (auto const p : {drawn[i].above, drawn[i].left})
          claims[p] = std::min(claims[p], claim_of(rounds, round, i));
      }
      for (unsigned i = 0; i < draws; ++i) {
        auto const mine = claim_of(rounds, round, i);
        auto const& t = drawn[i];
        fires[i] = claims[t.above] == mine && claims[t.left] == mine && places[t.above] > 0 &&
                   places[t.left] > 0;
      }
      for (unsigned i = 0; i < draws; ++i) {
        if (!fires[i]) continue;
        --places[drawn[i].above];
        --places[drawn[i].left];
        ++places[drawn[i].below];
        ++places[drawn[i].right];
      }
    }
    unsigned long long squares = 0;
    for (auto const m : places) squares += static_cast<unsigned long long>(m) * unsigned(m);
    variance = variance_of(squares, n);
    largest = *std::max_element(places.begin(), places.end());
  }
};

class pns final : public workload {
 public:
  explicit pns(setup const& of)
      : net_{of["edge"]},
        rounds_(unsigned(of["rounds"])),
        count_(of["trajectories"]),
        per_call_(of["per-call"]),
        seed_(of.seed),
        is_smoke_(of.is_smoke) {}

  void allocate(session& s) override {
    places_ = s.allocate<int>(per_call_ * net_.size(), {.is_gpu_only = true});
    claims_ = s.allocate<unsigned>(per_call_ * net_.size(), {.is_gpu_only = true});
    variances_ = s.allocate<float>(per_call_);
    largest_ = s.allocate<int>(per_call_);
  }

  void run(session& s) override {
    for (std::uint64_t first = 0; first < count_; first += per_call_) {
      auto const now = std::min(per_call_, count_ - first);
      s.launch({s.writes(places_), s.writes(claims_), s.writes(variances_), s.writes(largest_)},
               simulate, unsigned(now), draws, net_, rounds_, seed_, first, places_.device(),
               claims_.device(), variances_.device(), largest_.device());
      s.synchronize();
      s.fetch(variances_);
      s.fetch(largest_);
      found_variances_.insert(found_variances_.end(), variances_.host(), variances_.host() + now);
      found_largest_.insert(found_largest_.end(), largest_.host(), largest_.host() + now);
    }
    for (std::uint64_t i = 0; i < count_; ++i) {
      mean_variance_ += found_variances_[i] / double(count_);
      mean_largest_ += found_largest_[i] / double(count_);
    }
  }

  void reference() override {
    for (std::uint64_t i = 0; i < count_; ++i)
      wanted_.push_back(trajectory(net_, rounds_, seed_ + i).variance);
  }

  void check(session&, checks& c) override {
    c.equal("trajectories", found_variances_.size(), count_);
    std::uint64_t const samples = is_smoke_ ? count_ : 2;
    for (std::uint64_t k = 0; k < samples; ++k) {
      std::uint64_t const i = is_smoke_ ? k : k * (count_ - 1);
      trajectory const wanted(net_, rounds_, seed_ + i);
      std::uint64_t tokens = 0;
      for (auto const m : wanted.places) tokens += unsigned(m);
      c.equal("tokens of the net", tokens, net_.size());
      c.near("variance", i, found_variances_[i], wanted.variance, 0, 0);
      c.equal("largest marking", unsigned(found_largest_[i]), unsigned(wanted.largest));
    }
    // The few places of a smaller net may have what they had at first.
    if (net_.edge >= 12) c.expect(mean_variance_ > 0 && mean_largest_ > 1, "nothing has fired");
  }

  std::vector<std::span<std::byte const>> results() override {
    return {std::as_bytes(std::span<float const>(found_variances_)),
            std::as_bytes(std::span<int const>(found_largest_))};
  }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const calls = (count_ + per_call_ - 1) / per_call_;
    std::uint64_t const out = variances_.bytes() + largest_.bytes();
    if (s.how().protocol == coherence_protocol::batch) {
      std::uint64_t const all = places_.bytes() + claims_.bytes() + out;
      c.equal("bytes_h2d", got.bytes_h2d, calls * all);
      c.equal("bytes_d2h", got.bytes_d2h, calls * all);
      return;
    }
    c.equal("bytes_h2d", got.bytes_h2d, 0);
    c.equal("bytes_d2h", got.bytes_d2h, calls * out);
    c.equal("faults_write", got.faults_write, 0);
  }

 private:
  net net_;
  unsigned rounds_;
  std::uint64_t count_, per_call_, seed_;
  bool is_smoke_;
  object<int> places_;
  object<unsigned> claims_;
  object<float> variances_;
  object<int> largest_;
  std::vector<float> found_variances_, wanted_;
  std::vector<int> found_largest_;
  double mean_variance_ = 0, mean_largest_ = 0;
};

}  // namespace

description const workload_pns{
    .name = "pns",
    .what = "Parboil PNS: simulations of a Petri net; their state never leaves the GPU",
    .parameters = {{"edge", 12, 2'000, "the net has 2 edge^2 places", 1, 1 << 20},
                   {"rounds", 6, 2'000, "rounds of 256 draws", 1, most_rounds},
                   {"trajectories", 5, 256, "simulations", 1, 1 << 24},
                   {"per-call", 2, 18, "simulations of a launch", 1, 1 << 16}},
    .make = make_workload<pns>,
};

}  // namespace gpufs::apps::workloads
