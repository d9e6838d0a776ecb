// Numbers and choices among the options of one application.
#pragma once

#include <apps/harness/problem.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace gpufs::apps {

/// The option --`name` as a number. Throws usage_error naming it unless it is from `low` to `high`.
[[nodiscard]] std::uint64_t number_option(problem const& p, std::string const& name,
                                          std::uint64_t low, std::uint64_t high);

/// Which of `choices` the option --`name` is. Throws usage_error naming it and them if it is none.
[[nodiscard]] unsigned choice_option(problem const& p, std::string const& name,
                                     std::initializer_list<char const*> choices);

}  // namespace gpufs::apps
