#include "src/capture/filters.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/dump/dump_file.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"

namespace msprobe::capture {
namespace {

using ::testing::HasSubstr;

Filters Make(const Settings& settings) {
  Result<Filters> filters = Filters::Create(settings);
  EXPECT_TRUE(filters.ok()) << filters.status().message();
  return *std::move(filters);
}

std::string ErrorOf(const Settings& settings) {
  const Result<Filters> filters = Filters::Create(settings);
  return filters.ok() ? "no error" : filters.status().message();
}

Settings AtLevel(Level level) {
  Settings settings;
  settings.level = level;
  return settings;
}

// A call without anything inside it; "i", "o" and "s" for what is wanted at its two ends.
std::string Call(Filters& filters, std::string_view name) {
  const auto letters = [](const Wanted& wanted) {
    return std::string(wanted.input ? "i" : "") + (wanted.output ? "o" : "") +
           (wanted.stack ? "s" : "");
  };
  const std::string before = letters(filters.Enter(name));
  return before + "/" + letters(filters.Leave(name));
}

// ---- captured runs, played again ----

// The order of events of a capture follows from dump.json, where modules stand when they end and
// APIs when they run, and from the parents in construct.json.
class Replay {
 public:
  Replay(const std::string& capture, const Settings& settings) : filters_(Make(settings)) {
    const std::filesystem::path folder =
        std::filesystem::path(MSPROBE_TEST_DATA) / "dump" / capture / "dump" / "step0" / "rank";
    Result<dump::ConstructFile> construct = dump::ConstructFile::Read(folder / "construct.json");
    EXPECT_TRUE(construct.ok()) << construct.status().message();
    construct_ = *std::move(construct);
    const Result<dump::DumpHeader> header =
        dump::ReadDumpFile(folder / "dump.json", {}, [&](std::string_view name, const auto&) {
          Play(std::string(name));
          return OkStatus();
        });
    EXPECT_TRUE(header.ok()) << header.status().message();
  }

  std::vector<std::string> Rows() const {
    std::vector<std::string> rows;
    for (const std::string& name : order_) {
      std::string row = name + " ";
      for (const std::string& half : halves_.at(name)) {
        row += (row.back() == ' ' ? "" : ",") + half;
      }
      if (!filters_.SavesTensors(name)) {
        rows.push_back(row);
      } else {
        rows.push_back(row + " saved");
      }
    }
    return rows;
  }

 private:
  void Note(const std::string& name, const std::string& half) {
    if (halves_[name].empty()) {
      order_.push_back(name);
    }
    halves_[name].insert(half);
  }

  void NoteHalves(const std::string& name, bool input, bool output) {
    if (input) {
      Note(name, "input");
    }
    if (output) {
      Note(name, "output");
    }
  }

  void EnterParents(const std::string& name) {
    std::vector<std::string> parents;
    for (std::string parent(construct_.ParentOf(name));
         parent.starts_with("Module.") && !open_.contains(parent);
         parent = construct_.ParentOf(parent)) {
      parents.push_back(parent);
    }
    std::for_each(parents.rbegin(), parents.rend(), [&](const std::string& parent) {
      open_.insert(parent);
      filters_.Enter(parent);
    });
  }

  void Play(const std::string& name) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (construct_.ParentOf(name) == "optimizer") {
      return;  // the filtered captures stopped before
    }
    if (parsed.is_parameters_grad) {
      const std::string module = name.substr(0, name.rfind('.'));
      with_gradients_.insert(module);
      if (filters_.WantsParametersGrad(module)) {
        Note(name, "grad");
      }
      return;
    }
    EnterParents(name);
    if (!open_.contains(name)) {
      const Wanted before = filters_.Enter(name);
      if (!parsed.is_module && parsed.direction == dump::Direction::kForward) {
        NoteHalves(name, before.input, false);
        NoteHalves(name, false, filters_.Leave(name).output);
        return;
      }
    }
    const Wanted wanted = filters_.Leave(name);
    NoteHalves(name, wanted.input, wanted.output);
    if (const size_t backward = name.rfind(".backward."); backward != std::string::npos) {
      const std::string module = name.substr(0, backward);
      if (with_gradients_.contains(module) && filters_.WantsParametersGrad(module)) {
        Note(module + ".parameters_grad", "grad");
      }
    }
  }

