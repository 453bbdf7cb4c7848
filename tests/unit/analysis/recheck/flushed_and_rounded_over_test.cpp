// What implementations do to single elements of gradients: numbers below the normal ones taken for
// 0 in attention, and quotients in remainders that round over a whole number or to infinity.
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/float_bits.h"
#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

// ---- attention ----

// One query with weights of 0.27 and 0.73. The gradient that comes in is the smallest normal
// number, those of the scores are 1.2e-39 and less than that.
Verdict JudgedAttention(DType dtype, const std::vector<float>& query_gradient) {
  Ranks ranks(1);
  const auto leaf = [&](const std::string& file, const std::vector<float>& values, int64_t rows) {
    return As(dtype, ranks.Leaf(0, file, values, {1, 1, rows, 3}));
  };
  const auto out = static_cast<float>(tensor::RoundToDType(dtype, 0.63447071));
  ranks.Add(0, "Functional.scaled_dot_product_attention.0.forward",
            leaf("q.npy", {1, 0, 0}, 1) + ", " + leaf("k.npy", {0, 1, 0, 1, 1, 0}, 2) + ", " +
                leaf("v.npy", {1, 0, 0, 0.5F, 0, 0}, 2),
            R"("scale": {"type": "float", "value": 1.0})", leaf("o.npy", {out, 0, 0}, 1));
  ranks.AddBackward(0, "Functional.scaled_dot_product_attention.0.backward",
                    leaf("gi.npy", {0x1p-126F, 0, 0}, 1), leaf("go.npy", query_gradient, 1));
  const Answer answer = ranks.Check();
  EXPECT_EQ(answer.calls[0].verdict(), Verdict::kWithin) << answer.calls[0].checked().reason;
  return answer.calls[1].verdict();
}

TEST(Attention, GradientsBelowTheNormalNumbersMayBeZero) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EXPECT_EQ(JudgedAttention(dtype, {-1.155e-39F, 0, 0}), Verdict::kWithin);
    EXPECT_EQ(JudgedAttention(dtype, {0, 0, 0}), Verdict::kWithin);
    EXPECT_EQ(JudgedAttention(dtype, {1e-36F, 0, 0}), Verdict::kBeyond);
    EXPECT_EQ(JudgedAttention(dtype, {0, 0, 1e-36F}), Verdict::kBeyond);
  }
}

TEST(Softmax, GradientsBelowTheNormalNumbersMayNot) {
  const auto judged = [](float second) {
    Ranks ranks(1);
    ranks.Add(0, "Functional.softmax.0.forward", ranks.Leaf(0, "x.npy", {0, -83.75F}),
              R"("dim": {"type": "int", "value": -1})", ranks.Leaf(0, "y.npy", {1, 4.2446e-37F}));
    ranks.AddBackward(0, "Functional.softmax.0.backward", ranks.Leaf(0, "gi.npy", {1, 1.0078125F}),
                      ranks.Leaf(0, "go.npy", {-3.316e-39F, second}));
    return ranks.Check().calls[1].verdict();
  };
  EXPECT_EQ(judged(3.316e-39F), Verdict::kWithin);
  EXPECT_EQ(judged(0), Verdict::kBeyond);
}

// ---- remainders ----

// The gradient of the divisor, of one element.
Verdict JudgedDivisor(const std::string& name, DType dtype, float x, float y, float gradient,
                      float incoming = 1.6171875F) {
  Ranks ranks(1);
  const auto leaf = [&](const std::string& file, float value) {
    return As(dtype, ranks.Leaf(0, file, {value}, {}));
  };
  ranks.Add(0, "Torch." + name + ".0.forward", leaf("x.npy", x) + ", " + leaf("y.npy", y), "",
            leaf("rest.npy", 0));
  ranks.AddBackward(0, "Torch." + name + ".0.backward", leaf("gi.npy", incoming),
                    leaf("gx.npy", incoming) + ", " + leaf("gy.npy", gradient));
  return ranks.Check().calls[1].verdict();
}

// -(a / b) rounded down times 1.6171875, the gradient that comes in.
float Times(int quotient) { return -1.6171875F * static_cast<float>(quotient); }

TEST(Remainders, AQuotientNearAWholeNumberMayBeRoundedOverIt) {
  struct Case {
    DType dtype;
    float x, y;
    bool is_near;
  };
  // Quotients of -3.953, -3.5, -3.9999998 and -3.9999.
  for (const Case& at :
       {Case{DType::kBFloat16, -7.90625F, 2, true}, Case{DType::kBFloat16, -7, 2, false},
        Case{DType::kFloat32, -7.9999995F, 2, true}, Case{DType::kFloat32, -7.9998F, 2, false}}) {
    for (const bool floors : {false, true}) {
      const std::string name = floors ? "remainder" : "fmod";
      const auto judged = [&](int quotient) {
        return JudgedDivisor(name, at.dtype, at.x, at.y, Times(quotient));
      };
      EXPECT_EQ(judged(floors ? -4 : -3), Verdict::kWithin) << name << " " << at.x;
      EXPECT_EQ(judged(floors ? -3 : -4), at.is_near ? Verdict::kWithin : Verdict::kBeyond)
          << name << " " << at.x;
      EXPECT_EQ(judged(-6), Verdict::kBeyond) << name << " " << at.x;
      EXPECT_EQ(judged(4), Verdict::kBeyond) << name << " " << at.x;
    }
  }
}

TEST(Remainders, AQuotientBeyondItsTypeMayBeInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const std::string name : {"remainder", "fmod"}) {
      // 2^128 and 2^126 times 2^-4.
      EXPECT_EQ(JudgedDivisor(name, dtype, 0x1p120F, 0x1p-8F, -kInfinity, 0x1p-4F),
                Verdict::kWithin);
      EXPECT_EQ(JudgedDivisor(name, dtype, 0x1p120F, 0x1p-8F, -0x1p124F, 0x1p-4F),
                Verdict::kWithin);
      EXPECT_EQ(JudgedDivisor(name, dtype, 0x1p120F, 0x1p-6F, -0x1p122F, 0x1p-4F),
                Verdict::kWithin);
      EXPECT_EQ(JudgedDivisor(name, dtype, 0x1p120F, 0x1p-6F, -kInfinity, 0x1p-4F),
                Verdict::kBeyond);
      EXPECT_EQ(JudgedDivisor(name, dtype, 0x1p120F, 0x1p-6F, 0x1p122F, 0x1p-4F), Verdict::kBeyond);
    }
  }
}

}  // namespace
}  // namespace msprobe::analysis::recheck
