// The walk across steps, dtypes, calls of one side and checksums, on dumps made on the spot, and
// what the gates make of it.
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/document.h"
#include "src/analysis/compare/result_files.h"
#include "src/analysis/compare/summary.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using ::testing::HasSubstr;

bool GateFails(const RunSummary& summary, const char* level) {
  return report::Gate({level}).Fails(MakeDocument(summary));
}

class WalkOverSmallDumps : public ::testing::Test {
 protected:
  static std::string Leaf(const std::string& number, std::string_view dtype = "torch.float32",
                          std::string_view md5 = "") {
    return R"({"type": "torch.Tensor", "dtype": ")" + std::string(dtype) +
           R"(", "shape": [1], "Max": )" + number + R"(, "Min": )" + number + R"(, "Mean": )" +
           number + R"(, "Norm": )" + number + R"(, "requires_grad": false)" +
           (md5.empty() ? "" : R"(, "md5": ")" + std::string(md5) + "\"") + "}";
  }

  static std::string Call(std::string_view name, const std::string& input,
                          const std::string& output) {
    return test_support::CallText(name, input, output);
  }

  static std::string Tensor(std::string_view shape, double max, double min, double mean,
                            double norm) {
    return fmt::format(
        R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": {}, "Max": {:.9g}, )"
        R"("Min": {:.9g}, "Mean": {:.9g}, "Norm": {:.9g}, "requires_grad": false}})",
        shape, max, min, mean, norm);
  }

  static std::string Backward(std::string_view name, const std::string& input,
                              const std::string& output) {
    return fmt::format(R"("{}": {{"input": [{}], "output": [{}]}})", name, input, output);
  }

  // A linear layer at work: its weight, what it puts out and the gradient of its weight.
  static std::string Layer(const std::string& weight, const std::string& output = "2",
                           const std::string& gradient = "0.5") {
    return R"("Module.fc.Linear.forward.0": {"input_args": [)" + Leaf("1") +
           R"(], "input_kwargs": {}, "parameters": {"weight": )" + Leaf(weight) +
           R"(}, "output": [)" + Leaf(output) +
           R"(]}, "Module.fc.Linear.parameters_grad": {"weight": [)" + Leaf(gradient) +
           R"(]}, "Module.fc.Linear.backward.0": {"input": [)" + Leaf("1") + R"(], "output": [)" +
           Leaf("1") + "]}";
  }

  ComparedPair Compare(const std::string& npu, const std::string& bench,
                       const StepRecord* previous = nullptr) {
    Options options;
    options.quiet = true;
    base::ThreadPool pool(2);
    PairInput input;
    input.npu_json = folder_.Write("npu/dump.json", test_support::DumpText(npu));
    input.bench_json = folder_.Write("bench/dump.json", test_support::DumpText(bench));
    input.step = previous == nullptr ? 0 : 1;
    Result<ComparedPair> pair = ComparePair(options, input, pool, previous);
    EXPECT_TRUE(pair.ok()) << pair.status().message();
    return pair.ok() ? *std::move(pair) : ComparedPair();
  }

  static std::string KindOf(const ComparedPair& pair) {
    return pair.divergence.first_origin
               ? std::string(OriginKindName(pair.divergence.first_origin->kind))
               : "none";
  }

  static RunSummary Summarize(const ComparedPair& pair) {
    RunSummary summary;
    summary.pairs.push_back(SummarizePair(PlannedPair(), pair));
    FinishSummary(summary);
    return summary;
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(WalkOverSmallDumps, WeightsOfTheFirstStepAreExactlyEqualOrAnOrigin) {
  EXPECT_EQ(KindOf(Compare(Layer("1"), Layer("1"))), "none");
  const ComparedPair pair = Compare(Layer("1.0000001"), Layer("1"));
  EXPECT_EQ(KindOf(pair), "parameter");
  EXPECT_THAT(pair.divergence.first_origin->reason, HasSubstr("exactly equal"));
}

TEST_F(WalkOverSmallDumps, AnotherUpdateAfterAnEqualStepIsTheOptimizer) {
  const ComparedPair first = Compare(Layer("1"), Layer("1"));
  ASSERT_TRUE(first.record.identical);
  const ComparedPair second = Compare(Layer("0.985"), Layer("0.990"), &first.record);
  EXPECT_EQ(KindOf(second), "optimizer");
  EXPECT_THAT(second.divergence.first_origin->reason, HasSubstr("step 0"));
}

TEST_F(WalkOverSmallDumps, TheEchoOfAStepThatDivergedIsNoOrigin) {
  const ComparedPair first = Compare(Layer("1", "2.5", "0.6"), Layer("1"));
  ASSERT_EQ(KindOf(first), "computation");
  const ComparedPair second = Compare(Layer("0.985"), Layer("0.990"), &first.record);
  EXPECT_EQ(KindOf(second), "none");
}

// The gradient of the weight is in no row; what it is made of is.
TEST_F(WalkOverSmallDumps, AGradientThatIsNotRecordedIsAsFarApartAsWhatItIsMadeOf) {
  const auto leaf = [](const std::string& number, std::string_view shape) {
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": )" + std::string(shape) +
           R"(, "Max": )" + number + R"(, "Min": -)" + number + R"(, "Mean": 0, "Norm": )" +
           number + R"(, "requires_grad": false})";
  };
  const auto step = [&](const std::string& weight, const std::string& input,
                        const std::string& gradient) {
    return Call("Torch.sin.0.forward", Leaf("1"), Leaf(input)) + "," +
           Call("Functional.linear.0.forward",
                leaf("2", "[2, 5, 32]") + "," + leaf(weight, "[128, 32]"),
                leaf("3", "[2, 5, 128]")) +
           R"(, "Functional.linear.0.backward": {"input": [)" + leaf(gradient, "[2, 5, 128]") +
           R"(], "output": [)" + leaf("4", "[10, 128]") + "]}";
  };
  // 0.017 of the movement.
  const auto second = [&](const StepRecord& record) {
    return KindOf(Compare(step("0.99705", "1", "0.5"), step("0.997", "1", "0.5"), &record));
  };
  const ComparedPair close = Compare(step("1", "1.000001", "0.5"), step("1", "1", "0.5"));
  EXPECT_EQ(second(close.record), "optimizer");
  const ComparedPair noisy = Compare(step("1", "1.000001", "0.50005"), step("1", "1", "0.5"));
  EXPECT_EQ(second(noisy.record), "none") << "the gradient that entered explains it";
}

TEST_F(WalkOverSmallDumps, OfACallOfTheOptimizerThatOneSideMadeTheCallIsNamed) {
  const auto dump = [](std::string_view decay, const std::string& gradient,
                       const std::string& updated) {
    return Call("Torch.sin.0.forward", Leaf("1"), Leaf("1.0000001")) +
           R"(, "Torch.sin.0.backward": {"input": [)" + Leaf("1") + R"(], "output": [)" +
           Leaf("1") + "]}," + std::string(decay) +
           Call("Tensor.add_.0.forward", Leaf("3") + "," + Leaf(gradient), Leaf(updated));
  };
  const auto first_call = [](const std::string& input) {
    return Call("Torch.exp.0.forward", Leaf("0"), Leaf(input)) + ",";
  };
  const std::string decay =
      Call("Tensor.add.0.forward", Leaf("0.01") + "," + Leaf("3"), Leaf("0.31")) + ",";
  const ComparedPair more = Compare(first_call("1.000001") + dump(decay, "0.31", "2.97"),
                                    first_call("1") + dump("", "0.01", "2.999"));
  EXPECT_EQ(KindOf(more), "unmatched call");
  ASSERT_TRUE(more.divergence.first_origin);
  EXPECT_EQ(more.divergence.first_origin->entry_name, "Tensor.add.0.forward");
  const ComparedPair fewer = Compare(first_call("1.000001") + dump("", "0.01", "2.999"),
                                     first_call("1") + dump(decay, "0.31", "2.97"));
  EXPECT_EQ(KindOf(fewer), "unmatched call");
  EXPECT_EQ(KindOf(Compare(first_call("1.000001") + dump("", "0.31", "2.97"),
                           first_call("1") + dump("", "0.01", "2.999"))),
            "none")
      << "gradients of several passes add up unseen";
}

// In front of a normalisation a bias of float32 hardly moves, one of bfloat16 by chance: only its
// layer tells that it is such a bias.
TEST_F(WalkOverSmallDumps, WhatExplainsAParameterInItsLayerDoesSoInACallOfTheOptimizer) {
  const auto leaf = [](const std::string& number) {
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8], "Max": )" + number +
           R"(, "Min": -)" + number + R"(, "Mean": 0, "Norm": )" + number +
           R"(, "requires_grad": false})";
  };
  const auto step = [&](const std::string& weight, const std::string& bias,
                        const std::string& gradient) {
    return R"("Module.fc.Linear.forward.0": {"input_args": [)" + Leaf("1") +
           R"(], "input_kwargs": {}, "parameters": {"weight": )" + leaf(weight) + R"(, "bias": )" +
           leaf(bias) + R"(}, "output": [)" + Leaf("2") +
           R"(]}, "Module.fc.Linear.parameters_grad": {"bias": [)" + leaf(gradient) +
           R"(]}, "Module.fc.Linear.backward.0": {"input": [)" + Leaf("1") + R"(], "output": [)" +
           Leaf("1") + "]}," +
           Call("Tensor.addcdiv_.0.forward", leaf(bias) + "," + Leaf("1") + "," + Leaf("1"),
                Leaf("1"));
  };
  const ComparedPair first = Compare(step("1", "1.00000012", "3e-8"), step("1", "1", "1e-8"));
  const StepRecord& record = first.record;
  EXPECT_NE(record.parameters.find("Module.fc.Linear|bias"), record.parameters.end());
  StepRecord benign = record;
  benign.has_origin = false;
  EXPECT_EQ(
      KindOf(Compare(step("0.999", "1.001", "3e-8"), step("0.999", "0.9995", "1e-8"), &benign)),
      "none");
  EXPECT_EQ(KindOf(Compare(step("0.999", "1.2", "3e-8"), step("0.999", "0.9995", "1e-8"), &benign)),
            "optimizer");
}

