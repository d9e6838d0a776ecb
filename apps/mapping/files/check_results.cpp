#include <apps/common/generator.hpp>
#include <apps/harness/input_file.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/mapping/files/check_results.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <fcntl.h>

namespace gpufs::apps::workloads {

namespace {

template <class T>
void widen(std::span<std::byte const> from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
    to[i] = static_cast<double>(value);
  }
}

template <class T>
void narrow(std::span<double const> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    T const value = static_cast<T>(from[i]);
    std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
  }
}

/// Also for infinities, and NaNs of any kind.
bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Compares the groups of one result. Several threads call compare().
class comparison {
 public:
  comparison(file_workload const& of, work_files const& files, result_rule const& rule, checks& c)
      : of_(of),
        rule_(rule),
        checks_(c),
        name_(files.object(rule.object).name + ".mem"),
        file_(files.path(rule.object), O_RDONLY),
        elements_(files.object(rule.object).bytes / bytes_of(rule.type)) {}

  [[nodiscard]] std::uint64_t groups() const { return (elements_ + rule_.group - 1) / rule_.group; }

  void compare(std::uint64_t group) {
    std::uint64_t const first = group * rule_.group;
    std::uint64_t const count = std::min(rule_.group, elements_ - first);
    std::vector<std::byte> bytes(count * bytes_of(rule_.type));
    file_.read(bytes.data(), bytes.size(), first * bytes_of(rule_.type));
    std::vector<double> got(count), wanted(count);
    as_doubles(rule_.type, bytes, got);
    of_.reference(rule_.object, first, wanted);
    std::lock_guard const lock(mutex_);
    for (std::uint64_t i = 0; i < count; ++i) {
      difference_ += std::abs(got[i] - wanted[i]);
      sum_ += std::abs(wanted[i]);
      if (!rule_.l1 && !is_same(got[i], wanted[i])) {
        checks_.near(name_, first + i, got[i], wanted[i], rule_.absolute, rule_.relative);
      }
    }
  }

  void finish() {
    if (rule_.l1) {
      checks_.expect(difference_ <= *rule_.l1 * sum_, name_ + " differs by " +
                                                          std::to_string(difference_) +
                                                          " in all, of " + std::to_string(sum_));
    }
  }

 private:
  file_workload const& of_;
  result_rule const& rule_;
  checks& checks_;
  std::string name_;
  open_file_of file_;
  std::uint64_t elements_;
  std::mutex mutex_;
  double difference_ = 0, sum_ = 0;
};

}  // namespace

void as_doubles(element type, std::span<std::byte const> from, std::span<double> to) {
  switch (type) {
    case element::f32: return widen<float>(from, to);
    case element::f64: return widen<double>(from, to);
    case element::i32: return widen<std::int32_t>(from, to);
  }
}

void from_doubles(element type, std::span<double const> from, std::span<std::byte> to) {
  switch (type) {
    case element::f32: return narrow<float>(from, to);
    case element::f64: return narrow<double>(from, to);
    case element::i32: return narrow<std::int32_t>(from, to);
  }
}

void check_results(file_workload const& of, work_files const& files, std::uint64_t seed,
                   checks& c) {
  for (auto const& rule : of.rules()) {
    comparison one(of, files, rule, c);
    std::uint64_t const groups = one.groups();
    if (groups <= rule.most_groups) {
      parallel_for(groups, 1, [&](std::uint64_t g) { one.compare(g); });
    } else {
      // The first group, the last one, and others.
      parallel_for(rule.most_groups, 1, [&](std::uint64_t k) {
        one.compare(k == 0   ? 0
                    : k == 1 ? groups - 1
                             : generate_below(array_seed(seed, 0x5a17), k, groups));
      });
    }
    one.finish();
  }
}

}  // namespace gpufs::apps::workloads
