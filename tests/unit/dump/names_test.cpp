#include "src/dump/names.h"

#include <gtest/gtest.h>

namespace msprobe::dump {
namespace {

TEST(ParseEntryName, TakesAnApiNameApart) {
  const EntryName name = ParseEntryName("Functional.conv2d.12.forward");
  EXPECT_EQ(name.kind, "Functional");
  EXPECT_EQ(name.subject, "conv2d");
  EXPECT_EQ(name.call, 12);
  EXPECT_EQ(name.direction, Direction::kForward);
  EXPECT_FALSE(name.is_module);
  EXPECT_TRUE(name.class_name.empty());
}

TEST(ParseEntryName, TakesAModuleNameApart) {
  const EntryName name = ParseEntryName("Module.blocks.0.mlp.fc1.Linear.backward.3");
  EXPECT_EQ(name.kind, "Module");
  EXPECT_EQ(name.subject, "blocks.0.mlp.fc1");
  EXPECT_EQ(name.class_name, "Linear");
  EXPECT_EQ(name.call, 3);
  EXPECT_EQ(name.direction, Direction::kBackward);
  EXPECT_TRUE(name.is_module);
}

TEST(ParseEntryName, KnowsCellsAndPrimitivesOfMindSpore) {
  const EntryName cell = ParseEntryName("Cell.fc.Dense.forward.0");
  EXPECT_TRUE(cell.is_module);
  EXPECT_EQ(cell.class_name, "Dense");
  const EntryName primitive = ParseEntryName("Primitive.matmul.MatMul.1.forward");
  EXPECT_FALSE(primitive.is_module);
  EXPECT_EQ(primitive.subject, "matmul.MatMul");
  EXPECT_EQ(primitive.call, 1);
}

TEST(ParseEntryName, TakesParameterGradientsToBelongToTheirModule) {
  const EntryName name = ParseEntryName("Module.net.fc.Linear.parameters_grad");
  EXPECT_TRUE(name.is_parameters_grad);
  EXPECT_TRUE(name.is_module);
  EXPECT_EQ(name.subject, "net.fc");
  EXPECT_EQ(name.class_name, "Linear");
  EXPECT_EQ(name.call, std::nullopt);
  EXPECT_EQ(name.direction, Direction::kNone);
}

TEST(ParseEntryName, TakesADebugNameApart) {
  const EntryName name = ParseEntryName("block0_grad.2.debug");
  EXPECT_TRUE(name.is_debug);
  EXPECT_EQ(name.subject, "block0_grad.2");
  EXPECT_EQ(name.call, 2);
}

TEST(ParseEntryName, IsNotMisledByAModuleAttributeCalledForward) {
  const EntryName name = ParseEntryName("Module.forward.net.Linear.forward.0");
  EXPECT_EQ(name.subject, "forward.net");
  EXPECT_EQ(name.class_name, "Linear");
}

TEST(ParseEntryName, SurvivesNamesOfNoKnownForm) {
  for (std::string_view odd :
       {"", ".", "..", "forward", "debug", "parameters_grad", "forward.0", ".forward", "Module",
        "Module.", "Module.forward.0", "a.forward", "0.forward", "x.99999999999999999999.forward",
        ".debug", "Module.parameters_grad"}) {
    const EntryName name = ParseEntryName(odd);
    EXPECT_LE(name.subject.size(), odd.size()) << odd;
  }
  EXPECT_EQ(ParseEntryName("x.99999999999999999999.forward").call, std::nullopt);
  EXPECT_EQ(ParseEntryName("optimizer").kind, "optimizer");
}

struct RowCase {
  std::string_view name;
  RowState state;
  std::string_view api_name;
};

TEST(ParseRowName, KnowsStateAndCallOfEveryForm) {
  const RowCase cases[] = {
      {"Functional.conv2d.0.forward.input.0", RowState::kInput, "Functional.conv2d.0.forward."},
      {"Functional.conv2d.0.forward.input.3.0", RowState::kInput, "Functional.conv2d.0.forward."},
      {"Torch.add.1.forward.kwargs.other", RowState::kKwargs, "Torch.add.1.forward."},
      {"Functional.linear.0.backward.output.1", RowState::kOutput, "Functional.linear.0.backward."},
      {"Module.fc.Linear.forward.0.parameters.weight", RowState::kParameters,
       "Module.fc.Linear.forward.0."},
      {"Module.fc.Linear.forward.12.output.0", RowState::kOutput, "Module.fc.Linear.forward.12."},
      {"Module.fc.Linear.parameters_grad.weight", RowState::kParametersGrad, "Module.fc.Linear."},
      {"loss.0.debug", RowState::kDebug, "loss.0."},
      {"block0.0.debug.meta.list.0", RowState::kDebug, "block0.0."},
      {"x.forward.input.a.forward", RowState::kInput, "x.forward."},
      {"x.forward.input.a\n", RowState::kInput, "x.forward."},
  };
  for (const RowCase& expected : cases) {
    const auto row = ParseRowName(expected.name);
    ASSERT_TRUE(row.has_value()) << expected.name;
    EXPECT_EQ(row->state, expected.state) << expected.name;
    EXPECT_EQ(row->api_name, expected.api_name) << expected.name;
  }
}

TEST(ParseRowName, CutsDebugAndGradientNamesAtTheFirstOccurrenceOfTheWord) {
  EXPECT_EQ(ParseRowName("mydebug.0.debug.x")->api_name, "my");
  EXPECT_EQ(ParseRowName("Module.parameters_grads.A.parameters_grad.w")->api_name, "Module.");
}

TEST(ParseRowName, RefusesNamesWithoutOrWithSeveralDirections) {
  EXPECT_FALSE(ParseRowName("Functional.conv2d.0.input.0").has_value());
  EXPECT_FALSE(ParseRowName("Module.forward.A.forward.0.input.0").has_value());
  EXPECT_FALSE(ParseRowName("Module.a.forward.0.backward.0.input.0").has_value());
  EXPECT_FALSE(ParseRowName("forward.0.input.0").has_value());
  EXPECT_FALSE(ParseRowName("").has_value());
}

TEST(ParseRowName, RefusesWhatIsNoPartOfACall) {
  EXPECT_FALSE(ParseRowName("x.forward.0.result.0").has_value());
  EXPECT_FALSE(ParseRowName("x.forward.0.input").has_value());
  EXPECT_FALSE(ParseRowName("x.forward.0.input.").has_value());
  EXPECT_FALSE(ParseRowName("x.forward.0.0.input.1").has_value());
  EXPECT_FALSE(ParseRowName("x.forward.0.inputs.1").has_value());
  EXPECT_FALSE(ParseRowName("x.forward.input.a\nb").has_value());
  // The dot between the two words belongs to the first match, so there is one match and a wrong
  // third part.
  EXPECT_FALSE(ParseRowName("a.forward.backward.0.input.0").has_value());
}

TEST(WithDirection, TurnsForwardNamesIntoBackwardNamesAndBack) {
  EXPECT_EQ(WithDirection("Functional.linear.0.backward", Direction::kForward),
            "Functional.linear.0.forward");
  EXPECT_EQ(WithDirection("Module.forward.Linear.backward.1", Direction::kForward),
            "Module.forward.Linear.forward.1");
  EXPECT_EQ(WithDirection("Module.a.Linear.forward.1", Direction::kBackward),
            "Module.a.Linear.backward.1");
  EXPECT_EQ(WithDirection("Module.a.Linear.forward.1", Direction::kForward),
            "Module.a.Linear.forward.1");
}

TEST(WithDirection, LeavesNamesWithoutADirectionAlone) {
  EXPECT_EQ(WithDirection("Module.a.Linear.parameters_grad", Direction::kForward),
            "Module.a.Linear.parameters_grad");
  EXPECT_EQ(WithDirection("loss.0.debug", Direction::kBackward), "loss.0.debug");
  EXPECT_EQ(WithDirection("Functional.linear.0.backward", Direction::kNone),
            "Functional.linear.0.backward");
}

}  // namespace
}  // namespace msprobe::dump