TEST_F(WalkOverSmallDumps, OneLayerInAnotherDtypeIsNamedAsSuch) {
  const auto dump = [](std::string_view dtype, const std::string& output) {
    std::string entries;
    for (const char* name : {"Torch.sin.0.forward", "Torch.cos.0.forward", "Torch.tan.0.forward"}) {
      entries += Call(name, Leaf("1"), Leaf("1")) + ",";
    }
    return entries + Call("Torch.exp.0.forward", Leaf("1", dtype), Leaf(output, dtype)) + "," +
           Call("Torch.sinh.0.forward", Leaf("1"), Leaf("1"));
  };
  for (const char* dtype : {"torch.float64", "torch.bfloat16"}) {
    const ComparedPair pair = Compare(dump(dtype, "2.71875"), dump("torch.float32", "2.71828"));
    EXPECT_EQ(KindOf(pair), "dtype") << dtype;
    ASSERT_TRUE(pair.divergence.first_origin);
    EXPECT_EQ(pair.divergence.first_origin->entry_name, "Torch.exp.0.forward") << dtype;
  }
}

TEST_F(WalkOverSmallDumps, ACastWithoutPartnerBehindWhichValuesPartIsADtype) {
  const auto dump = [](std::string_view cast, const std::string& value) {
    return Call("Torch.sin.0.forward", Leaf("1"), Leaf("1")) + "," + std::string(cast) +
           Call("Torch.exp.0.forward", Leaf(value), Leaf(value));
  };
  const std::string cast = Call("Tensor.to.0.forward", Leaf("1"), Leaf("1")) + ",";
  const ComparedPair pair = Compare(dump(cast, "1.1"), dump("", "1"));
  EXPECT_EQ(KindOf(pair), "dtype");
  EXPECT_EQ(pair.divergence.first_origin->entry_name, "Tensor.to.0.forward");
}

