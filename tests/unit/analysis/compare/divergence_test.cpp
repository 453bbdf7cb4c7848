#include "src/analysis/compare/divergence.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/compare_pair.h"
#include "src/base/strings.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path DataFolder() { return fs::path(MSPROBE_TEST_DATA) / "dump"; }

// The whole set of captured models, where it is at hand.
fs::path GoldenFolder() {
  const char* named = std::getenv("MSPROBE_GOLDEN");
  const fs::path root =
      named != nullptr ? fs::path(named) : fs::path(MSPROBE_TEST_DATA) / "../../../shared/golden";
  return root / "dump";
}

ComparedPair ComparePaths(const fs::path& npu, const fs::path& bench, Options options = {}) {
  options.quiet = true;
  base::ThreadPool pool(2);
  PairInput input;
  input.npu_json = npu;
  input.bench_json = bench;
  Result<ComparedPair> pair = ComparePair(options, input, pool);
  EXPECT_TRUE(pair.ok()) << pair.status().message();
  return pair.ok() ? *std::move(pair) : ComparedPair();
}

// What a pair of captured models must give. `json` is the path below <case>/dump.
struct Expected {
  const char* npu;
  const char* bench;
  const char* json;
  OriginKind kind;
  const char* call;
  const char* layer;  // empty: the dump holds no module names
};

constexpr const char* kSingle = "step0/rank/dump.json";
constexpr OriginKind kParameter = OriginKind::kParameter;

// The perturbed weight is blocks.0.mlp.fc1's. Where modules are not recorded its layer is the third
// linear call of the forward pass: qkv and proj of the attention come first. With modules but no
// API calls, the module itself takes the weight.
constexpr Expected kTwins[] = {
    {"cnn_tensor_mix_perturbed", "cnn_tensor_mix", kSingle, kParameter,
     "Functional.conv2d.0.forward", "conv1 (Conv2d)"},
    {"cnn_tensor_mix_perturbed", "cnn_tensor_mix", "step1/rank/dump.json", kParameter,
     "Functional.conv2d.0.forward", "conv1 (Conv2d)"},
    {"gpt_statistics_mix_perturbed", "gpt_statistics_mix", kSingle, kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_statistics_L0_perturbed", "gpt_statistics_L0", kSingle, kParameter,
     "Module.blocks.0.mlp.fc1.Linear.forward.0", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_statistics_L1_perturbed", "gpt_statistics_L1", kSingle, kParameter,
     "Functional.linear.2.forward", ""},
    {"gpt_md5_L1_perturbed", "gpt_md5_L1", kSingle, kParameter, "Functional.linear.2.forward", ""},
    {"gpt_tensor_L1_perturbed", "gpt_tensor_L1", kSingle, kParameter, "Functional.linear.2.forward",
     ""},
    {"gpt_tensor_L0_perturbed", "gpt_tensor_L0", kSingle, kParameter,
     "Module.blocks.0.mlp.fc1.Linear.forward.0", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_recompute_mix_perturbed", "gpt_recompute_mix", kSingle, kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    {"dist_statistics_mix_perturbed", "dist_statistics_mix", "step0/rank1/dump.json", kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    // Rank 0 was not perturbed: what differs there came from rank 1.
    {"dist_statistics_mix_perturbed", "dist_statistics_mix", "step0/rank0/dump.json",
     OriginKind::kInput, "Distributed.all_reduce.0.forward", ""},
    {"gpt_bf16_statistics_mix_perturbed", "gpt_bf16_statistics_mix", kSingle, kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_bf16_md5_L1_perturbed", "gpt_bf16_md5_L1", kSingle, kParameter,
     "Functional.linear.2.forward", ""},
    {"gpt_bf16_tensor_L1_perturbed", "gpt_bf16_tensor_L1", kSingle, kParameter,
     "Functional.linear.2.forward", ""},
    {"argtypes_tensor_mix_perturbed", "argtypes_tensor_mix", kSingle, kParameter,
     "Functional.linear.0.forward", "m.lin (Linear)"},
    {"argtypes_md5_L1_perturbed", "argtypes_md5_L1", kSingle, kParameter,
     "Functional.linear.0.forward", ""},
    // bfloat16 against float32, either side perturbed.
    {"gpt_bf16_statistics_mix_perturbed", "gpt_statistics_mix", kSingle, kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_bf16_statistics_mix", "gpt_statistics_mix_perturbed", kSingle, kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_statistics_mix_perturbed", "gpt_bf16_statistics_mix", kSingle, kParameter,
     "Functional.linear.2.forward", "blocks.0.mlp.fc1 (Linear)"},
    {"gpt_bf16_md5_L1_perturbed", "gpt_md5_L1", kSingle, kParameter, "Functional.linear.2.forward",
     ""},
    {"gpt_bf16_tensor_L1_perturbed", "gpt_tensor_L1", kSingle, kParameter,
     "Functional.linear.2.forward", ""},
    // Saved values: the first one behind the perturbed layer.
    {"gpt_debug_tensor_perturbed", "gpt_debug_tensor", "step0/rank/debug.json",
     OriginKind::kComputation, "block0.0.debug", ""},
    {"gpt_debug_statistics_perturbed", "gpt_debug_statistics", "step0/rank/debug.json",
     OriginKind::kComputation, "block0.0.debug", ""},
};

// Returns how many of the twins the folder holds.
int CheckTwins(const fs::path& folder) {
  int found = 0;
  for (const Expected& expected : kTwins) {
    const fs::path npu = folder / expected.npu / "dump" / expected.json;
    const fs::path bench = folder / expected.bench / "dump" / expected.json;
    if (!fs::exists(npu) || !fs::exists(bench)) {
      continue;
    }
    ++found;
    SCOPED_TRACE(std::string(expected.npu) + " against " + expected.bench + ", " + expected.json);
    const ComparedPair pair = ComparePaths(npu, bench);
    const std::optional<DivergencePoint>& origin = pair.divergence.first_origin;
    if (!origin) {
      ADD_FAILURE() << "no origin";
      continue;
    }
    EXPECT_EQ(OriginKindName(origin->kind), OriginKindName(expected.kind));
    EXPECT_EQ(origin->entry_name, expected.call);
    EXPECT_EQ(origin->layer, expected.layer);
    // The perturbation is the only one: nothing else may be called an origin.
    for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
      EXPECT_EQ(pair.divergence.first_of_kind[kind].has_value(),
                kind == static_cast<size_t>(expected.kind))
          << (pair.divergence.first_of_kind[kind] ? pair.divergence.first_of_kind[kind]->row_name
                                                  : "");
    }
  }
  return found;
}

