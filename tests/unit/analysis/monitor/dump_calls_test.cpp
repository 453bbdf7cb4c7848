#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/analysis/monitor/store/store.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::monitor {
namespace {

using test_support::TemporaryFolder;

TEST(DumpCalls, AnEntryBelongsToTheMicroStepOfItsRoot) {
  const TemporaryFolder scratch;
  DumpCalls calls = DumpCalls::Read(scratch.Write("construct.json", R"({
      "Module.m.M.forward.0": null, "Module.m.a.A.forward.0": "Module.m.M.forward.0",
      "Torch.add.0.forward": "Module.m.a.A.forward.0",
      "Module.m.M.forward.1": null, "Module.m.a.A.forward.1": ["Module.m.M.forward.1", 1],
      "Torch.add.1.forward": "Module.m.a.A.forward.1", "Torch.mul.0.forward": null})"));
  EXPECT_EQ(calls.micro_step_count(), 2);
  EXPECT_EQ(calls.MicroStepOf("Torch.add.0.forward"), 0);
  EXPECT_EQ(calls.MicroStepOf("Torch.add.1.forward"), 1);
  EXPECT_EQ(calls.MicroStepOf("Torch.mul.0.forward"), 1);
  EXPECT_EQ(calls.IndexInMicroStep("Torch.add", 1, 1), 0);
}

TEST(DumpCalls, ALongNameAboveManyIsLookedAtOnce) {
  const TemporaryFolder scratch;
  // 30,000 entries below a name of 1 MB in a circle, and a chain of 30,000: every way up would
  // take minutes.
  constexpr size_t kEntries = 30'000;
  const std::string name(1'000'000, 'm');
  std::string text = fmt::format(R"({{"{0}": "{0}", "c": "{0}")", name);
  for (size_t i = 0; i < kEntries; ++i) {
    text += fmt::format(R"(, "{}": "c")", i);
  }
  text += R"(, "Module.0.A.forward.0": null)";
  for (size_t i = 1; i < kEntries; ++i) {
    text += fmt::format(R"(, "Module.{}.A.forward.0": "Module.{}.A.forward.0")", i, i - 1);
  }
  DumpCalls calls = DumpCalls::Read(scratch.Write("construct.json", text + "}"));
  EXPECT_EQ(calls.micro_step_count(), 1);
  EXPECT_EQ(calls.MicroStepOf(fmt::format("Module.{}.A.forward.0", kEntries - 1)), 0);
  EXPECT_EQ(calls.MicroStepOf("17"), 0);
}

}  // namespace
}  // namespace msprobe::analysis::monitor