TEST_F(WalkOverSmallDumps, ACallOfOneSideBehindWhichValuesPartIsNamed) {
  const auto dump = [](std::string_view extra, const std::string& value) {
    return Call("Torch.exp.0.forward", Leaf("1"), Leaf("2")) + "," + std::string(extra) +
           Call("Torch.sin.0.forward", Leaf(value), Leaf(value));
  };
  const std::string extra = Call("Torch.exp.1.forward", Leaf("2"), Leaf("7")) + ",";
  const ComparedPair more = Compare(dump(extra, "7"), dump("", "2"));
  EXPECT_EQ(KindOf(more), "unmatched call");
  EXPECT_THAT(more.divergence.first_origin->note, HasSubstr("only the test side"));
  const ComparedPair fewer = Compare(dump("", "2"), dump(extra, "7"));
  EXPECT_EQ(KindOf(fewer), "unmatched call");
  EXPECT_EQ(fewer.divergence.first_origin->entry_name, "Torch.exp.1.forward");
  EXPECT_THAT(fewer.divergence.first_origin->note, HasSubstr("only the reference side"));
}

TEST_F(WalkOverSmallDumps, ANanOnOneSideIsNoNoiseEvenBehindDifferences) {
  for (const bool has_checksums : {false, true}) {
    const auto leaf = [&](const std::string& number) {
      return Leaf(number, "torch.float32", has_checksums ? "sum of " + number : "");
    };
    const auto dump = [&](const std::string& small, const std::string& last) {
      return Call("Torch.sin.0.forward", leaf("1"), leaf(small)) + "," +
             Call("Torch.log.0.forward", leaf(small), leaf(last));
    };
    const ComparedPair pair = Compare(dump("1.000001", "NaN"), dump("1", "1"));
    EXPECT_EQ(KindOf(pair), "computation") << has_checksums;
    ASSERT_TRUE(pair.divergence.first_origin);
    EXPECT_EQ(pair.result.mode, has_checksums ? CompareMode::kMd5 : CompareMode::kStatistics);
    EXPECT_TRUE(has_checksums || pair.divergence.first_origin->entry_name == "Torch.log.0.forward");
  }
}