TEST(FindDivergence, NamesThePerturbedLayerOfEveryTwinInTheTestData) {
  EXPECT_GE(CheckTwins(DataFolder()), 10);
}

TEST(FindDivergence, NamesThePerturbedLayerOfEveryCapturedTwin) {
  if (!fs::exists(GoldenFolder())) {
    GTEST_SKIP() << "no captured models in " << GoldenFolder() << " (set MSPROBE_GOLDEN)";
  }
  EXPECT_EQ(CheckTwins(GoldenFolder()), static_cast<int>(std::size(kTwins)));
}

TEST(FindDivergence, TwoRunsOfTheSameModelHaveNoOrigin) {
  for (const char* name :
       {"gpt_statistics_mix", "gpt_md5_L1", "cnn_tensor_mix", "gpt_bf16_statistics_mix"}) {
    SCOPED_TRACE(name);
    const fs::path json = DataFolder() / name / "dump" / kSingle;
    const ComparedPair pair = ComparePaths(json, json);
    EXPECT_GT(pair.divergence.compared_entry_count, 0U);
    EXPECT_EQ(pair.divergence.identical_entry_count, pair.divergence.compared_entry_count);
    EXPECT_FALSE(pair.divergence.first_origin);
    EXPECT_FALSE(pair.divergence.first_drift);
    EXPECT_TRUE(pair.divergence.amplifiers.empty());
  }
}

TEST(FindDivergence, RoundingAModelToBfloat16IsNoOrigin) {
  for (const auto& [npu, bench] : {std::pair("gpt_bf16_statistics_mix", "gpt_statistics_mix"),
                                   std::pair("gpt_statistics_mix", "gpt_bf16_statistics_mix")}) {
    const ComparedPair pair = ComparePaths(DataFolder() / npu / "dump" / kSingle,
                                           DataFolder() / bench / "dump" / kSingle);
    EXPECT_GT(pair.divergence.compared_entry_count, 0U);
    EXPECT_FALSE(pair.divergence.first_origin) << pair.divergence.first_origin->row_name;
  }
}

TEST(FindDivergence, RoundingACapturedModelToBfloat16IsNoOriginInAnyMode) {
  if (!fs::exists(GoldenFolder())) {
    GTEST_SKIP() << "no captured models in " << GoldenFolder() << " (set MSPROBE_GOLDEN)";
  }
  for (const std::string name : {"statistics_mix", "md5_L1", "tensor_L1"}) {
    const fs::path rounded = GoldenFolder() / ("gpt_bf16_" + name) / "dump" / kSingle;
    const fs::path exact = GoldenFolder() / ("gpt_" + name) / "dump" / kSingle;
    for (const auto& [npu, bench] : {std::pair(rounded, exact), std::pair(exact, rounded)}) {
      const ComparedPair pair = ComparePaths(npu, bench);
      EXPECT_GT(pair.divergence.compared_entry_count, 30U);
      EXPECT_FALSE(pair.divergence.first_origin)
          << name << ": " << pair.divergence.first_origin->row_name;
    }
  }
}

