// What is found wrong about a run.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::workloads {

/// Collects failures. Of each kind it keeps the first one, and how many there are.
class checks {
 public:
  void expect(bool is_right, std::string_view what) {
    ++done_;
    if (!is_right) fail(what, {});
  }

  void equal(std::string_view what, std::uint64_t got, std::uint64_t wanted) {
    ++done_;
    if (got != wanted) fail(what, std::to_string(got) + " instead of " + std::to_string(wanted));
  }

  /// |got - wanted| <= absolute + relative |wanted|, for element `i` of `what`.
  void near(std::string_view what, std::uint64_t i, double got, double wanted, double absolute,
            double relative) {
    ++done_;
    if (std::abs(got - wanted) <= absolute + relative * std::abs(wanted)) return;
    fail(what, "element " + std::to_string(i) + ": " + std::to_string(got) + " instead of " +
                   std::to_string(wanted));
  }

  [[nodiscard]] bool passed() const { return found_.empty(); }
  [[nodiscard]] std::uint64_t done() const { return done_; }

  /// A line per kind of failure.
  [[nodiscard]] std::vector<std::string> failures() const {
    std::vector<std::string> lines;
    for (auto const& [what, f] : found_) {
      std::string line = what;
      if (!f.first.empty()) line += ": " + f.first;
      if (f.count > 1) line += " (and " + std::to_string(f.count - 1) + " more)";
      lines.push_back(line);
    }
    return lines;
  }

 private:
  struct failure {
    std::string first;
    std::uint64_t count = 0;
  };

  void fail(std::string_view what, std::string const& first) {
    auto& f = found_[std::string(what)];
    if (f.count++ == 0) f.first = first;
  }

  std::map<std::string, failure> found_;
  std::uint64_t done_ = 0;
};

}  // namespace gpufs::apps::workloads