TEST_F(WalkOverSmallDumps, ABenignPairWithGradientsThatCancelPassesTheGates) {
  // The bias in front of a normalisation: its gradient sums up to nothing but rounding.
  const ComparedPair pair = Compare(Layer("1", "2", "3e-8"), Layer("1", "2", "1e-8"));
  EXPECT_EQ(KindOf(pair), "none");
  const RunSummary summary = Summarize(pair);
  EXPECT_EQ(VerdictOf(summary), PairVerdict::kAgrees);
  EXPECT_FALSE(GateFails(summary, "different"));
  EXPECT_FALSE(GateFails(summary, "drift"));
}

TEST_F(WalkOverSmallDumps, WhatANormalisationTookAwayExplainsNothingBehindIt) {
  const auto second_step = [](const std::string& weight, const std::string& output,
                              const std::string& next) {
    return Layer(weight, output) + "," +
           Call("Module.norm.LayerNorm.forward.0", Leaf(output), Leaf("1")) + "," +
           Call("Module.head.Linear.forward.0", Leaf(next), Leaf("1"));
  };
  const ComparedPair first = Compare(Layer("1", "2", "3e-8"), Layer("1", "2", "1e-8"));
  ASSERT_EQ(KindOf(first), "none");
  const ComparedPair explained =
      Compare(second_step("0.9901", "2.0002", "1"), second_step("0.99", "2", "1"), &first.record);
  EXPECT_EQ(KindOf(explained), "none") << "a gradient that cancels moves a parameter by chance";
  const ComparedPair afresh = Compare(second_step("0.9901", "2.0002", "1.00005"),
                                      second_step("0.99", "2", "1"), &first.record);
  EXPECT_EQ(KindOf(afresh), "input");
  ASSERT_TRUE(afresh.divergence.first_origin);
  EXPECT_EQ(afresh.divergence.first_origin->entry_name, "Module.head.Linear.forward.0");
}

TEST_F(WalkOverSmallDumps, NoChoiceExplainsTheGradientOfALoss) {
  const auto second_step = [](const std::string& weight, const std::string& output,
                              const std::string& largest, const std::string& norm) {
    return Layer(weight, output) + "," +
           Call("Module.head.Linear.forward.0", Leaf(output), Leaf(output)) +
           R"(, "Module.head.Linear.backward.0": {"input": [)" +
           R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [64, 64], "Max": )" +
           largest + R"(, "Min": -)" + largest + R"(, "Mean": 0, "Norm": )" + norm +
           R"(, "requires_grad": false}], "output": [)" + Leaf("1") + "]}";
  };
  const ComparedPair first = Compare(Layer("1", "2", "3e-8"), Layer("1", "2", "1e-8"));
  ASSERT_EQ(KindOf(first), "none");
  const ComparedPair pair = Compare(second_step("0.9941", "2.008", "1.045", "33.44"),
                                    second_step("0.99", "2", "1", "32"), &first.record);
  EXPECT_EQ(KindOf(pair), "input");
  ASSERT_TRUE(pair.divergence.first_origin);
  EXPECT_EQ(pair.divergence.first_origin->entry_name, "Module.head.Linear.backward.0");
}

