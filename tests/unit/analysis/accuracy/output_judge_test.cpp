#include "src/analysis/accuracy/common/output_judge.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/numbers.h"
#include "src/report/readers.h"
#include "tests/unit/analysis/accuracy/golden_tensors.h"
#include "tests/unit/support/view_of.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;
using test_support::ViewOf;
using ::testing::HasSubstr;
using testing_support::GoldenTensors;
using testing_support::TextAt;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OutputValue TensorValue(const TensorView& view) {
  OutputValue value;
  value.kind = OutputValue::Kind::kTensor;
  value.type = "torch.Tensor";
  value.tensor = view;
  return value;
}

OutputValue ListOf(std::vector<OutputValue> items) {
  OutputValue value;
  value.kind = OutputValue::Kind::kList;
  value.type = "list";
  value.items = std::move(items);
  return value;
}

OutputValue ReadValue(const dump::EntryTree& tree, uint32_t place, const GoldenTensors& tensors) {
  OutputValue value;
  if (place == dump::EntryTree::kNone || tree[place].kind == dump::NodeKind::kNull) {
    value.type = "NoneType";
    return value;
  }
  if (tree.Find(place, "tensor") != dump::EntryTree::kNone) {
    return TensorValue(tensors.Get(TextAt(tree, place, "tensor")));
  }
  if (const uint32_t list = tree.Find(place, "list"); list != dump::EntryTree::kNone) {
    std::vector<OutputValue> items;
    tree.ForEachChild(list,
                      [&](uint32_t item) { items.push_back(ReadValue(tree, item, tensors)); });
    return ListOf(std::move(items));
  }
  value.kind = OutputValue::Kind::kScalar;
  value.type = TextAt(tree, place, "pytype");
  const dump::Node& scalar = tree[tree.Find(place, "value")];
  value.text = scalar.kind == dump::NodeKind::kText ? std::string(scalar.text)
                                                    : std::to_string(scalar.number);
  return value;
}

// The rows of the Python tool by name.
std::map<std::string, std::vector<std::string>> ReadRows(const fs::path& path) {
  const Result<report::Table> table = report::ReadCsv(path);
  EXPECT_TRUE(table.ok());
  std::map<std::string, std::vector<std::string>> rows;
  for (size_t i = 0; i < table->row_count(); ++i) {
    std::vector<std::string>& cells = rows[std::string(table->row(i)[0].text())];
    for (const report::Cell& cell : table->row(i)) {
      cells.emplace_back(cell.text());
    }
  }
  return rows;
}

bool SameCell(const std::string& ours, const std::string& theirs) {
  if (ours == theirs) {
    return true;
  }
  const std::optional<double> a = base::ParseDouble(ours);
  const std::optional<double> b = base::ParseDouble(theirs);
  return a && b && ours.find('.') != std::string::npos &&
         std::fabs(*a - *b) <= std::max(2e-6 * std::fabs(*b), 1e-12);
}

TEST(OutputJudge, GivesTheRowsOfThePythonTool) {
  const fs::path folder = fs::path(MSPROBE_TEST_DATA) / "accuracy/compare";
  const dump::EntryTree cases = testing_support::ReadJson(folder / "cases.json");
  const GoldenTensors tensors(folder / "tensors.npz");
  const auto expected = ReadRows(folder / "details.csv");
  const auto results = ReadRows(folder / "result.csv");
  size_t rows = 0;
  cases.ForEachChild(0, [&](uint32_t place) {
    const std::string name = TextAt(cases, place, "api_full_name");
    if (cases.Find(place, "reference_exception") != dump::EntryTree::kNone) {
      return;
    }
    for (const std::string direction : {"forward", "backward"}) {
      const bool forward = direction == "forward";
      const uint32_t bench = cases.Find(place, forward ? "bench_output" : "bench_grad");
      const uint32_t device = cases.Find(place, forward ? "device_output" : "device_grad");
      if (bench == dump::EntryTree::kNone) {
        continue;
      }
      const Result<JudgedOutputs> judged =
          JudgeOutputs(name, direction, ReadValue(cases, bench, tensors),
                       ReadValue(cases, device, tensors), Standards::BuiltIn(), {});
      if (!judged.ok()) {
        EXPECT_EQ(judged.status().message(), "list index out of range") << name;
        EXPECT_EQ(results.count(name), 0U);
        continue;
      }
      if (!judged->rows.empty() || forward) {
        EXPECT_EQ(OutcomeText(judged->outcome), results.at(name)[forward ? 1 : 2]) << name;
      }
      for (const DetailRow& row : judged->rows) {
        ASSERT_EQ(expected.count(row.cells[0]), 1U) << row.cells[0];
        const std::vector<std::string>& theirs = expected.at(row.cells[0]);
        ++rows;
        for (size_t column = 0; column < detail_column::kCount; ++column) {
          EXPECT_TRUE(SameCell(row.cells[column], theirs[column]))
              << name << " " << kDetailColumns[column].english << ": " << row.cells[column]
              << " instead of " << theirs[column];
        }
      }
    }
  });
  EXPECT_EQ(rows + 1, expected.size());  // that of a skipped backward is made elsewhere
}

