#include <string>

#include <gtest/gtest.h>

#include "src/analysis/response_anomaly/response_anomaly.h"

namespace msprobe::analysis::response_anomaly {
namespace {

std::string LimitsError(std::string_view text) {
  return ParseLimits(text, "limits.yaml").status().message();
}

TEST(ResponseLimits, WhatIsNotSaidKeepsItsDefault) {
  const Result<Limits> limits = ParseLimits(
      "window_size: 64\nstride: 32\nrepetition:\n  acf:\n    harmonic_thresh: 0.325\n", "l.yaml");
  ASSERT_TRUE(limits.ok()) << limits.status().message();
  EXPECT_EQ(limits->window_size, 64);
  EXPECT_EQ(limits->harmonic_thresh, 0.325);
  EXPECT_EQ(limits->acf_threshold, 0.65);
  EXPECT_EQ(limits->window_thresh, 0);
  EXPECT_TRUE(ParseLimits("", "l.yaml").ok());
}

TEST(ResponseLimits, ImpossibleValuesAreNamedWithTheirLine) {
  EXPECT_NE(LimitsError("window_size: 0").find("line 1"), std::string::npos);
  EXPECT_NE(LimitsError("window_size: 64\nstride: 65").find("line 2"), std::string::npos);
  EXPECT_NE(LimitsError("window_size: 32").find("stride"), std::string::npos);
  EXPECT_NE(LimitsError("stride: -1").find("stride"), std::string::npos);
  EXPECT_NE(LimitsError("rare_character:\n  top1_logp_thresh: 1").find("top1_logp_thresh"),
            std::string::npos);
  EXPECT_NE(LimitsError("rare_character:\n  explogp_sum_thresh: 1.5").find("0 to 1"),
            std::string::npos);
  EXPECT_NE(LimitsError("garbled: 3").find("garbled"), std::string::npos);
  EXPECT_NE(LimitsError("garbled:\n  window_ratio: .nan").find("window_ratio"), std::string::npos);
  EXPECT_NE(LimitsError("repetition:\n  acv: {}").find("acv"), std::string::npos);
  EXPECT_NE(LimitsError("- 1").size(), 0u);
}

}  // namespace
}  // namespace msprobe::analysis::response_anomaly