TEST_F(WalkOverSmallDumps, WhatCancelsHasNoScale) {
  // The bias in front of a normalisation: 64 rows of its gradient sum up to rounding.
  const auto dump = [](double largest, double smallest, double norm) {
    return Call("Functional.linear.0.forward",
                Tensor("[64, 8]", 2, -2, 0, 22) + "," + Tensor("[8, 8]", 1, -1, 0, 4) + "," +
                    Tensor("[8]", 0.5, -0.5, 0, 1),
                Tensor("[64, 8]", 3, -3, 0, 22)) +
           "," +
           Backward("Functional.linear.0.backward", Tensor("[64, 8]", 0.04, -0.03, 0, 0.2),
                    Tensor("[8]", largest, smallest, 0, norm));
  };
  const auto kind = [&](double largest, double smallest, double norm) {
    return KindOf(
        Compare(dump(largest * 4e-9, smallest * -3e-9, norm * 8e-9), dump(4e-9, -3e-9, 8e-9)));
  };
  EXPECT_EQ(kind(1.002, 1.002, 1.002), "computation");
  EXPECT_EQ(kind(0.9, 0.9, 0.9), "computation");
  EXPECT_EQ(kind(1.002, 0.95, 1.002), "none") << "other remainders";
  EXPECT_EQ(kind(1.5, 0.5, 1.1), "none");
  EXPECT_EQ(kind(2, 2, 2), "none") << "units in the last place, two for one";
}

// Errors in random directions reach Norm by the root of their number.
TEST_F(WalkOverSmallDumps, NoiseExplainsNoScale) {
  const auto dump = [](double noise, const std::string& gradient) {
    const std::string input = Tensor("[64, 64]", 1 + noise, -1, 0, 45);
    const std::string logits = Tensor("[64, 64]", 3 + 150 * noise, -3, 0, 64);
    return Call("Torch.sin.0.forward", input, input) + "," +
           Call("Functional.linear.0.forward", input + "," + Tensor("[64, 64]", 9, -9, 0, 450),
                logits) +
           "," + Call("Functional.gelu.0.forward", logits, Tensor("[64, 64]", 2, -1, 0.3, 45)) +
           "," + Backward("Functional.gelu.0.backward", Tensor("[64, 64]", 1, -1, 0, 20), gradient);
  };
  const auto compare = [&](double max, double min, double mean, double norm) {
    const std::string npu = Tensor("[64, 64]", 1.5 * max, -1.25 * min, 0.01 * mean, 20 * norm);
    return Compare(dump(1e-6, npu), dump(0, Tensor("[64, 64]", 1.5, -1.25, 0.01, 20)));
  };
  const auto scaled = [&](double factor) { return compare(factor, factor, factor, factor); };
  const ComparedPair pair = scaled(1.0001);
  ASSERT_TRUE(pair.divergence.first_origin);
  EXPECT_EQ(pair.divergence.first_origin->entry_name, "Functional.gelu.0.backward");
  EXPECT_THAT(pair.divergence.first_origin->reason, HasSubstr("times 1.0001"));
  EXPECT_EQ(KindOf(scaled(0.9999)), "computation");
  EXPECT_EQ(KindOf(scaled(1.00001)), "none") << "too close to 1 to tell";
  EXPECT_EQ(KindOf(compare(1.0001, 0.9999, 1.0001, 1.00001)), "none") << "noise";
  EXPECT_EQ(KindOf(compare(1.0001, 1.0001, 1.0001, 1.00001)), "none");
  EXPECT_EQ(KindOf(compare(1.0001, 0.9999, 1.0001, 0.9998)), "computation") << "Norm alone";
}

TEST_F(WalkOverSmallDumps, OfAParametersGradientTheLastCallIsAPart) {
  // Two backward calls of a module, of which the last has hardly an error.
  const auto dump = [](double noise, double gradient) {
    const std::string input = Tensor("[64, 64]", 1, -1, 0, 45);
    const auto backward = [&](std::string_view number, double by) {
      return Backward(fmt::format("Module.fc.Linear.backward.{}", number),
                      Tensor("[64, 64]", 1 + by, -1, 0, 20), Tensor("[64, 64]", 1 + by, -1, 0, 20));
    };
    return Call("Torch.sin.0.forward", Tensor("[64, 64]", 1 + noise / 50, -1, 0, 45), input) + "," +
           Call("Module.fc.Linear.forward.0", input, input) + "," +
           Call("Module.fc.Linear.forward.1", input, input) + "," +
           fmt::format(R"("Module.fc.Linear.parameters_grad": {{"weight": [{}]}})",
                       Tensor("[64, 64]", gradient, -gradient, 0, 10 * gradient)) +
           "," + backward("0", noise) + "," + backward("1", 0);
  };
  const std::string bench = dump(0, 1);
  EXPECT_EQ(KindOf(Compare(dump(1.2e-5, 1.00004), bench)), "none");
  EXPECT_EQ(KindOf(Compare(dump(1.2e-5, 0.99996), bench)), "none");
  EXPECT_EQ(KindOf(Compare(dump(1.2e-5, 1.00008), bench)), "computation");
}

