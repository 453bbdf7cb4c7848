#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/numbers.h"

namespace msprobe::base {
namespace {

TEST(AppendFixed, FollowsPrintf) {
  std::vector<double> values = {0.0,         -0.0,    1e-3,     9.99e-4,  0.0078125,   0.0234375,
                                0.5,         1.5,     2.5,      999.9995, 0.9999995,   1e9,
                                999999999.5, 4503.75, -1.25e-3, 1e300,    5e-324,      1e-7,
                                123456789.0, 1 / 3.0, -2 / 3.0, 65504.0,  -99999.9995, 3.4e38};
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponents(-12, 12);
  std::uniform_int_distribution<int> halves(-100000, 100000);
  for (int i = 0; i < 20000; ++i) {
    values.push_back(std::pow(10.0, exponents(random)) * (i % 2 == 0 ? 1 : -1));
    values.push_back(halves(random) / 128.0);  // ties of few decimals
  }
  for (const double value : values) {
    for (const int decimals : {0, 1, 3, 6, 7, 20}) {
      std::array<char, 400> expected;
      const int size = std::snprintf(expected.data(), expected.size(), "%.*f", decimals, value);
      std::string text = "x=";
      AppendFixed(value, decimals, text);
      ASSERT_EQ(text, "x=" + std::string(expected.data(), static_cast<size_t>(size)))
          << value << " with " << decimals;
    }
  }
}

}  // namespace
}  // namespace msprobe::base