  Filters filters_;
  dump::ConstructFile construct_;
  std::set<std::string> open_;
  std::set<std::string> with_gradients_;
  std::vector<std::string> order_;
  std::map<std::string, std::set<std::string>> halves_;
};

std::vector<std::string> Recorded(const std::string& file) {
  std::ifstream stream(std::filesystem::path(MSPROBE_TEST_DATA) / "capture" / file);
  EXPECT_TRUE(stream.good()) << file;
  std::vector<std::string> rows;
  for (std::string row; std::getline(stream, row);) {
    rows.push_back(row);
  }
  return rows;
}

// Older captures lack the output of the call that ends a scope.
std::vector<std::string> WithOutputOf(std::vector<std::string> rows, const std::string& end) {
  std::replace(rows.begin(), rows.end(), end + " input", end + " input,output");
  return rows;
}

TEST(Filters, ListSelectsByTextInTheName) {
  Settings settings = AtLevel(Level::kL1);
  settings.list = {"linear", "Tensor.view"};
  settings.tensor_list = {"Functional.linear.1"};
  EXPECT_EQ(Replay("gpt_statistics_L1", settings).Rows(), Recorded("list_L1.recorded"));
}

TEST(Filters, ListOpensWindowsOfModulesAtLevelMix) {
  Settings settings = AtLevel(Level::kMix);
  settings.list = {"blocks.0.attn.Attention"};
  EXPECT_EQ(Replay("gpt_statistics_mix", settings).Rows(), Recorded("list_mix.recorded"));
}

TEST(Filters, ScopeOfApisHoldsBothItsEndsWhole) {
  Settings settings = AtLevel(Level::kL1);
  settings.scope = {"Functional.layer_norm.0.forward", "Functional.gelu.0.forward"};
  EXPECT_EQ(Replay("gpt_statistics_L1", settings).Rows(),
            WithOutputOf(Recorded("scope_L1.recorded"), settings.scope[1]));
}

TEST(Filters, ScopeOfModulesHoldsWhatEndsInIt) {
  Settings settings = AtLevel(Level::kL0);
  settings.scope = {"Module.blocks.0.mlp.MLP.forward.0",
                    "Module.blocks.1.attn.Attention.forward.0"};
  EXPECT_EQ(Replay("gpt_statistics_L0", settings).Rows(), Recorded("scope_L0.recorded"));
}

TEST(Filters, ScopeMayBeginWithAModuleAndEndWithAnApi) {
  Settings settings = AtLevel(Level::kMix);
  settings.scope = {"Module.blocks.0.mlp.MLP.forward.0", "Functional.softmax.1.forward"};
  EXPECT_EQ(Replay("gpt_statistics_mix", settings).Rows(),
            WithOutputOf(Recorded("scope_mix.recorded"), settings.scope[1]));
}

TEST(Filters, DataModeKeepsTheHalvesItNames) {
  Settings settings = AtLevel(Level::kMix);
  settings.data_mode = {true, false, true, false};
  EXPECT_EQ(Replay("gpt_statistics_mix", settings).Rows(),
            Recorded("datamode_forward_input.recorded"));
}

TEST(Filters, NothingIsLeftOutWithoutFilters) {
  Filters filters = Make(AtLevel(Level::kL1));
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Torch.add.0.backward"), "io/io");
  EXPECT_TRUE(filters.WantsParametersGrad("Module.fc.Linear"));
  EXPECT_FALSE(filters.SavesTensors("Torch.add.0.forward"));
}

// ---- list ----

TEST(Filters, PlainListElementsMatchAnywhereAndTellCasesApart) {
  Settings settings = AtLevel(Level::kL1);
  settings.list = {"linear.1", "relu"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Functional.linear.1.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Functional.linear.10.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Functional.leaky_relu.0.backward"), "io/io");
  EXPECT_EQ(Call(filters, "Functional.Linear.1.forward"), "/");
}

TEST(Filters, ExactElementsEndAtADot) {
  Settings settings = AtLevel(Level::kMix);
  settings.list = {"name-exact(Functional.linear.1)", "name-exact(Torch.add.0.forward)"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Functional.linear.1.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Functional.linear.1.backward"), "io/io");
  EXPECT_EQ(Call(filters, "Functional.linear.10.forward"), "/");
  EXPECT_EQ(Call(filters, "NPUFunctional.linear.1.forward"), "/");
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Torch.add.0.backward"), "/");
}

TEST(Filters, ExpressionsAreSearchedInTheName) {
  Settings settings = AtLevel(Level::kL1);
  settings.list = {R"(name-regex(^Functional\.linear\.(1|\d\d)\.))", "name-regex((?i)SOFTMAX)"};
  settings.tensor_list = {R"(name-regex(backward$))"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Functional.linear.1.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Functional.linear.11.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Functional.linear.2.forward"), "/");
  EXPECT_EQ(Call(filters, "Functional.log_softmax.0.backward"), "io/io");
  EXPECT_TRUE(filters.SavesTensors("Functional.log_softmax.0.backward"));
  EXPECT_FALSE(filters.SavesTensors("Functional.log_softmax.0.forward"));
}

TEST(Filters, BrokenExpressionsAreNamed) {
  Settings settings = AtLevel(Level::kL1);
  settings.list = {"name-regex(linear[)"};
  EXPECT_THAT(ErrorOf(settings), HasSubstr("key \"list\": the expression \"linear[\" is broken"));
  settings.list = {"name-regex(linear"};
  EXPECT_THAT(ErrorOf(settings), HasSubstr("lacks its closing bracket"));
  settings.list = {"name-exact(linear"};
  EXPECT_THAT(ErrorOf(settings), HasSubstr("lacks its closing bracket"));
  settings.list = {};
  settings.tensor_list = {"name-regex(" + std::string(3000, 'a') + ")"};
  EXPECT_THAT(ErrorOf(settings), HasSubstr("key \"tensor_list\": an expression of 3000 bytes"));
  // Grows beyond all measure when compiled.
  settings.tensor_list = {"name-regex((((a{200}){200}){200}){200})"};
  EXPECT_THAT(ErrorOf(settings), HasSubstr("is broken"));
}

TEST(Filters, RunawayExpressionsAreGivenUp) {
  Settings settings = AtLevel(Level::kL1);
  settings.list = {"name-regex((a+)+$)"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Functional.a"), "ios/ios");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Call(filters, "Functional." + std::string(60, 'a') + ".0.forward"), "/");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("takes too long"));
  EXPECT_EQ(Call(filters, "Functional.a"), "/");
}

TEST(Filters, WindowsOfSeveralModulesCloseWithTheLast) {
  Settings settings = AtLevel(Level::kMix);
  settings.list = {"Attention", "name-exact(Module.a.mlp)"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "/");
  filters.Enter("Module.a.Attention.forward.0");
  filters.Enter("Module.a.b.Attention.forward.0");
  filters.Leave("Module.a.b.Attention.forward.0");
  EXPECT_EQ(Call(filters, "Torch.add.1.forward"), "ios/ios");
  filters.Leave("Module.a.Attention.forward.0");
  EXPECT_EQ(Call(filters, "Torch.add.2.forward"), "/");
}

TEST(Filters, ModulesOpenNoWindowsAtLevelL0) {
  Settings settings = AtLevel(Level::kL0);
  settings.list = {"Attention"};
  Filters filters = Make(settings);
  filters.Enter("Module.a.Attention.forward.0");
  EXPECT_EQ(Call(filters, "Module.a.fc.Linear.forward.0"), "/");
}

TEST(Filters, AModuleThatRaisedIsForgottenWithItsStep) {
  Settings settings = AtLevel(Level::kMix);
  settings.list = {"Attention"};
  Filters filters = Make(settings);
  filters.Enter("Module.a.Attention.forward.0");
  filters.NextStep();
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "/");
}

// ---- scope ----

TEST(Filters, ScopeStaysOpenUntilItsEndAcrossSteps) {
  Settings settings = AtLevel(Level::kL1);
  settings.scope = {"Torch.add.1.forward", "Torch.add.1.backward"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "/");
  EXPECT_EQ(Call(filters, "Torch.add.1.forward"), "ios/ios");
  filters.NextStep();
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Torch.add.1.backward"), "io/io");
  EXPECT_EQ(Call(filters, "Torch.add.0.backward"), "/");
  EXPECT_EQ(Call(filters, "Torch.add.1.forward"), "ios/ios");
}

TEST(Filters, ScopeOfOneCallHoldsThatCall) {
  Settings settings = AtLevel(Level::kL1);
  settings.scope = {"Torch.add.1.forward", "Torch.add.1.forward"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Torch.add.1.forward"), "ios/ios");
  EXPECT_EQ(Call(filters, "Torch.add.2.forward"), "/");
}

TEST(Filters, ScopeAndListAreBothNeeded) {
  Settings settings = AtLevel(Level::kL1);
  settings.scope = {"Torch.add.1.forward", "Torch.add.3.forward"};
  settings.list = {"mul"};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Torch.mul.0.forward"), "/");
  EXPECT_EQ(Call(filters, "Torch.add.1.forward"), "/");
  EXPECT_EQ(Call(filters, "Torch.mul.1.forward"), "ios/ios");
}

TEST(Filters, ScopeAcceptsEveryPrefixOfApis) {
  for (const char* prefix :
       {"Distributed", "Functional", "Torch", "Tensor", "Mint", "MintFunctional", "MintDistributed",
        "Primitive", "Aten", "VF", "NPU", "Jit", "MindSpeed", "my_operators"}) {
    Settings settings = AtLevel(Level::kL1);
    settings.scope = {std::string(prefix) + ".call.0.forward",
                      std::string(prefix) + ".call.12.backward"};
    EXPECT_EQ(ErrorOf(settings), "no error") << prefix;
    settings.level = Level::kMix;
    EXPECT_EQ(ErrorOf(settings), "no error") << prefix;
    settings.level = Level::kL0;
    EXPECT_THAT(ErrorOf(settings), HasSubstr("names no call of level L0")) << prefix;
  }
}

TEST(Filters, ScopeAcceptsModulesWhereTheyAreCaptured) {
  for (const char* name : {"Module.fc.Linear.forward.0", "Cell.fc.Dense.backward.3"}) {
    Settings settings = AtLevel(Level::kL0);
    settings.scope = {name, name};
    EXPECT_EQ(ErrorOf(settings), "no error") << name;
    settings.level = Level::kMix;
    EXPECT_EQ(ErrorOf(settings), "no error") << name;
    settings.level = Level::kL1;
    EXPECT_THAT(ErrorOf(settings), HasSubstr("names no call of level L1; allowed: full names like "
                                             "Functional.linear.0.forward"))
        << name;
  }
}

TEST(Filters, ScopeRefusesNamesThatNameNoCall) {
  for (const char* name :
       {"", "linear", "Functional.linear", "Functional.linear.forward",
        "Functional.linear.x.forward", "Functional.linear.0.sideward", "Module.fc.Linear.forward",
        "Module.fc.Linear.parameters_grad", "loss.0.debug", "0.forward", "Module.forward.0"}) {
    Settings settings = AtLevel(Level::kMix);
    settings.scope = {"Functional.linear.0.forward", name};
    EXPECT_THAT(ErrorOf(settings), HasSubstr("names no call of level mix")) << name;
  }
}

// ---- data_mode, stacks, gradients of parameters ----

TEST(Filters, StacksAreOfForwardCallsAndNotCutByDataMode) {
  Settings settings = AtLevel(Level::kL1);
  settings.data_mode = {false, true, true, true};
  Filters filters = Make(settings);
  EXPECT_EQ(Call(filters, "Torch.add.0.forward"), "s/s");
  EXPECT_EQ(Call(filters, "Torch.add.0.backward"), "io/io");
  settings.extra_info = false;
  Filters without = Make(settings);
  EXPECT_EQ(Call(without, "Torch.add.0.forward"), "/");
}

TEST(Filters, ParameterGradientsFollowTheListOrTheirBackward) {
  Settings settings = AtLevel(Level::kL0);
  settings.list = {"head", "fc.Linear.backward"};
  Filters filters = Make(settings);
  EXPECT_TRUE(filters.WantsParametersGrad("Module.head.Linear"));
  EXPECT_FALSE(filters.WantsParametersGrad("Module.fc.Linear"));
  Call(filters, "Module.fc.Linear.backward.0");
  EXPECT_TRUE(filters.WantsParametersGrad("Module.fc.Linear"));
  filters.NextStep();
  EXPECT_FALSE(filters.WantsParametersGrad("Module.fc.Linear"));
}

TEST(Filters, ParameterGradientsNeedTheBackwardAxisAndValues) {
  Settings settings = AtLevel(Level::kL0);
  settings.data_mode = {true, false, true, true};
  EXPECT_FALSE(Make(settings).WantsParametersGrad("Module.fc.Linear"));
  settings.data_mode = {};
  settings.task = Task::kStructure;
  EXPECT_FALSE(Make(settings).WantsParametersGrad("Module.fc.Linear"));
}

TEST(Filters, TensorTasksSaveEveryRecordedName) {
  Settings settings = AtLevel(Level::kL1);
  settings.task = Task::kTensor;
  EXPECT_TRUE(Make(settings).SavesTensors("Torch.add.0.forward"));
  settings.task = Task::kOverflowCheck;
  EXPECT_TRUE(Make(settings).SavesTensors("Torch.add.0.forward"));
  settings.task = Task::kStructure;
  EXPECT_FALSE(Make(settings).SavesTensors("Torch.add.0.forward"));
}

}  // namespace
}  // namespace msprobe::capture