TEST_F(WalkOverSmallDumps, NoNoiseBeforeExplainsAScaleThatEnters) {
  const auto dump = [](double noise, double largest, double norm) {
    return Call("Torch.sin.0.forward", Tensor("[64, 64]", 1 + noise / 5, -1, 0, 45),
                Tensor("[64, 64]", 1 + noise, -1, 0, 45)) +
           "," +
           Call("Torch.exp.0.forward", Tensor("[64, 64]", 2 * largest, -2 * largest, 0, 70 * norm),
                Tensor("[64, 64]", 2, -2, 0, 70));
  };
  const std::string bench = dump(0, 1, 1);
  const ComparedPair pair = Compare(dump(5e-6, 1.000025, 1.000025), bench);
  EXPECT_EQ(KindOf(pair), "input");
  ASSERT_TRUE(pair.divergence.first_origin);
  EXPECT_EQ(pair.divergence.first_origin->entry_name, "Torch.exp.0.forward");
  EXPECT_EQ(KindOf(Compare(dump(5e-6, 0.999975, 0.999975), bench)), "input");
  EXPECT_EQ(KindOf(Compare(dump(5e-6, 1.000025, 1.000001), bench)), "none") << "noise";
}

TEST_F(WalkOverSmallDumps, ARunningMeanCountsAgainstWhatItIsSubtractedFrom) {
  // Of values of size 1 a mean of size 0.001.
  const auto dump = [](double value, double mean) {
    return Call("Torch.sin.0.forward", Tensor("[64, 64]", 1, -1, 0, 64),
                Tensor("[64, 64]", value, -2, 0, 64)) +
           "," +
           Call("Functional.batch_norm.0.forward",
                Tensor("[64, 64]", value, -2, 0, 64) + "," +
                    Tensor("[64]", mean, -0.002, 0, 0.008) + "," +
                    Tensor("[64]", 1, 0.9, 0.95, 7.6),
                Tensor("[64, 64]", 2, -2, 0, 64));
  };
  const std::string bench = dump(2, 0.002);
  EXPECT_EQ(KindOf(Compare(dump(2.000002, 0.002 + 4e-6), bench)), "none");
  EXPECT_EQ(KindOf(Compare(dump(2.000002, 0.002 - 4e-6), bench)), "none");
  const ComparedPair pair = Compare(dump(2.000002, 0.0022), bench);
  ASSERT_TRUE(pair.divergence.first_origin);
  EXPECT_EQ(pair.divergence.first_origin->entry_name, "Functional.batch_norm.0.forward");
}

TEST_F(WalkOverSmallDumps, GradientsGoBackToWhereEqualIndicesChoseFrom) {
  const auto dump = [](const std::string& value, const std::string& index,
                       const std::string& gradient) {
    return Call("Torch.exp.0.forward", Leaf("0"), Leaf(value)) + "," +
           Call("Torch.topk.0.forward", Leaf(value),
                Leaf(value) + "," + Leaf(index, "torch.int64")) +
           R"(, "Torch.topk.0.backward": {"input": [)" + Leaf("1") + R"(], "output": [)" +
           Leaf(gradient) + "]}";
  };
  const ComparedPair wrong = Compare(dump("1.000001", "3", "1.1"), dump("1", "3", "1"));
  EXPECT_EQ(KindOf(wrong), "computation");
  ASSERT_TRUE(wrong.divergence.first_origin);
  EXPECT_EQ(wrong.divergence.first_origin->entry_name, "Torch.topk.0.backward");
  EXPECT_EQ(KindOf(Compare(dump("1.000001", "4", "1.1"), dump("1", "3", "1"))), "none")
      << "noise may change a choice";
}

