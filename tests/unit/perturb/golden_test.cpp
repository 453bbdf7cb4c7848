// Recorded inputs, results and verdicts of the Python tool.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/perturb/agreement.h"
#include "src/perturb/noise_floor.h"
#include "src/perturb/perturbation.h"
#include "src/perturb/ratio.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::perturb {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path GoldenFolder() {
  const char* named = std::getenv("MSPROBE_GOLDEN");
  const fs::path root =
      named != nullptr ? fs::path(named) : fs::path(MSPROBE_TEST_DATA) / "../../../shared/golden";
  return root / "free_benchmark/cases";
}

// A tensor of a file, with the file.
class Stored {
 public:
  explicit Stored(const std::string& name) {
    Result<TensorFile> file = TensorFile::Open(GoldenFolder() / "tensors" / name);
    EXPECT_TRUE(file.ok()) << file.status().message();
    file_.emplace(*std::move(file));
    Result<const NamedTensor*> tensor = file_->Single();
    EXPECT_TRUE(tensor.ok());
    view_ = (*tensor)->view;
    if (name.find(".bf16.") != std::string::npos) view_.dtype = DType::kBFloat16;
  }
  const TensorView& view() const { return view_; }

 private:
  std::optional<TensorFile> file_;
  TensorView view_;
};

Mode ModeOf(const std::string& name) {
  if (name == "add_noise") return Mode::kAddNoise;
  if (name == "bit_noise") return Mode::kBitNoise;
  if (name == "change_value") return Mode::kChangeValue;
  if (name == "improve_precision") return Mode::kImprovePrecision;
  return Mode::kNoChange;
}

bool IsClose(double got, double expected) {
  return got == expected || std::abs(got - expected) <= 1e-6 * std::abs(expected);
}

class Golden : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path path = GoldenFolder() / "expected.json";
    if (!fs::exists(path)) GTEST_SKIP() << "no " << path << " (set MSPROBE_GOLDEN)";
    std::FILE* file = std::fopen(path.c_str(), "rb");
    ASSERT_NE(file, nullptr);
    expected_ = Json::parse(file);
    std::fclose(file);
  }
  Json expected_;
};

// NaN payloads may differ.
void ExpectSameElements(const TensorView& got, const TensorView& expected, const Json& what) {
  ASSERT_EQ(got.dtype, expected.dtype) << what;
  ASSERT_EQ(got.shape, expected.shape) << what;
  const std::span<const std::byte> left = got.bytes();
  const auto right_buffer = tensor::MakeContiguous(expected, 1U << 30U);
  ASSERT_TRUE(right_buffer.ok());
  const TensorView right_view = right_buffer->view();
  const std::span<const std::byte> right = right_view.bytes();
  const size_t size = DTypeSize(got.dtype);
  for (size_t at = 0; at < left.size(); at += size) {
    if (std::memcmp(left.data() + at, right.data() + at, size) == 0) continue;
    if (got.dtype == DType::kFloat32) {
      float values[2];
      std::memcpy(&values[0], left.data() + at, size);
      std::memcpy(&values[1], right.data() + at, size);
      if (std::isnan(values[0]) && std::isnan(values[1])) continue;
    }
    ADD_FAILURE() << "element " << at / size << " of " << what;
    return;
  }
}

TEST_F(Golden, TensorsAreChangedBitByBitAlike) {
  size_t compared = 0;
  for (const Json& entry : expected_["perturb"]) {
    if (!entry.contains("api_input") || !entry["api_input"].is_string()) continue;
    const Stored input(entry["input"]);
    const Mode mode = ModeOf(entry["mode"]);
    tensor::TensorBuffer out(PerturbedDType(input.view().dtype, mode), input.view().shape);
    const Result<bool> changed = Perturb(input.view(), mode, out.mutable_bytes());
    ASSERT_TRUE(changed.ok());
    EXPECT_EQ(*changed || mode == Mode::kNoChange, entry["status"] == "perturbed") << entry;
    ExpectSameElements(out.view(), Stored(entry["api_input"]).view(), entry);
    ++compared;
  }
  EXPECT_GT(compared, 150U);
}