TEST(FindDivergence, TellsTheCodeLineAndTheParentOfTheOrigin) {
  const ComparedPair pair =
      ComparePaths(DataFolder() / "gpt_statistics_mix_perturbed/dump" / kSingle,
                   DataFolder() / "gpt_statistics_mix/dump" / kSingle);
  ASSERT_TRUE(pair.divergence.first_origin);
  EXPECT_EQ(pair.divergence.first_origin->parent_module,
            "Module.blocks.0.mlp.fc1.Linear.forward.0");
  EXPECT_EQ(pair.divergence.first_origin->code_line,
            "/home/user/train/models.py:43 in forward: return self.fc2(self.act(self.fc1(x)))");
  EXPECT_FALSE(pair.divergence.first_origin->stack.empty());
  EXPECT_NEAR(pair.divergence.first_origin->input_error, 1e-3, 1e-6);
  EXPECT_EQ(pair.divergence.amplifiers.size(), 10U);
  for (size_t i = 1; i < pair.divergence.amplifiers.size(); ++i) {
    EXPECT_GE(pair.divergence.amplifiers[i - 1].amplification,
              pair.divergence.amplifiers[i].amplification);
  }
}

TEST(FindDivergence, AFloorAboveThePerturbationLeavesNothing) {
  Options options;
  options.noise.relative_tolerance = 0.01;
  options.noise.absolute_tolerance = 0.01;
  const ComparedPair pair =
      ComparePaths(DataFolder() / "gpt_statistics_L1_perturbed/dump" / kSingle,
                   DataFolder() / "gpt_statistics_L1/dump" / kSingle, options);
  EXPECT_FALSE(pair.divergence.first_origin);
  EXPECT_EQ(pair.divergence.diverging_entry_count, 0U);
}

// Dumps made on the spot. Statistics of one tensor: Max, Min, Mean and Norm all equal to `value`,
// one element.
class FindDivergenceInSmallDumps : public ::testing::Test {
 protected:
  static std::string Leaf(double value, std::string_view dtype = "torch.float32") {
    return test_support::TensorText(value, "[1]", dtype);
  }

  static std::string Call(std::string_view name, std::string_view input, std::string_view output) {
    return test_support::CallText(name, input, output);
  }

