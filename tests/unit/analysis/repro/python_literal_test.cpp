#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/repro/script.h"

namespace msprobe::analysis::repro {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Of(const Json& value, bool with_gradients = false) {
  const Result<std::string> text = PythonArgument(value, with_gradients);
  return text.ok() ? *text : "refused: " + text.status().message();
}

TEST(PythonLiteral, SpellsPlainValues) {
  EXPECT_EQ(Of(Json()), "None");
  EXPECT_EQ(Of(true), "True");
  EXPECT_EQ(Of(-3), "-3");
  EXPECT_EQ(Of(1.0), "1.0");
  EXPECT_EQ(Of(1e-5), "1e-05");
  EXPECT_EQ(Of(-std::numeric_limits<double>::infinity()), "float(\"-inf\")");
  EXPECT_EQ(Of({{"type", "int"}, {"value", 8}}), "8");
  EXPECT_EQ(Of(Json::array({1, "a", nullptr})), "[1, \"a\", None]");
  EXPECT_EQ(Of({{"key", 1}}), "{\"key\": 1}");
}

TEST(PythonLiteral, SpellsWhatPyTorchHas) {
  EXPECT_EQ(Of({{"type", "torch.dtype"}, {"value", "torch.bfloat16"}}), "torch.bfloat16");
  EXPECT_EQ(Of({{"type", "torch.device"}, {"value", "npu:0"}}), "device");
  EXPECT_EQ(Of({{"type", "torch.Size"}, {"value", {2, 3}}}), "torch.Size([2, 3])");
  EXPECT_EQ(Of({{"type", "slice"}, {"value", {1, nullptr, 2}}}), "slice(1, None, 2)");
  EXPECT_EQ(Of({{"type", "ellipsis"}}), "Ellipsis");
}

TEST(PythonLiteral, LoadsTensorsWithTheirGradients) {
  const Json tensor = {{"type", "torch.Tensor"},
                       {"dtype", "torch.float32"},
                       {"shape", {2}},
                       {"requires_grad", true},
                       {"data_name", "a.pt"}};
  EXPECT_EQ(Of(tensor), "load(\"a.pt\", False, device)");
  EXPECT_EQ(Of(tensor, true), "load(\"a.pt\", True, device)");
  Json integers = tensor;
  integers["dtype"] = "torch.int64";
  EXPECT_EQ(Of(integers, true), "load(\"a.pt\", False, device)");
  Json unsaved = tensor;
  unsaved["data_name"] = "-1";
  EXPECT_THAT(Of(unsaved), HasSubstr("refused: the values of an input were not saved"));
}

// Whatever a dump holds, it ends between quotes or is refused.
TEST(PythonLiteral, LetsNothingOut) {
  EXPECT_EQ(Of("\"); import os #"), "\"\\\"); import os #\"");
  EXPECT_THAT(Of("line\nbreak"), Not(HasSubstr("\n")));
  EXPECT_THAT(Of("\xE4\xBD\xA0"), HasSubstr("bytes.fromhex(\"e4bda0\")"));
  EXPECT_THAT(Of({{"type", "torch.dtype"}, {"value", "torch.load('x')"}}), HasSubstr("refused"));
  EXPECT_THAT(Of({{"type", "object"}, {"value", "x"}}), HasSubstr("refused"));
  for (const char* function : {"torch.save", "torch.load", "torch.matmul", "torch.channels_last"}) {
    for (const char* type : {"torch.dtype", "torch.layout", "torch.Tensor", "torch.nn"}) {
      const Json record = {{"type", type}, {"value", function}};
      EXPECT_THAT(Of(record), HasSubstr("refused")) << type;
      EXPECT_THAT(Of(Json::array({1, Json::array({record})})), HasSubstr("refused")) << type;
      EXPECT_THAT(Of({{"key", record}}), HasSubstr("refused")) << type;
    }
  }
  EXPECT_THAT(Of({{"type", "torch.memory_format"}, {"format", "save"}}), HasSubstr("refused"));
  EXPECT_THAT(Of({{"type", "numpy.loadtxt"}, {"value", "http://127.0.0.1/"}}),
              HasSubstr("refused"));
}

TEST(PythonLiteral, SpellsConstantsOfTheLists) {
  EXPECT_EQ(Of({{"type", "torch.memory_format"}, {"format", "channels_last"}}),
            "torch.channels_last");
  EXPECT_EQ(Of({{"type", "torch.layout"}, {"value", "torch.strided"}}), "torch.strided");
  EXPECT_EQ(Of({{"type", "numpy.float32"}, {"value", 1.5}}), "1.5");
}

}  // namespace
}  // namespace msprobe::analysis::repro
