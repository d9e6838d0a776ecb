// Values of options as text.
#include <apps/common/program.hpp>

#include <doctest/doctest.h>

#include <string>

using gpufs::apps::seconds_option;
using gpufs::apps::usage_error;

TEST_CASE("options: a time is whole seconds, minutes or hours in its bounds") {
  CHECK(seconds_option("--time", "90", 24) == 90);
  CHECK(seconds_option("--time", "90s", 24) == 90);
  CHECK(seconds_option("--time", "2m", 24) == 120);
  CHECK(seconds_option("--time", "24h", 24) == 86'400);
  // With a time that is no number a search would end at once, and say that all is well.
  for (std::string const wrong :
       {"", "s", "0", "0h", "nan", "inf", "1.5", "-1", " 1", "1d", "1 s", "25h", "1441m",
        "18446744073709551615h", "99999999999999999999"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(
        static_cast<void>(seconds_option("--time", wrong, 24)),
        ("--time=" + wrong + ": must be from 1 second to 24 hours, such as 90, 90s, 2m or 1h")
            .c_str(),
        usage_error);
  }
}
