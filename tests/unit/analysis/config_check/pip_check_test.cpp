#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/config_check/made_packs.h"

namespace msprobe::analysis::config_check {
namespace {

using test_support::Done;
using test_support::FindingThat;
using test_support::MadePacks;
using test_support::Rows;
using test_support::Sentences;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

CheckResult CheckedPackages(const std::string& bench, const std::string& cmp,
                            const CheckOptions& options = {}) {
  const MadePacks packs({{"pip", bench}}, {{"pip", cmp}});
  return Done(CheckPip(packs.pair(), options));
}

CheckOptions Compat() {
  CheckOptions options;
  options.compat = true;
  return options;
}

TEST(CheckPip, PassesWhereThePackagesThatMatterAreAlike) {
  const CheckResult result =
      CheckedPackages("numpy=1.24.2\nrich=1.0\n", "numpy=1.24.2\r\nrich=2.0\nblack=3\n");
  EXPECT_TRUE(result.passed);
  EXPECT_THAT(Rows(result.table), IsEmpty());
  EXPECT_THAT(result.findings, IsEmpty());
}

TEST(CheckPip, NamesThePackagesThatDiffer) {
  const CheckResult result =
      CheckedPackages("numpy=1.24.2\ndatasets=1\n", "numpy=1.24.3\npeft=0.1\ndatasets=1\n");
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.errors, 2U);
  EXPECT_THAT(Rows(result.table), ElementsAre("numpy|1.24.2|1.24.3|error", "peft|None|0.1|error"));
  const Finding finding = FindingThat(result, "2 of the packages that matter differ");
  EXPECT_THAT(finding.examples, ElementsAre("numpy: 1.24.3 / 1.24.2", "peft: 0.1 / None"));
  EXPECT_THAT(finding.fix, HasSubstr("pip install"));
}

TEST(CheckPip, TheLaterLineOfAPackageCounts) {
  EXPECT_TRUE(CheckedPackages("numpy=1\nnumpy=2\n", "numpy=2\n").passed);
}

TEST(CheckPip, ComparesTheFrameworkThatWasNamed) {
  CheckOptions options = Compat();
  EXPECT_TRUE(CheckedPackages("torch=2.1\n", "torch=2.0\n", options).passed);
  options.framework = "torch";
  EXPECT_THAT(Rows(CheckedPackages("torch=2.1\n", "torch=2.0\n", options).table),
              ElementsAre("torch|2.1|2.0|error"));
}

TEST(CheckPip, AnotherBuildOfOneVersionIsAWarning) {
  const CheckResult result = CheckedPackages("torch=2.1.0+cu118\n", "torch=2.1.0\n");
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.warnings, 1U);
  EXPECT_THAT(Rows(result.table), ElementsAre("torch|2.1.0+cu118|2.1.0|warning"));
  EXPECT_EQ(FindingThat(result, "other builds").severity, Severity::kWarning);
}

TEST(CheckPip, AFrameworkOnOneSideOnlyIsAnErrorAndAPluginIsNot) {
  EXPECT_FALSE(CheckedPackages("torch=2.1\n", "").passed);
  const CheckResult plugin = CheckedPackages("torch_npu=2.1\n", "");
  EXPECT_TRUE(plugin.passed);
  EXPECT_THAT(Rows(plugin.table), ElementsAre("torch_npu|2.1|None|warning"));
  EXPECT_EQ(FindingThat(plugin, "only one side has").severity, Severity::kNote);
}

TEST(CheckPip, FurtherPackagesMayBeSpelledInAnyWay) {
  EXPECT_TRUE(CheckedPackages("torch_npu=2.1\n", "Torch.NPU=2.1\n").passed);
  EXPECT_FALSE(CheckedPackages("torch_npu=2.1\n", "torch--npu=2.2\n").passed);
}

TEST(CheckPip, StandardPackagesAreToldBySpellingAsThePythonToolDoes) {
  const CheckResult strict = CheckedPackages("numpy=1.24\n", "NumPy=1.24\n");
  EXPECT_THAT(Rows(strict.table), ElementsAre("numpy|1.24|None|error"));
  const Finding unseen = FindingThat(strict, "the sheet does not recognise");
  EXPECT_THAT(unseen.examples, ElementsAre("numpy: NumPy=1.24 / numpy=1.24"));
  CheckOptions options;
  options.normalize_pip = true;
  EXPECT_TRUE(CheckedPackages("numpy=1.24\n", "NumPy=1.24\n", options).passed);
}

TEST(CheckPip, AVersionWithAnEqualSignIsNoneForThePythonTool) {
  EXPECT_THAT(Rows(CheckedPackages("numpy==1.24\n", "numpy=1.24\n", Compat()).table),
              ElementsAre("numpy|None|1.24|error"));
  CheckOptions options;
  options.normalize_pip = true;
  EXPECT_TRUE(CheckedPackages("numpy==1.24\n", "numpy=1.24\n", options).passed);
}

TEST(CheckPip, CompatibleRowsAreThoseOfTheStandardPackagesOnly) {
  EXPECT_THAT(Rows(CheckedPackages("torch=1\nTransformers=4\n", "torch=2\n", Compat()).table),
              IsEmpty());
  EXPECT_THAT(Rows(CheckedPackages("torch=1\nTransformers=4\n", "torch=2\n").table),
              ElementsAre("transformers|4|None|error", "torch|1|2|error"));
}

}  // namespace
}  // namespace msprobe::analysis::config_check