TEST_F(WalkOverSmallDumps, NoiseThatPilesUpFailsNoGateButDrift) {
  const auto dump = [](const std::string& a, const std::string& b, const std::string& c) {
    return Call("Torch.sin.0.forward", Leaf("1"), Leaf(a)) + "," +
           Call("Torch.exp.0.forward", Leaf(a), Leaf(b)) + "," +
           Call("Torch.cos.0.forward", Leaf(b), Leaf(c));
  };
  const RunSummary summary =
      Summarize(Compare(dump("1.000001", "2.0000034", "4.00001"), dump("1", "2", "4")));
  EXPECT_EQ(VerdictOf(summary), PairVerdict::kDrifts);
  EXPECT_FALSE(GateFails(summary, "error"));
  EXPECT_FALSE(GateFails(summary, "warning"));
  EXPECT_FALSE(GateFails(summary, "different"));
  EXPECT_TRUE(GateFails(summary, "drift"));
}

TEST_F(WalkOverSmallDumps, WithChecksumsTheFirstCallThatIsNotBitEqualIsTold) {
  const auto dump = [](std::string_view checksum) {
    return Call("Torch.exp.0.forward", Leaf("1", "torch.float32", "00000001"),
                Leaf("2", "torch.float32", "00000002")) +
           "," +
           Call("Torch.sin.0.forward", Leaf("2", "torch.float32", "00000002"),
                Leaf("3", "torch.float32", checksum));
  };
  const ComparedPair pair = Compare(dump("0000000a"), dump("0000000b"));
  EXPECT_EQ(KindOf(pair), "none");
  ASSERT_TRUE(pair.divergence.first_unequal_bits);
  EXPECT_EQ(pair.divergence.first_unequal_bits->entry_name, "Torch.sin.0.forward");
  const RunSummary summary = Summarize(pair);
  EXPECT_EQ(PairVerdictName(VerdictOf(summary)), "not bit-equal");
  EXPECT_TRUE(GateFails(summary, "different"));
}

TEST_F(WalkOverSmallDumps, WithChecksumsOtherDataInAnotherOrderIsAnInput) {
  const auto dump = [](std::string_view checksum) {
    return Call("Torch.exp.0.forward", Leaf("1", "torch.float32", checksum),
                Leaf("2", "torch.float32", checksum));
  };
  const ComparedPair pair = Compare(dump("0000000a"), dump("0000000b"));
  EXPECT_EQ(KindOf(pair), "input");
  EXPECT_EQ(pair.divergence.first_origin->row_name, "Torch.exp.0.forward.input.0");
}

TEST_F(WalkOverSmallDumps, WhereNothingWasComparedEveryGateFailsAndTheAdvisorSaysSo) {
  const ComparedPair pair = Compare(Call("Torch.exp.0.forward", Leaf("1"), Leaf("2")),
                                    Call("Torch.sin.0.forward", Leaf("1"), Leaf("2")));
  const RunSummary summary = Summarize(pair);
  EXPECT_EQ(VerdictOf(summary), PairVerdict::kNothingCompared);
  for (const char* const gate : {"error", "warning", "different", "drift"}) {
    EXPECT_TRUE(GateFails(summary, gate)) << gate;
  }
  EXPECT_THAT(AdvisorText(pair.npu, pair.bench, pair.result, pair.divergence),
              HasSubstr("Expert Advice: Nothing was compared"));
}

// The shapes of all tensors of the call, made into text for each bias, would be 4 * 10^8 of them.
TEST_F(WalkOverSmallDumps, ALayerMayHaveManyBiases) {
  const auto layer = [](const std::string& value) {
    std::string biases;
    for (int i = 0; i < 20'000; ++i) {
      biases += (i == 0 ? "\"bias" : ", \"bias") + std::to_string(i) + "\": " + Leaf(value);
    }
    return R"("Module.fc.Linear.forward.0": {"input_args": [)" + Leaf("1") +
           R"(], "input_kwargs": {}, "parameters": {)" + biases + R"(}, "output": [)" + Leaf("2") +
           "]}";
  };
  const ComparedPair first = Compare(layer("1.5"), layer("1.5"));
  const ComparedPair second = Compare(layer("1.75"), layer("1.5"), &first.record);
  EXPECT_EQ(second.result.rows.size(), 20'002U);
  EXPECT_TRUE(second.divergence.first_origin);
}

}  // namespace
}  // namespace msprobe::analysis::compare