  DivergenceReport Find(const std::string& npu, const std::string& bench,
                        std::string_view construct = "") {
    const fs::path npu_json = folder_.Write("npu/dump.json", test_support::DumpText(npu));
    const fs::path bench_json = folder_.Write("bench/dump.json", test_support::DumpText(bench));
    if (!construct.empty()) {
      folder_.Write("npu/construct.json", construct);
    }
    return ComparePaths(npu_json, bench_json).divergence;
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(FindDivergenceInSmallDumps, ACallThatTurnsEqualInputsIntoOtherOutputsIsAComputation) {
  const DivergenceReport report = Find(Call("Torch.sin.0.forward", Leaf(1), Leaf(2)) + "," +
                                           Call("Torch.exp.0.forward", Leaf(2), Leaf(3.5)) + "," +
                                           Call("Torch.cos.0.forward", Leaf(3.5), Leaf(9)),
                                       Call("Torch.sin.0.forward", Leaf(1), Leaf(2)) + "," +
                                           Call("Torch.exp.0.forward", Leaf(2), Leaf(3)) + "," +
                                           Call("Torch.cos.0.forward", Leaf(3), Leaf(4)));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kComputation);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
  EXPECT_EQ(report.first_origin->input_error, 0);
  EXPECT_NEAR(report.first_origin->output_error, 0.5 / 3, 1e-9);
  EXPECT_FALSE(report.first_of_kind[static_cast<size_t>(OriginKind::kInput)]);
  EXPECT_EQ(report.diverging_entry_count, 2U);
  EXPECT_EQ(report.agreeing_entry_count, 1U);
}

TEST_F(FindDivergenceInSmallDumps, RanksThatDoNotHoldTheSameValueAreAReplica) {
  // What both sides are compared by agrees: the ranks behind it do not.
  const std::string calls = Call("Torch.sin.0.forward", Leaf(1), Leaf(2)) + "," +
                            Call("Torch.exp.0.forward", Leaf(2), Leaf(3));
  const fs::path npu = folder_.Write("npu/dump.json", test_support::DumpText(calls));
  const fs::path bench = folder_.Write("bench/dump.json", test_support::DumpText(calls));
  const auto find = [&](ReplicaDifference replica) {
    base::ThreadPool pool(1);
    LoadedPair loaded;
    loaded.npu = *LoadSide(npu);
    loaded.bench = *LoadSide(bench);
    PairSource source;
    source.replicas = {std::move(replica)};
    PairInput input;
    input.npu_json = npu;
    input.bench_json = bench;
    return *CompareLoaded(Options(), input, std::move(loaded), std::move(source), pool);
  };
  for (const bool of_bench : {false, true}) {
    const ComparedPair pair = find({of_bench, 2, {1}, {0, 1, 2, 3}, 0.25});
    const std::optional<DivergencePoint>& origin = pair.divergence.first_origin;
    ASSERT_TRUE(origin);
    EXPECT_EQ(OriginKindName(origin->kind), "replica");
    EXPECT_EQ(origin->row_name, "Torch.exp.0.forward.input.0");
    EXPECT_EQ(origin->output_error, 0.25);
    EXPECT_EQ(origin->reason, "ranks 0-3 must hold the same value, rank 1 differs");
    EXPECT_EQ(origin->note, of_bench ? "ranks of the reference side" : "");
    EXPECT_EQ(origin->ranks, of_bench ? std::vector<int64_t>() : std::vector<int64_t>{1});
    EXPECT_EQ(pair.divergence.rows[2], RowStatus::kDiffers);
    EXPECT_EQ(pair.divergence.rows[1], RowStatus::kIdentical);
  }
}

TEST_F(FindDivergenceInSmallDumps, AnArgumentThatDiffersIsCertainByItself) {
  // The convolution's output is not bit-equal, its statistics are; the call behind it is given
  // another argument.
  const auto leaf = [](std::string_view md5, double value) {
    return base::ReplaceFirst(Leaf(value), "}", fmt::format(", \"md5\": \"{}\"}}", md5));
  };
  const auto dump = [&](std::string_view side, std::string_view argument, double result) {
    return Call("Functional.conv2d.0.forward", leaf("aa", 1), leaf(side, 2)) + "," +
           Call("Functional.batch_norm.0.forward", leaf(side, 2) + "," + std::string(argument),
                leaf(side, result));
  };
  struct Argument {
    const char* npu;
    const char* bench;
    const char* npu_value;
    const char* bench_value;
  };
  for (const Argument& argument : {
           Argument{R"({"type": "float", "value": 0.001})", R"({"type": "float", "value": 1e-05})",
                    "0.001", "1e-05"},
           Argument{R"({"type": "bool", "value": true})", R"({"type": "bool", "value": false})",
                    "True", "False"},
           Argument{R"({"type": "int", "value": 2})", R"({"type": "int", "value": 1})", "2", "1"},
       }) {
    const DivergenceReport report =
        Find(dump("11", argument.npu, 3.1), dump("22", argument.bench, 3));
    ASSERT_TRUE(report.first_origin) << argument.npu;
    EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
    EXPECT_EQ(report.first_origin->row_name, "Functional.batch_norm.0.forward.input.1");
    EXPECT_EQ(report.first_origin->confidence, Confidence::kCertain);
    ASSERT_TRUE(report.first_origin->argument);
    EXPECT_EQ(report.first_origin->argument->name, "input.1");
    EXPECT_EQ(report.first_origin->argument->npu, argument.npu_value);
    EXPECT_EQ(report.first_origin->argument->bench, argument.bench_value);
    ASSERT_TRUE(report.first_unequal_bits);
    EXPECT_EQ(report.first_unequal_bits->entry_name, "Functional.conv2d.0.forward");
  }
}

TEST_F(FindDivergenceInSmallDumps, AnArgumentThatIsATextOrGivenOnOneSideIsTheCauseOfAnotherResult) {
  const auto gelu = [](std::string_view kwargs, double result) {
    return R"("Functional.gelu.0.forward": {"input_args": [)" + Leaf(1) +
           R"(], "input_kwargs": {)" + std::string(kwargs) + R"(}, "output": [)" + Leaf(result) +
           "]}";
  };
  const auto text = [](std::string_view value) {
    return fmt::format(R"("approximate": {{"type": "str", "value": "{}"}})", value);
  };
  const auto check = [&](const std::string& npu, const std::string& bench, const char* npu_value,
                         const char* bench_value) {
    const DivergenceReport report = Find(gelu(npu, 2.1), gelu(bench, 2));
    ASSERT_TRUE(report.first_origin) << npu_value;
    EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
    ASSERT_TRUE(report.first_origin->argument) << npu_value;
    EXPECT_EQ(report.first_origin->argument->name, "input.approximate");
    EXPECT_EQ(report.first_origin->argument->npu, npu_value);
    EXPECT_EQ(report.first_origin->argument->bench, bench_value);
    EXPECT_FALSE(Find(gelu(npu, 2), gelu(bench, 2)).first_origin) << "nothing comes of it";
  };
  check(text("tanh"), text("none"), "tanh", "none");
  check(text("tanh"), "", "tanh", "not given");
  check("", text("tanh"), "not given", "tanh");
  const DivergenceReport devices = Find(gelu(text("npu:0"), 2.1), gelu(text("cuda:0"), 2));
  ASSERT_TRUE(devices.first_origin);
  EXPECT_EQ(devices.first_origin->kind, OriginKind::kComputation);
}

TEST_F(FindDivergenceInSmallDumps, TheFirstUnequalBitsAreNamedWhereStatisticsProveNothing) {
  // 1.9e-6 apart is more than noise and less than what the call may round; 1e-6 apart is noise.
  const auto leaf = [](std::string_view md5, double value) {
    return base::ReplaceFirst(Leaf(value), "}", fmt::format(", \"md5\": \"{}\"}}", md5));
  };
  for (const double apart : {2e-6, 1e-6, 0.0}) {
    const auto dump = [&](std::string_view side, double value) {
      return Call("Torch.sin.0.forward", leaf("aa", 1), leaf("bb", 1)) + "," +
             Call("Functional.layer_norm.0.forward", leaf("bb", 1), leaf(side, value));
    };
    const DivergenceReport report = Find(dump("11", 1 + apart), dump("22", 1));
    const std::optional<DivergencePoint>& named =
        report.first_origin ? report.first_origin : report.first_unequal_bits;
    ASSERT_TRUE(named) << apart;
    EXPECT_EQ(named->entry_name, "Functional.layer_norm.0.forward") << apart;
  }
}

TEST_F(FindDivergenceInSmallDumps, CallsThatOnlyOneCaptureLevelRecordsAreNoOrigin) {
  const auto module = [](double value) {
    return Call("Module.act.GELU.forward.0", Leaf(value), Leaf(value + 1));
  };
  const auto function = [](double value, double result) {
    return Call("Functional.gelu.0.forward", Leaf(value), Leaf(result));
  };
  for (const bool npu_is_mixed : {true, false}) {
    const std::string npu = npu_is_mixed ? "mix" : "L1";
    const std::string bench = npu_is_mixed ? "L1" : "mix";
    const auto dump = [&](std::string_view level, double result) {
      return base::ReplaceFirst(
          test_support::DumpText(function(1, result) + (level == "mix" ? "," + module(1) : "")),
          "\"L1\"", fmt::format("\"{}\"", level));
    };
    const auto find = [&](double result) {
      return ComparePaths(folder_.Write("npu/dump.json", dump(npu, result)),
                          folder_.Write("bench/dump.json", dump(bench, 2)));
    };
    const ComparedPair equal = find(2);
    EXPECT_FALSE(equal.divergence.first_origin) << npu;
    EXPECT_EQ(equal.result.bench_only_count, 0U) << npu;
    EXPECT_THAT(equal.warnings, ::testing::Contains(HasSubstr("different levels")));
    const ComparedPair differs = find(3);
    ASSERT_TRUE(differs.divergence.first_origin) << npu;
    EXPECT_EQ(differs.divergence.first_origin->entry_name, "Functional.gelu.0.forward");
    EXPECT_EQ(differs.divergence.first_origin->kind, OriginKind::kComputation);
  }
}

TEST_F(FindDivergenceInSmallDumps, InputsOneUnitApartAreNotEqual) {
  const auto dump = [](double input, double sum) {
    return R"("Tensor.sum.0.forward": {"input_args": [)" +
           base::ReplaceFirst(Leaf(input), "[1]", "[4096]") +
           R"(], "input_kwargs": {}, "output": [)" + Leaf(sum) + "]}";
  };
  // The norm of 4096 numbers of size 1 is 64.
  const DivergenceReport report = Find(dump(64.000001, 0.1001), dump(64, 0.1));
  EXPECT_FALSE(report.first_origin);
  const DivergenceReport wrong = Find(dump(64.000001, 3), dump(64, 0.1));
  ASSERT_TRUE(wrong.first_origin);
  EXPECT_NE(wrong.first_origin->confidence, Confidence::kCertain);
  EXPECT_EQ(wrong.first_origin->reason.find("are equal"), std::string::npos);
}

TEST_F(FindDivergenceInSmallDumps, AnInputThatNothingExplainsEntersFromOutside) {
  const DivergenceReport report = Find(Call("Torch.sin.0.forward", Leaf(1.5), Leaf(2.5)),
                                       Call("Torch.sin.0.forward", Leaf(1), Leaf(2)));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
  EXPECT_EQ(report.first_origin->row_name, "Torch.sin.0.forward.input.0");
}

TEST_F(FindDivergenceInSmallDumps, DroppedElementsPointToTheRandomState) {
  const DivergenceReport report = Find(Call("Functional.dropout.0.forward", Leaf(1), Leaf(2)),
                                       Call("Functional.dropout.0.forward", Leaf(1), Leaf(1)));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
  EXPECT_THAT(report.first_origin->note, HasSubstr("random"));
}

TEST_F(FindDivergenceInSmallDumps, UninitialisedMemoryIsNoDifference) {
  const DivergenceReport report = Find(Call("Torch.empty_like.0.forward", Leaf(1), Leaf(77)) + "," +
                                           Call("Tensor.zero_.0.forward", Leaf(77), Leaf(0)),
                                       Call("Torch.empty_like.0.forward", Leaf(1), Leaf(5)) + "," +
                                           Call("Tensor.zero_.0.forward", Leaf(5), Leaf(0)));
  EXPECT_FALSE(report.first_origin);
}

TEST_F(FindDivergenceInSmallDumps, WhatAReceiveBufferHeldBeforeDoesNotMatter) {
  const DivergenceReport report = Find(Call("Distributed.recv.0.forward", Leaf(77), Leaf(2)),
                                       Call("Distributed.recv.0.forward", Leaf(5), Leaf(2)));
  EXPECT_FALSE(report.first_origin);
}

TEST_F(FindDivergenceInSmallDumps, PartsOfMemoryThatACollectiveFillsDoNotMatter) {
  const auto dump = [](double garbage, double result) {
    return Call("Torch.chunk.0.forward", Leaf(garbage), Leaf(garbage)) + "," +
           Call("Tensor.narrow.0.forward", Leaf(garbage), Leaf(garbage)) + "," +
           Call("Distributed.all_gather_into_tensor.0.forward", Leaf(garbage), Leaf(2)) + "," +
           Call("Torch.exp.0.forward", Leaf(2), Leaf(result));
  };
  EXPECT_FALSE(Find(dump(77, 7), dump(5, 7)).first_origin);
  const DivergenceReport report = Find(dump(77, 8), dump(5, 7));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
  EXPECT_EQ(report.first_origin->kind, OriginKind::kComputation);
}

TEST_F(FindDivergenceInSmallDumps, APartThatIsUsedEntersWhereItIsUsed) {
  const auto dump = [](double fed, double result) {
    return Call("Torch.chunk.0.forward", Leaf(fed), Leaf(fed)) + "," +
           Call("Torch.sin.0.forward", Leaf(fed), Leaf(result));
  };
  const DivergenceReport report = Find(dump(2, 4), dump(1, 3));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
  EXPECT_EQ(report.first_origin->row_name, "Torch.sin.0.forward.input.0");
  // What a recorded call computed is no foreign memory.
  const auto computed = [](double value) {
    return Call("Torch.exp.0.forward", Leaf(1), Leaf(value)) + "," +
           Call("Torch.chunk.0.forward", Leaf(value), Leaf(value));
  };
  EXPECT_EQ(Find(computed(4), computed(3)).diverging_entry_count, 2U);
}

TEST_F(FindDivergenceInSmallDumps, ACallThatOnlyDescribesATensorIsNoOrigin) {
  // The result of a collective that is under way is asked for its layout before it is there.
  const auto dump = [](double under_way, double result) {
    return Call("Tensor.stride.0.forward", Leaf(under_way), R"({"type": "int", "value": 1})") +
           "," + Call("Torch.exp.0.forward", Leaf(2), Leaf(result));
  };
  EXPECT_FALSE(Find(dump(77, 7), dump(5, 7)).first_origin);
  const DivergenceReport report = Find(dump(77, 8), dump(5, 7));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
}

TEST_F(FindDivergenceInSmallDumps, MemoryAsFoundIsFollowedThroughViewsWhileACollectiveFillsIt) {
  // On one side the gathered weight has arrived when the calls are seen, on the other not yet.
  const auto dump = [](double found, double narrowed, double viewed, double result) {
    return Call("Torch.empty.0.forward", R"({"type": "int", "value": 3})", Leaf(found)) + "," +
           Call("Tensor.narrow.0.forward", Leaf(narrowed), Leaf(narrowed)) + "," +
           Call("Tensor.to.0.forward", Leaf(viewed), Leaf(viewed)) + "," +
           Call("Torch.exp.0.forward", Leaf(2), Leaf(result));
  };
  EXPECT_FALSE(Find(dump(5, 5, 5, 7), dump(77, 3, 3, 7)).first_origin);
  EXPECT_FALSE(Find(dump(5, 5, 3, 7), dump(77, 3, 3, 7)).first_origin);
  EXPECT_FALSE(Find(dump(5, 5, 3, 7), dump(77, 77, 77, 7)).first_origin);
  const DivergenceReport report = Find(dump(5, 5, 5, 8), dump(77, 3, 3, 7));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
  EXPECT_EQ(report.first_origin->kind, OriginKind::kComputation);
}

TEST_F(FindDivergenceInSmallDumps, APartOfMemoryAsFoundIsNotComputedByTheCutting) {
  // The whole is equal by chance, its part has arrived on one side only.
  const auto dump = [](double part) {
    return Call("Torch.empty.0.forward", R"({"type": "int", "value": 3})", Leaf(9)) + "," +
           Call("Tensor.narrow.0.forward", Leaf(9), Leaf(part));
  };
  EXPECT_FALSE(Find(dump(1), dump(2)).first_origin);
}

TEST_F(FindDivergenceInSmallDumps, WhatMemoryHeldIsNoMeasureForLaterErrors) {
  const auto dump = [](double found, double fed) {
    return Call("Torch.exp.0.forward", Leaf(1), Leaf(fed > 3 ? 2.0000001 : 2)) + "," +
           Call("Torch.empty.0.forward", R"({"type": "int", "value": 3})", Leaf(found)) + "," +
           Call("Torch.sin.0.forward", Leaf(fed), Leaf(fed));
  };
  const DivergenceReport report = Find(dump(1e30, 4), dump(1, 3));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.sin.0.forward");
}

TEST_F(FindDivergenceInSmallDumps, MemoryAsFoundThatIsUsedEntersWhereItIsUsed) {
  const auto dump = [](double value, double result) {
    return Call("Torch.empty.0.forward", R"({"type": "int", "value": 3})", Leaf(9)) + "," +
           Call("Tensor.view.0.forward", Leaf(value), Leaf(value)) + "," +
           Call("Torch.sin.0.forward", Leaf(value), Leaf(result));
  };
  const DivergenceReport report = Find(dump(9, 4), dump(1, 3));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
  EXPECT_EQ(report.first_origin->row_name, "Torch.sin.0.forward.input.0");
}

TEST_F(FindDivergenceInSmallDumps, WhatATensorHeldBeforeItIsFilledDoesNotMatter) {
  const auto dump = [](double held) {
    return Call("Tensor.zero_.0.forward", Leaf(held), Leaf(0)) + "," +
           R"("Torch.cat.0.forward": {"input_args": [)" + Leaf(2) +
           R"(], "input_kwargs": {"out": )" + Leaf(held + 1) + R"(}, "output": [)" + Leaf(2) + "]}";
  };
  EXPECT_FALSE(Find(dump(77), dump(5)).first_origin);
}

TEST_F(FindDivergenceInSmallDumps, ATensorMetAgainUnderAnotherShapeIsNotANewOrigin) {
  // Views are not recorded: the second call takes the first one's output in another shape.
  const auto dump = [](double value) {
    return Call("Torch.exp.0.forward", Leaf(1), Leaf(value)) + "," +
           Call("Torch.transpose.0.forward", test_support::TensorText(value, "[1, 1]"),
                test_support::TensorText(value, "[1, 1]"));
  };
  const DivergenceReport report = Find(dump(3.5), dump(3));
  EXPECT_TRUE(report.first_of_kind[static_cast<size_t>(OriginKind::kComputation)]);
  EXPECT_FALSE(report.first_of_kind[static_cast<size_t>(OriginKind::kInput)]);
}

TEST_F(FindDivergenceInSmallDumps, LaterAMuchLargerUnexplainedInputIsReportedWithADoubt) {
  const auto dump = [](double small, double large) {
    return Call("Torch.exp.0.forward", Leaf(1), Leaf(small)) + "," +
           Call("Torch.sin.0.forward", Leaf(large), Leaf(large));
  };
  const DivergenceReport report = Find(dump(3.0003, 8), dump(3, 4));
  const auto& input = report.first_of_kind[static_cast<size_t>(OriginKind::kInput)];
  ASSERT_TRUE(input);
  EXPECT_THAT(input->note, HasSubstr("unrecorded"));
  EXPECT_EQ(report.first_origin->kind, OriginKind::kComputation);
}

TEST_F(FindDivergenceInSmallDumps, NoiseThatPilesUpIsDriftAndNoOrigin) {
  // Errors of 1.0, 1.7 and 2.5 millionths: the third leaves the noise of float32 (1.9e-6) without a
  // jump.
  const auto dump = [](double a, double b, double c) {
    return Call("Torch.sin.0.forward", Leaf(1), Leaf(a)) + "," +
           Call("Torch.exp.0.forward", Leaf(a), Leaf(b)) + "," +
           Call("Torch.cos.0.forward", Leaf(b), Leaf(c));
  };
  const DivergenceReport report = Find(dump(1.000001, 2.0000034, 4.00001), dump(1, 2, 4));
  EXPECT_FALSE(report.first_origin);
  ASSERT_TRUE(report.first_drift);
  EXPECT_EQ(report.first_drift->entry_name, "Torch.cos.0.forward");
}

TEST_F(FindDivergenceInSmallDumps, AModuleIsNotBlamedForWhatACallInsideItComputed) {
  const auto dump = [](double value) {
    return Call("Torch.exp.0.forward", Leaf(1), Leaf(value)) + "," +
           Call("Module.a.Act.forward.0", Leaf(2), Leaf(value + 1));
  };
  const std::string construct =
      R"({"Torch.exp.0.forward": "Module.a.Act.forward.0", "Module.a.Act.forward.0": null})";
  const DivergenceReport report = Find(dump(3.5), dump(3), construct);
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
  EXPECT_EQ(report.first_origin->layer, "a (Act)");
  EXPECT_EQ(report.amplifiers.size(), 1U);
}

TEST_F(FindDivergenceInSmallDumps, WithoutConstructModulePathsTellWhatContainsWhat) {
  const auto dump = [](double value) {
    return Call("Module.a.b.Act.forward.0", Leaf(1), Leaf(value)) + "," +
           Call("Module.a.Block.forward.0", Leaf(1), Leaf(value));
  };
  const DivergenceReport report = Find(dump(3.5), dump(3));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Module.a.b.Act.forward.0");
  EXPECT_EQ(report.amplifiers.size(), 1U);
}

TEST_F(FindDivergenceInSmallDumps, AConstructFileThatRunsInCirclesEnds) {
  const auto dump = [](double value) { return Call("Torch.exp.0.forward", Leaf(1), Leaf(value)); };
  const std::string construct = R"({"Torch.exp.0.forward": "Module.a.A.forward.0",
      "Module.a.A.forward.0": "Module.b.B.forward.0", "Module.b.B.forward.0": "Module.a.A.forward.0"})";
  const DivergenceReport report = Find(dump(3.5), dump(3), construct);
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
}

