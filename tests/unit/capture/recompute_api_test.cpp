// Operators computed again through the C interface of msprobe/dispatch.h.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/dispatch.h"

#include "tests/unit/capture/test_capture.h"

namespace msprobe::capture {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tensor of the host over `values`, which must live as long; strides empty: row-major.
template <typename Element>
struct HostTensor {
  std::vector<int64_t> shape;
  std::vector<Element> values;
  std::vector<int64_t> strides;

  msprobe_tensor Described(std::string_view dtype, int32_t code) {
    msprobe_tensor tensor = {};
    tensor.type = Text("torch.Tensor");
    tensor.dtype = Text(dtype);
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
    tensor.data = values.data();
    tensor.dimensions = static_cast<int32_t>(shape.size());
    tensor.dtype_code = code;
    tensor.device = MSPROBE_DEVICE_HOST;
    return tensor;
  }
};

using Floats = HostTensor<float>;
using Doubles = HostTensor<double>;

msprobe_tensor Float32(Floats& tensor) {
  return tensor.Described("torch.float32", MSPROBE_FLOAT32);
}
msprobe_tensor Float64(Doubles& tensor) {
  return tensor.Described("torch.float64", MSPROBE_FLOAT64);
}

std::string Leaf(std::string_view dtype, std::string_view shape, int place) {
  return R"({"type": "torch.Tensor", "dtype": ")" + std::string(dtype) + R"(", "shape": )" +
         std::string(shape) + R"(, "data_name": ")" + std::to_string(place) + "\"}";
}

std::string CallText(const std::string& inputs, const std::string& outputs) {
  return R"({"input_args": [)" + inputs + R"(], "input_kwargs": {}, "output": [)" + outputs + "]}";
}

// The answer; -1 and the text of the error where the call is wrong.
int Recompute(std::string_view name, const std::string& call,
              const std::vector<msprobe_tensor>& tensors,
              const std::vector<msprobe_tensor>& goldens, uint32_t threads = 1) {
  int recomputed = -1;
  const int code =
      msprobe_recompute_operator(Text(name), Text(call), tensors.data(), tensors.size(),
                                 goldens.data(), goldens.size(), threads, &recomputed);
  return code == MSPROBE_OK ? recomputed : -1;
}

TEST(RecomputeOperator, KnowsOperatorsByTheirNamesInAten) {
  EXPECT_EQ(msprobe_can_recompute(Text("mm")), 1);
  EXPECT_EQ(msprobe_can_recompute(Text("mul_")), 1);
  EXPECT_EQ(msprobe_can_recompute(Text("native_layer_norm_backward")), 0);
  EXPECT_EQ(msprobe_can_recompute(Text("")), 0);
}

TEST(RecomputeOperator, GivesWhatExactArithmeticGivesAlsoOfStridedInputs) {
  // Columns of a transposed matrix: a[i][j] = values[i + 3 * j].
  Floats a{{3, 2}, {1, 2, 3, 0.1F, 0.2F, 0.3F}, {1, 3}};
  Floats b{{2, 1}, {0.1F, 10}, {}};
  Floats out{{3, 1}, {9, 9, 9}, {}};  // what the device says has no part in it
  Doubles golden{{3, 1}, std::vector<double>(3), {}};
  const std::string call =
      CallText(Leaf("torch.float32", "[3, 2]", 0) + "," + Leaf("torch.float32", "[2, 1]", 1),
               Leaf("torch.float32", "[3, 1]", 2));
  EXPECT_EQ(Recompute("mm", call, {Float32(a), Float32(b), Float32(out)}, {Float64(golden)}), 1)
      << msprobe_last_error();
  const auto row = [](float x, float y) {
    return DoubleNear(
        static_cast<double>(x) * static_cast<double>(0.1F) + 10 * static_cast<double>(y), 1e-15);
  };
  EXPECT_THAT(golden.values, ElementsAre(row(1, 0.1F), row(2, 0.2F), row(3, 0.3F)));
}

