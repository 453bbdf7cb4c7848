#include "src/analysis/repro/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/repro/captured.h"

namespace msprobe::analysis::repro {
namespace {

using test_support::CallOf;
using ::testing::HasSubstr;

TEST(ReproScript, CallsTheFunctionWithItsArguments) {
  const Result<std::string> script =
      MakeScript(CallOf(MSPROBE_TEST_DATA, "Functional.layer_norm.0.backward"));
  ASSERT_TRUE(script.ok()) << script.status().message();
  EXPECT_THAT(*script, HasSubstr("return torch.nn.functional.layer_norm(*args, **kwargs)"));
  EXPECT_THAT(*script, HasSubstr("must_compute(torch.nn.functional.layer_norm)"));
  EXPECT_THAT(*script, HasSubstr("FORWARD = \"Functional.layer_norm.0.forward\"\n"
                                 "BACKWARD = \"Functional.layer_norm.0.backward\"\n"));
  EXPECT_THAT(*script,
              HasSubstr("load(\"Functional.layer_norm.0.forward.input.0.pt\", True, device),\n"
                        "        [8],\n"));
}

TEST(ReproScript, NamesNoFunctionThatIsNoOperator) {
  CapturedCall call = CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward");
  call.entries["Torch.load.0.forward"] = call.forward();
  call.name = "Torch.load.0.forward";
  EXPECT_THAT(MakeScript(call).status().message(), HasSubstr("none of PyTorch's operators"));
}

// What comes first in a name is what would be called, what comes last what is known.
TEST(ReproScript, OfRanksNamesNoFunctionThatIsNoCommunication) {
  CapturedCall call = CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward");
  call.name = "Distributed.all_reduce.0.forward";
  EXPECT_TRUE(MakeScriptOfRanks({{0, call}}).ok());
  call.name = "Distributed.destroy_process_group.all_reduce.0.forward";
  EXPECT_THAT(MakeScriptOfRanks({{0, call}}).status().message(),
              HasSubstr("none of the communications"));
}

TEST(ReproScript, MakesAModuleOfItsClass) {
  CapturedCall call = CallOf(MSPROBE_TEST_DATA, "Functional.gelu.0.forward");
  call.name = "Module.act.GELU.forward.0";
  call.entries[call.name] = call.entries["Functional.gelu.0.forward"];
  const Result<std::string> script = MakeScript(call);
  ASSERT_TRUE(script.ok()) << script.status().message();
  EXPECT_THAT(*script, HasSubstr("GELU"));
}

// A name that ends as those of modules do may hold anything between.
TEST(ReproScript, NoPartOfANameBecomesCode) {
  EXPECT_THAT(FunctionOf("Functional.gelu.\"\"\"\nexec('1')#.forward.0").status().message(),
              HasSubstr("is not named as an API is"));
  EXPECT_TRUE(FunctionOf("Functional.gelu.0.forward").ok());
}

}  // namespace
}  // namespace msprobe::analysis::repro