TEST_F(FindDivergenceInSmallDumps, ABackwardCallInheritsFromItsForward) {
  const auto dump = [](double weight, double gradient) {
    return Call("Functional.linear.0.forward", Leaf(1) + "," + Leaf(weight), Leaf(2)) +
           ",\"Functional.linear.0.backward\": {\"input\": [" + Leaf(1) + "], \"output\": [" +
           Leaf(gradient) + "]}";
  };
  const DivergenceReport report = Find(dump(3.5, 7), dump(3, 6));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kParameter);
  EXPECT_FALSE(report.first_of_kind[static_cast<size_t>(OriginKind::kComputation)]);
}

TEST_F(FindDivergenceInSmallDumps, AWeightGradientThatDiffersAloneIsItsModulesBackward) {
  const auto dump = [](double gradient) {
    return "\"Module.a.Linear.forward.0\": {\"input_args\": [" + Leaf(1) +
           "], \"input_kwargs\": {}, \"output\": [" + Leaf(2) +
           "], \"parameters\": {\"weight\": " + Leaf(3) + "}, \"is_recompute\": false}," +
           "\"Module.a.Linear.parameters_grad\": {\"weight\": [" + Leaf(gradient) + "]}," +
           "\"Module.a.Linear.backward.0\": {\"input\": [" + Leaf(1) + "], \"output\": [" +
           Leaf(1) + "]}";
  };
  const DivergenceReport report = Find(dump(5), dump(4));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kComputation);
  EXPECT_EQ(report.first_origin->entry_name, "Module.a.Linear.parameters_grad");
  EXPECT_EQ(report.first_origin->layer, "a (Linear)");
}

