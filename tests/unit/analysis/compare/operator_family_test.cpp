#include <string>

#include <gtest/gtest.h>

#include "src/analysis/compare/error_bound.h"

namespace msprobe::analysis::compare {
namespace {

OperatorFamily Family(const std::string& name) { return FamilyOf(dump::ParseEntryName(name)); }

TEST(FamilyOf, FunctionsAndModulesOfOneOperatorAreOfOneFamily) {
  EXPECT_EQ(Family("Functional.linear.0.forward"), OperatorFamily::kContraction);
  EXPECT_EQ(Family("Module.blocks.0.fc1.Linear.forward.0"), OperatorFamily::kContraction);
  EXPECT_EQ(Family("Cell.network.fc.Dense.forward.0"), OperatorFamily::kContraction);
  EXPECT_EQ(Family("Functional.layer_norm.3.backward"), OperatorFamily::kNormalisation);
  EXPECT_EQ(Family("Module.ln.LayerNorm.backward.0"), OperatorFamily::kNormalisation);
}

TEST(FamilyOf, SpellingsOfPythonAndOfDevicesDoNotMatter) {
  EXPECT_EQ(Family("Tensor.__matmul__.0.forward"), OperatorFamily::kContraction);
  EXPECT_EQ(Family("Tensor.add_.0.forward"), OperatorFamily::kSmooth);
  EXPECT_EQ(Family("NPU.npu_rms_norm.0.forward"), OperatorFamily::kNormalisation);
  EXPECT_EQ(Family("NPU.npu_swiglu.0.forward"), OperatorFamily::kProduct);
}

TEST(FamilyOf, TopkArgmaxAndComparisonsJump) {
  for (const char* name : {"topk", "argmax", "sort", "round", "multinomial", "__gt__", "__eq__"}) {
    EXPECT_EQ(Family("Tensor." + std::string(name) + ".0.forward"), OperatorFamily::kDiscrete)
        << name;
  }
}

TEST(FamilyOf, TheDerivativesOfReluAndMaxPoolingJump) {
  for (const char* name : {"relu", "leaky_relu", "max_pool2d", "clamp", "l1_loss"}) {
    EXPECT_EQ(Family("Functional." + std::string(name) + ".0.backward"), OperatorFamily::kThreshold)
        << name;
  }
}

TEST(FamilyOf, ViewsAndCastsMoveValuesOnly) {
  for (const char* name : {"view", "transpose", "cat", "__getitem__", "to", "float", "bfloat16"}) {
    EXPECT_EQ(Family("Tensor." + std::string(name) + ".0.forward"), OperatorFamily::kExact) << name;
  }
}

TEST(FamilyOf, WhatIsNotKnownByNameMayHoldOtherCalls) {
  EXPECT_EQ(Family("Functional.scaled_dot_product_attention.0.forward"),
            OperatorFamily::kComposite);
  EXPECT_EQ(Family("Module.blocks.0.Block.forward.0"), OperatorFamily::kComposite);
  EXPECT_EQ(Family("Functional.linearly.0.forward"), OperatorFamily::kComposite)
      << "names are compared as a whole";
  EXPECT_EQ(Family(""), OperatorFamily::kComposite);
}

}  // namespace
}  // namespace msprobe::analysis::compare