TEST(OutputJudge, IsStrictWhenAsked) {
  const std::vector<double> bench = {1, 2, kInfinity};
  const std::vector<float> device = {1, 2, static_cast<float>(kInfinity)};
  OutputJudgeOptions strict;
  strict.strict = true;
  const auto judge = [&](const OutputValue& b, const OutputValue& d,
                         const OutputJudgeOptions& options) {
    return JudgeOutputs("Torch.exp.0", "forward", b, d, Standards::BuiltIn(), options);
  };
  // inf at the same place on both sides is no error.
  const OutputValue b = TensorValue(ViewOf(bench, {3}));
  const OutputValue d = TensorValue(ViewOf(device, {3}));
  EXPECT_EQ(judge(b, d, {})->outcome, Outcome::kError);
  EXPECT_TRUE(judge(b, d, {})->only_equal_non_finite);
  EXPECT_EQ(judge(b, d, strict)->outcome, Outcome::kPass);
  EXPECT_THAT(judge(b, d, strict)->rows[0].cells[detail_column::kMessage],
              HasSubstr("same on both sides"));
  // Lists are as long as each other, and may hold lists.
  EXPECT_FALSE(judge(ListOf({b, b}), ListOf({d}), {}).ok());
  EXPECT_EQ(judge(ListOf({b, b}), ListOf({d}), strict)->outcome, Outcome::kError);
  EXPECT_EQ(judge(ListOf({ListOf({b})}), ListOf({ListOf({d})}), {})->outcome, Outcome::kError);
  EXPECT_EQ(judge(ListOf({ListOf({b})}), ListOf({ListOf({d})}), strict)->outcome, Outcome::kPass);
  // Narrow integers are compared.
  const std::vector<int8_t> small = {1, 2};
  const OutputValue narrow = TensorValue(ViewOf(small, {2}, DType::kInt8));
  EXPECT_EQ(judge(narrow, narrow, {})->outcome, Outcome::kError);
  EXPECT_EQ(judge(narrow, narrow, strict)->outcome, Outcome::kPass);
  OutputJudgeOptions newer;
  newer.version = StandardVersion::k26;
  EXPECT_EQ(judge(narrow, narrow, newer)->outcome, Outcome::kPass);
}

TEST(OutputJudge, KeepsAnErrorInFrontOfAWarningWhenStrict) {
  const std::vector<double> bench = {1, 2, 3, 4};
  const std::vector<float> wrong = {1.1F, 2.3F, 2.6F, 4};
  const std::vector<float> near = {1.0005F, 2.001F, 3.001F, 4.002F};
  const OutputValue b = TensorValue(ViewOf(bench, {4}));
  const OutputValue lists[2] = {
      ListOf({b, b}), ListOf({TensorValue(ViewOf(wrong, {4})), TensorValue(ViewOf(near, {4}))})};
  OutputJudgeOptions strict;
  strict.strict = true;
  const auto outcome = [&](const OutputJudgeOptions& options) {
    return JudgeOutputs("Torch.split.0", "forward", lists[0], lists[1], Standards::BuiltIn(),
                        options)
        ->outcome;
  };
  EXPECT_EQ(outcome({}), Outcome::kWarning);
  EXPECT_EQ(outcome(strict), Outcome::kError);
}

TEST(OutputJudge, TellsAboutEmptyTensorsByVersion) {
  const std::vector<double> none;
  const OutputValue empty = TensorValue(ViewOf(none, {3, 0}));
  OutputJudgeOptions newer;
  newer.version = StandardVersion::k26;
  EXPECT_EQ(JudgeOutputs("a.b.0", "forward", empty, empty, Standards::BuiltIn(), {})->outcome,
            Outcome::kError);
  const Result<JudgedOutputs> skipped =
      JudgeOutputs("a.b.0", "forward", empty, empty, Standards::BuiltIn(), newer);
  EXPECT_EQ(skipped->rows[0].outcome, Outcome::kSkip);
  EXPECT_EQ(skipped->rows[0].cells[detail_column::kShape], "(3, 0)");
}

TEST(OutputJudge, AllowsQuantisedIntegersADifferenceOfOneSince26) {
  const std::vector<int8_t> bench = {1, 2};
  const std::vector<int8_t> device = {2, 2};
  OutputJudgeOptions newer;
  newer.version = StandardVersion::k26;
  const Result<JudgedOutputs> judged = JudgeOutputs(
      "NPU.npu_dynamic_quant.0", "forward", TensorValue(ViewOf(bench, {2}, DType::kInt8)),
      TensorValue(ViewOf(device, {2}, DType::kInt8)), Standards::BuiltIn(), newer);
  EXPECT_EQ(judged->outcome, Outcome::kPass);
  EXPECT_THAT(judged->rows[0].cells[detail_column::kMessage],
              HasSubstr("Max abs error is 1.00, less than or equal to 1"));
}

TEST(MetricNumber, IsSpelledAsItsTypeWouldBe) {
  EXPECT_EQ(CellOf(MetricNumber::Double(0.000035), 14), "0.00003500000000");
  EXPECT_EQ(CellOf(MetricNumber::Double(kNaN), 14), "nan");
  EXPECT_EQ(CellOf(MetricNumber::Double(kInfinity), 14), "inf");
  EXPECT_EQ(CellOf(MetricNumber::Double(1.5), 2), "1.50");
  EXPECT_EQ(CellOf(MetricNumber::Zero(), 14), "0");
  EXPECT_EQ(CellOf({}, 14), " ");
  const auto single = [](float value) {
    return CellOf({static_cast<double>(value), MetricNumber::Form::kSingle}, 14);
  };
  EXPECT_EQ(single(1.8434861e-05F), "1.8434861e-05");
  EXPECT_EQ(single(0.F), "0.0");
  EXPECT_EQ(single(0.1F), "0.1");
  EXPECT_EQ(single(16777216.F), "16777216.0");
  EXPECT_EQ(CellOf({0.0009765625, MetricNumber::Form::kHalf}, 14), "0.000977");
}

}  // namespace
}  // namespace msprobe::analysis::accuracy