TEST_F(FindDivergenceInSmallDumps, AnOutputThatIsNotFiniteOnOneSideOnlyIsAnOrigin) {
  std::string npu = Call("Torch.exp.0.forward", Leaf(1), Leaf(3));
  const std::string bench = npu;
  const size_t at = npu.rfind("\"Max\": 3.000000");
  npu.replace(at, 15, "\"Max\": Infinity");
  const DivergenceReport report = Find(npu, bench);
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->entry_name, "Torch.exp.0.forward");
}

TEST_F(FindDivergenceInSmallDumps, AnOutputOfAnotherShapeIsAnOrigin) {
  const DivergenceReport report =
      Find(Call("Torch.exp.0.forward", Leaf(1), test_support::TensorText(3, "[1, 2]")),
           Call("Torch.exp.0.forward", Leaf(1), Leaf(3)));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->kind, OriginKind::kComputation);
  EXPECT_THAT(report.first_origin->note, HasSubstr("shape"));
}

TEST_F(FindDivergenceInSmallDumps, NamesOfDevicesMayDiffer) {
  const auto dump = [](std::string_view device) {
    return Call("Torch.zeros_like.0.forward",
                Leaf(1) + R"(, {"type": "str", "value": ")" + std::string(device) + "\"}", Leaf(0));
  };
  EXPECT_FALSE(Find(dump("npu:0"), dump("cuda:0")).first_origin);
}