TEST(RecomputeOperator, GivesTheSameBitsForAnyNumberOfThreads) {
  constexpr int64_t kSize = 520;  // elements for four threads
  std::mt19937 random(3);
  std::vector<float> values(kSize * kSize);
  for (float& value : values) {
    value = static_cast<float>(random() % 2000) / 1000 - 1;
  }
  Floats a{{kSize, kSize}, values, {}};
  const std::string leaf = "[520, 520]";
  const std::string call =
      CallText(Leaf("torch.float32", leaf, 0) + "," + Leaf("torch.float32", leaf, 0),
               Leaf("torch.float32", leaf, 0));
  std::vector<std::vector<double>> results;
  for (const uint32_t threads : {0U, 1U, 2U, 7U}) {
    Doubles golden{{kSize, kSize}, std::vector<double>(values.size()), {}};
    ASSERT_EQ(Recompute("matmul", call, {Float32(a)}, {Float64(golden)}, threads), 1);
    results.push_back(golden.values);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[0], results[3]);
}

TEST(RecomputeOperator, SaysNothingWhereItIsNotCertain) {
  Floats x{{2}, {-1, 0.1F}, {}};
  Doubles golden{{2}, {0, 0}, {}};
  const std::string leaf = Leaf("torch.float32", "[2]", 0);
  const auto of = [&](std::string_view name, const std::string& inputs) {
    return Recompute(name, CallText(inputs, leaf), {Float32(x)}, {Float64(golden)});
  };
  EXPECT_EQ(of("abs", leaf), 1);
  EXPECT_EQ(of("no_such_operator", leaf), 0);
  EXPECT_EQ(of("log", leaf), 0) << "the logarithm of -1 is NaN";
  EXPECT_EQ(of("add", leaf), 0) << "an argument is missing";
  EXPECT_EQ(of("sum", leaf), 0) << "the output has another shape";
  // 0.1 is no number of float32: whether 0.1F is below depends on who rounds.
  HostTensor<uint8_t> flags{{2}, {0, 0}, {}};
  const std::string below =
      CallText(leaf + R"(, {"type": "float", "value": 0.1})", Leaf("torch.bool", "[2]", 1));
  EXPECT_EQ(Recompute("lt", below, {Float32(x), flags.Described("torch.bool", MSPROBE_BOOL)},
                      {flags.Described("torch.bool", MSPROBE_BOOL)}),
            0);
}

TEST(RecomputeOperator, WritesIntegersAndBoolsAndRefusesWhatTheyDoNotHold) {
  HostTensor<int8_t> a{{2}, {100, -3}, {}};
  HostTensor<int8_t> sum{{2}, {0, 0}, {}};
  const auto int8 = [](HostTensor<int8_t>& tensor) {
    return tensor.Described("torch.int8", MSPROBE_INT8);
  };
  const std::string leaf = Leaf("torch.int8", "[2]", 0);
  EXPECT_EQ(Recompute("neg", CallText(leaf, leaf), {int8(a)}, {int8(sum)}), 1);
  EXPECT_THAT(sum.values, ElementsAre(-100, 3));
  EXPECT_EQ(Recompute("add", CallText(leaf + "," + leaf, leaf), {int8(a)}, {int8(sum)}), 0);
  HostTensor<uint8_t> flags{{2}, {7, 7}, {}};
  const msprobe_tensor described = flags.Described("torch.bool", MSPROBE_BOOL);
  const std::string call =
      CallText(leaf + R"(, {"type": "int", "value": 0})", Leaf("torch.bool", "[2]", 1));
  EXPECT_EQ(Recompute("gt", call, {int8(a), described}, {described}), 1);
  EXPECT_THAT(flags.values, ElementsAre(1, 0));
}

TEST(RecomputeOperator, WrongUseIsAnErrorThatSaysWhy) {
  Floats x{{2}, {1, 2}, {}};
  Doubles golden{{2}, {0, 0}, {}};
  Doubles other{{3}, {0, 0, 0}, {}};
  const std::string call =
      CallText(Leaf("torch.float32", "[2]", 0), Leaf("torch.float32", "[2]", 0));
  EXPECT_EQ(Recompute("abs", "{", {Float32(x)}, {Float64(golden)}), -1);
  EXPECT_EQ(Recompute("abs", call, {Float32(x)}, {}), -1);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("another number of outputs"));
  EXPECT_EQ(Recompute("abs", call, {Float32(x)}, {Float64(other)}), -1);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("not a plain tensor of its shape"));
  EXPECT_EQ(msprobe_recompute_operator(Text("abs"), Text(call), nullptr, 1, nullptr, 0, 1, nullptr),
            MSPROBE_ERROR_USAGE);
  // A place beyond the tensors: the call cannot be read.
  EXPECT_EQ(Recompute("abs", call, {}, {Float64(golden)}), 0);
}

}  // namespace
}  // namespace msprobe::capture
