// What arguments of a few bytes ask for is out of proportion to the tensors of their call.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOutOfProportion = "out of proportion to what was captured";

// A tensor without elements, of which no file is there.
std::string Empty(const std::string& shape) {
  return fmt::format(R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [{}]}})",
                     shape);
}

std::string Eight(const Ranks& ranks, const std::string& file) {
  return ranks.Leaf(0, file, std::vector<float>(8, 1), {1, 1, 8});
}

// Why the call was not checked.
std::string Reason(const std::string& name, const std::string& arguments,
                   const std::string& keywords = "") {
  Ranks ranks(1);
  ranks.Add(0, name,
            arguments.find("INPUT") == 0 ? Eight(ranks, "in.npy") + arguments.substr(5) : arguments,
            keywords, Eight(ranks, "out.npy"));
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.calls[0].verdict(), Verdict::kNotCheckable);
  return answer.calls[0].checked().reason;
}

TEST(Proportion, OfDimsBesideOneOfNoSize) {
  const std::string huge = Empty("10000000000, 0");
  EXPECT_THAT(Reason("Torch.cat.0.forward", "[" + huge + ", " + huge + "], " + Integer(1)),
              HasSubstr(kOutOfProportion));
  EXPECT_THAT(Reason("Torch.sum.0.forward", Empty("100000000, 0") + ", " + Integer(1)),
              HasSubstr(kOutOfProportion));
  EXPECT_THAT(Reason("Torch.sum.0.forward", Empty("-1, 0") + ", " + Integer(1)),
              HasSubstr(kOutOfProportion));
}

TEST(Proportion, OfThePartsOfATensorWithoutElements) {
  const std::string many = Empty("0, 8000000");
  EXPECT_THAT(Reason("Torch.unbind.0.forward", many + ", " + Integer(1)),
              HasSubstr("1 outputs instead of 8000000"));
  EXPECT_THAT(Reason("Torch.split.0.forward", many + ", " + Integer(1) + ", " + Integer(1)),
              HasSubstr("1 outputs instead of 8000000"));
  EXPECT_THAT(Reason("Torch.chunk.0.forward", many + ", " + Integer(8000000) + ", " + Integer(1)),
              HasSubstr("1 outputs instead of 8000000"));
}

TEST(Proportion, OfWindows) {
  const std::string large = Integer(1 << 24);
  EXPECT_THAT(Reason("Functional.avg_pool1d.0.forward",
                     "INPUT, " + large + ", " + Integer(1) + ", " + large),
              HasSubstr(kOutOfProportion));
  EXPECT_THAT(Reason("Functional.max_pool1d.0.forward",
                     "INPUT, " + Integer(1 << 14) + ", " + Integer(1) + ", " + Integer(1 << 14)),
              HasSubstr(kOutOfProportion));
}

TEST(Proportion, OfInterpolatedPlaces) {
  for (const char* mode : {"linear", "nearest", "area"}) {
    EXPECT_THAT(Reason("Functional.interpolate.0.forward", "INPUT",
                       fmt::format(R"("size": {}, "mode": {{"type": "str", "value": "{}"}})",
                                   Integer(2'000'000'000), mode)),
                ::testing::AnyOf(HasSubstr(kOutOfProportion), HasSubstr("impossible sizes")));
  }
}

TEST(Proportion, LetsEmptyTensorsOfRealSizesBe) {
  // Tokens of no expert.
  Ranks ranks(1);
  EXPECT_FALSE(Eight(ranks, "other.npy").empty());
  ranks.Add(0, "Torch.cat.0.forward",
            "[" + Empty("256, 0, 16384") + ", " + Empty("256, 0, 16384") + "], " + Integer(1), "",
            Empty("256, 0, 16384"));
  EXPECT_EQ(ranks.Check().calls[0].verdict(), Verdict::kWithin);
}

// The file of one tensor, which each of many calls names.
TEST(Proportion, OfAFileThatManyCallsName) {
  for (const size_t elements : {size_t{1000}, size_t{2000}}) {
    Ranks ranks(1);
    const std::string tensor = ranks.Leaf(0, "x.npy", std::vector<float>(elements, 1));
    for (int i = 0; i < 600; ++i) {
      ranks.Add(0, fmt::format("Torch.relu.{}.forward", i), tensor, "", tensor);
    }
    const Answer answer = ranks.Check();
    const bool is_small = elements == 1000;
    EXPECT_GE(answer.within, is_small ? 600U : 300U);
    EXPECT_EQ(answer.not_checkable == 0, is_small);
    EXPECT_EQ(answer.unreadable, 0U);
    if (!is_small) {
      EXPECT_THAT(answer.calls.back().checked().reason, HasSubstr("x.npy was read 1032 times"));
    }
  }
}

}  // namespace
}  // namespace msprobe::analysis::recheck