TEST_F(FindDivergenceInSmallDumps, AnArgumentThatIsAnotherNumberIsAnInput) {
  const auto dump = [](std::string_view value) {
    return Call("Functional.softmax.0.forward",
                Leaf(1) + R"(, {"type": "int", "value": )" + std::string(value) + "}", Leaf(1));
  };
  const DivergenceReport report = Find(dump("1"), dump("2"));
  ASSERT_TRUE(report.first_origin);
  EXPECT_EQ(report.first_origin->row_name, "Functional.softmax.0.forward.input.1");
  EXPECT_EQ(report.first_origin->kind, OriginKind::kInput);
}

// Each output held against each input would be 2 * 10^8 times.
TEST_F(FindDivergenceInSmallDumps, OfACallOfVeryManyTensorsTheFirstOutputsAreHeldAgainstItsInputs) {
  const auto leaves = [](int count, const std::string& leaf) {
    std::string list = leaf;
    for (int i = 1; i < count; ++i) {
      list += "," + leaf;
    }
    return list;
  };
  const auto row_named = [&](int inputs) {
    const std::string given =
        leaves(inputs, R"({"type": "t", "dtype": "torch.float32", "shape": [1], "Max": 1})");
    const auto call = [&](double value, double last) {
      return Call("Torch.exp.0.forward", given, leaves(3'999, Leaf(value)) + "," + Leaf(last));
    };
    const DivergenceReport report = Find(call(3.5, 300), call(3, 3));
    return report.first_origin ? report.first_origin->row_name : "";
  };
  EXPECT_EQ(row_named(1), "Torch.exp.0.forward.output.3999");
  EXPECT_EQ(row_named(40'000), "Torch.exp.0.forward.output.0");
}

TEST_F(FindDivergenceInSmallDumps, AnEmptyDumpHasNoOrigin) {
  const DivergenceReport report = Find("", "");
  EXPECT_FALSE(report.first_origin);
  EXPECT_EQ(report.compared_entry_count, 0U);
}

}  // namespace
}  // namespace msprobe::analysis::compare