TEST_F(Golden, RatiosAndVerdictsAreAlike) {
  size_t compared = 0;
  for (const Json& entry : expected_["compare"]) {
    const Json& original = entry["original"];
    if (!original.contains("tensor") || entry["ratio"].is_null()) continue;
    const Stored left(original["tensor"]);
    const Stored right(entry["perturbed"]["tensor"]);
    RatioRules rules;
    rules.backward = entry["stage"] == "backward";
    rules.threshold = entry["mode"] == "no_change" ? 1 : DefaultThreshold(left.view().dtype);
    for (const bool compat : {false, true}) {
      rules.compat = compat;
      const Result<RatioResult> result = CompareRatios(left.view(), right.view(), rules);
      ASSERT_TRUE(result.ok());
      const std::string ratio = entry["ratio"];
      EXPECT_EQ(result->sign_changes, ratio == "symbol_flipping") << entry;
      if (!result->sign_changes) {
        EXPECT_TRUE(IsClose(result->ratio, std::strtod(ratio.c_str(), nullptr)))
            << result->ratio << entry;
      }
      // Results without floating tensors are not compared at all: the shim's business.
      if (GetDTypeInfo(right.view().dtype).kind == DTypeKind::kFloat) {
        EXPECT_EQ(result->consistent(rules.threshold), entry["consistent"]) << entry;
      }
    }
    ++compared;
  }
  EXPECT_GT(compared, 40U);
}

TEST_F(Golden, DeviceAndCpuAgreeAlike) {
  for (const Json& entry : expected_["to_cpu_compare"]) {
    const Stored actual(entry["actual"]);
    const Stored golden(entry["golden"]);
    const Result<CpuAgreement> result = CompareWithCpu(actual.view(), golden.view(), true);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->consistent, entry["consistent"]) << entry;
    const std::pair<std::optional<double>, const char*> numbers[] = {
        {result->absolute_error, "absolute_err"},
        {result->relative_error, "relative_err"},
        {result->error_balance, "eb"}};
    for (const auto& [got, key] : numbers) {
      ASSERT_EQ(got.has_value(), !entry[key].is_null()) << entry;
      EXPECT_TRUE(!got || IsClose(*got, entry[key])) << entry;
    }
  }
}

TEST_F(Golden, ThresholdsAdaptAlike) {
  for (const Json& entry : expected_["preheat"]) {
    PreheatThreshold threshold;
    const int64_t wanted =
        SamplesPerStep(entry["calls_per_step"], entry["preheat_step"], entry["max_sample"]);
    for (const Json& step : entry["steps"]) {
      std::vector<double> consistent;
      std::vector<double> inconsistent;
      for (const Json& sample : step["samples"]) {
        if (!threshold.adapts) continue;
        (sample[1].get<bool>() ? consistent : inconsistent).push_back(sample[0]);
        if (static_cast<int64_t>(consistent.size() + inconsistent.size()) >= wanted) {
          Adapt(threshold, consistent, inconsistent, 1.0002);
        }
      }
      EXPECT_EQ(threshold.value, step["threshold_after"].get<double>()) << entry["why"] << step;
      EXPECT_EQ(threshold.adapts, step["still_preheating"].get<bool>()) << entry["why"] << step;
    }
  }
}

TEST_F(Golden, TheSameCallsAreSampled) {
  for (const Json& entry : expected_["preheat_sampling"]) {
    const int64_t calls = entry["calls_in_step0"];
    std::vector<int64_t> sampled;
    for (int64_t number = 1; number <= calls; ++number) {
      if (IsSampled(number, calls, entry["preheat_step"], entry["max_sample"], entry["step"])) {
        sampled.push_back(number);
      }
    }
    auto expected = entry["sampled_call_numbers"].get<std::vector<int64_t>>();
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    EXPECT_EQ(sampled, expected) << entry;
  }
}

}  // namespace
}  // namespace msprobe::perturb
