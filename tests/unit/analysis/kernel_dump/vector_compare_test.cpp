// Recorded dumps of a small chip against the tables that the vendor's tool made of them.
#include "src/analysis/kernel_dump/vector_compare.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/kernel_dump/vector_document.h"
#include "src/base/numbers.h"
#include "tests/unit/support/csv_rows.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
using test_support::CsvRows;
using test_support::Slurp;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

const fs::path kNano = fs::path(MSPROBE_TEST_DATA) / "kernel_dump" / "nano";

// The vendor's tool counts in the type of the arrays, float32 at best.
void ExpectSameCell(const std::string& expected, const std::string& found, double precision,
                    const std::string& where) {
  const std::optional<double> a = base::ParseDouble(expected);
  const std::optional<double> b = base::ParseDouble(found);
  if (a && b && std::isfinite(*a) && std::isfinite(*b)) {
    EXPECT_NEAR(*a, *b, 2e-6 + precision * std::fabs(*a)) << where;
  } else {
    EXPECT_EQ(expected == "-0.000000" ? "0.000000" : expected, found) << where;
  }
}

VectorFindings Compare(const VectorOptions& options) {
  Result<VectorFindings> findings = CompareVectors(options);
  EXPECT_TRUE(findings.ok()) << findings.status().message();
  return findings.ok() ? *std::move(findings) : VectorFindings();
}

TEST(CompareVectors, GivesTheTableOfTheVendorsTool) {
  const TemporaryFolder scratch;
  const VectorFindings findings = Compare({.mine = kNano / "mine",
                                           .golden = kNano / "golden",
                                           .output = scratch / "out",
                                           .overflow = true});
  const std::vector<std::vector<std::string>> expected = CsvRows(Slurp(kNano / "expected.csv"));
  const std::vector<std::vector<std::string>> found = CsvRows(Slurp(findings.table));
  ASSERT_EQ(expected.size(), found.size());
  EXPECT_EQ(expected[0], found[0]);
  for (size_t row = 1; row < expected.size(); ++row) {
    ASSERT_EQ(expected[row].size(), found[row].size());
    const double precision = expected[row][3] == "float16" ? 1e-4 : 2e-7;
    // The reason, last, is in our own words.
    for (size_t column = 0; column + 1 < expected[row].size(); ++column) {
      ExpectSameCell(expected[row][column], found[row][column], precision,
                     expected[row][2] + ", " + expected[0][column]);
    }
  }
}

TEST(CompareVectors, NamesTheFirstOperatorBeyondTheLimits) {
  const TemporaryFolder scratch;
  const VectorFindings findings =
      Compare({.mine = kNano / "mine", .golden = kNano / "golden", .output = scratch / "out"});
  ASSERT_NE(findings.FirstBad(), nullptr);
  EXPECT_EQ(findings.FirstBad()->tensor, "net_Add_1:output:0");
  const report::Document document = MakeDocument(findings);
  EXPECT_THAT(document.verdict.text, HasSubstr("it starts with net_Add_1:output:0 (Add)"));
  const VectorFindings same =
      Compare({.mine = kNano / "mine", .golden = kNano / "mine", .output = scratch / "same"});
  EXPECT_EQ(same.failed(), 0U);
  EXPECT_EQ(same.FirstBad()->tensor, "nan:input:0") << "NaN on both sides is within no limit";
}

TEST(CompareVectors, ComparesAnotherLayoutAsTheFrameworkKnowsIt) {
  const TemporaryFolder scratch;
  Options convert;
  convert.inputs = {kNano.parent_path() / "dumps" / "Conv2D.Conv2D_5hd.5.1.1700000000001005"};
  convert.output = scratch / "arrays";
  convert.to_original = true;
  ASSERT_TRUE(kernel_dump::Run(convert).ok());
  fs::create_directory(scratch / "golden");
  fs::rename(scratch / "arrays/Conv2D.Conv2D_5hd.5.1.1700000000001005.output.0.npy",
             scratch / "golden/Conv2D_5hd.0.1700000000001005.npy");
  const VectorFindings findings =
      Compare({.mine = convert.inputs[0], .golden = scratch / "golden", .output = scratch / "out"});
  ASSERT_EQ(findings.compared(), 1U);
  EXPECT_EQ(findings.rows[0].measures->value(Measure::kMaxAbsolute), 0);
}

TEST(CompareVectors, ANumberInTheNameOfAnArrayMakesNoRowsOfThoseInFrontOfIt) {
  const TemporaryFolder scratch;
  const fs::path dump = kNano.parent_path() / "dumps" / "Conv2D.Conv2D_5hd.5.1.1700000000001005";
  Options convert;
  convert.inputs = {dump};
  convert.output = scratch / "arrays";
  convert.to_original = true;
  ASSERT_TRUE(kernel_dump::Run(convert).ok());
  fs::create_directory(scratch / "golden");
  const fs::path array = scratch / "arrays/Conv2D.Conv2D_5hd.5.1.1700000000001005.output.0.npy";
  fs::copy_file(array, scratch / "golden/Conv2D_5hd.0.1700000000001005.npy");
  fs::copy_file(array, scratch / "golden/Conv2D_5hd.65535.1700000000001005.npy");
  const VectorFindings findings =
      Compare({.mine = dump, .golden = scratch / "golden", .output = scratch / "out"});
  ASSERT_LE(findings.rows.size(), 4U);
  EXPECT_EQ(findings.compared(), 1U);
  EXPECT_EQ(findings.rows.back().tensor, "Conv2D_5hd:output:65535");
  EXPECT_THAT(findings.rows.back().status.message(), HasSubstr("has no such tensor"));
}

TEST(CompareVectors, DoesNotDependOnThreads) {
  const TemporaryFolder scratch;
  std::string first;
  for (const size_t threads : {1, 4}) {
    const fs::path output = scratch / std::to_string(threads);
    const VectorFindings findings = Compare(
        {.mine = kNano / "mine", .golden = kNano / "golden", .output = output, .threads = threads});
    const std::string text = Slurp(findings.table);
    EXPECT_TRUE(first.empty() || first == text);
    first = text;
  }
}

TEST(CompareVectors, DamagedFilesAndShapesThatDifferAreRowsWithAReason) {
  const TemporaryFolder scratch;
  fs::copy(kNano / "mine", scratch / "mine");
  fs::copy(kNano / "golden", scratch / "golden");
  fs::resize_file(scratch / "mine/Add.net_Add_1.1.1.1700000000001001", 40);
  fs::rename(scratch / "golden/T.two.4.1.1700000000002003",
             scratch / "golden/T.scaled.11.1.1700000000002010");
  const VectorFindings findings =
      Compare({.mine = scratch / "mine", .golden = scratch / "golden", .output = scratch / "out"});
  EXPECT_FALSE(findings.rows[0].measures.has_value());
  EXPECT_FALSE(findings.rows[0].reasons.empty());
  const std::string table = Slurp(findings.table);
  EXPECT_THAT(table, HasSubstr("the shapes differ, [50] and [2]"));
  EXPECT_THAT(table, HasSubstr("half_limit:output:0"));
}

TEST(CompareVectors, AFolderWithoutDumpsIsAnError) {
  const TemporaryFolder scratch;
  EXPECT_EQ(CompareVectors(
                {.mine = scratch.path(), .golden = kNano / "golden", .output = scratch / "out"})
                .status()
                .code(),
            StatusCode::kNotFound);
}

// A plain loop over the formulas of the header, in long double.
std::vector<double> NaiveMeasures(const std::vector<float>& m, const std::vector<float>& g) {
  using Real = long double;
  const auto n = static_cast<Real>(m.size());
  Real dot = 0, mm = 0, gg = 0, most = 0, relative = 0, most_relative = 0, squares = 0, sum = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    const Real x = m[i], y = g[i], d = std::fabs(x - y);
    dot += x * y, mm += x * x, gg += y * y, squares += d * d, sum += d;
    most = std::max(most, d);
    const Real r = y == 0 ? 0 : d / std::fabs(y);
    relative += r;
    most_relative = std::max(most_relative, r);
  }
  const auto shares = [](const std::vector<float>& v) {
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    std::vector<Real> p;
    Real total = 0;
    for (const float x : v) {
      p.push_back(*low == *high ? Real{0x1p-23}
                                : std::max<Real>((Real{x} - *low) / (Real{*high} - *low), 0x1p-23));
      total += p.back();
    }
    for (Real& x : p) {
      x /= total;
    }
    return p;
  };
  const std::vector<Real> p = shares(m), q = shares(g);
  Real entropy = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    entropy += p[i] * std::log(p[i] / q[i]);
  }
  const auto as = [](Real x) { return static_cast<double>(x); };
  return {as(dot / std::sqrt(mm * gg)),
          as(most),
          as(relative),
          as(std::sqrt(squares / gg)),
          as(entropy),
          0,
          as(sum / n),
          as(std::sqrt(squares / n)),
          as(most_relative),
          as(relative / n)};
}

TEST(MeasureVectors, AgreesWithAPlainLoop) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const size_t count : {1U, 2U, 3U, 255U, 257U, 40000U}) {
    std::vector<float> m(count), g(count);
    for (size_t i = 0; i < count; ++i) {
      g[i] = i % 7 == 3 ? 0 : normal(random);
      m[i] = g[i] + 0.01F * normal(random);
    }
    const auto view = [&](const std::vector<float>& values) {
      TensorView made;
      made.dtype = DType::kFloat32;
      made.shape = {static_cast<int64_t>(count)};
      made.strides = ContiguousStrides(made.shape);
      made.data = reinterpret_cast<const std::byte*>(values.data());
      made.extent_bytes = values.size() * sizeof(float);
      return made;
    };
    const VectorMeasures measures = MeasureVectors(view(m), view(g));
    const std::vector<double> expected = NaiveMeasures(m, g);
    for (size_t i = 0; i < kMeasureCount; ++i) {
      const auto measure = static_cast<Measure>(i);
      if (measure != Measure::kStandardDeviation) {
        EXPECT_NEAR(measures.value(measure), expected[i], 1e-9 * (1 + std::fabs(expected[i])))
            << MeasureName(measure) << " of " << count;
      }
    }
  }
}

TEST(ReportElements, GivesTheFilesOfTheVendorsTool) {
  const TemporaryFolder scratch;
  ElementReportOptions options;
  options.sides = {.mine = kNano / "mine", .golden = kNano / "golden", .output = scratch / "out"};
  options.op_name = "net_Add_1";
  options.most_shown = 3;
  const Result<ElementReport> report = ReportElements(options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kNano / "expected_elements")) {
    // Of ratios that differ in the last digit of float32 only, the tool's order is its own.
    if (entry.path().filename().string().find("relative") == std::string::npos) {
      EXPECT_EQ(Slurp(entry.path()), Slurp(scratch / "out" / entry.path().filename()));
      ++files;
    }
  }
  EXPECT_EQ(files, 3U);
  EXPECT_EQ(report->by_relative[0].index, 6U);
  EXPECT_EQ(report->files.size(), 5U);
}

TEST(ReportElements, SplitsTheTableAndRefusesWhatIsNotThere) {
  const TemporaryFolder scratch;
  ElementReportOptions options;
  options.sides = {.mine = kNano / "mine", .golden = kNano / "golden", .output = scratch / "out"};
  options.op_name = "half_limit";
  options.lines_per_file = 50;
  ASSERT_TRUE(ReportElements(options).ok());
  EXPECT_EQ(CsvRows(Slurp(scratch / "out/half_limit_output_0_0.csv")).size(), 51U);
  EXPECT_EQ(CsvRows(Slurp(scratch / "out/half_limit_output_0_50.csv")).size(), 15U);
  options.number = 1;
  EXPECT_EQ(ReportElements(options).status().code(), StatusCode::kUsage);
  options.op_name = "nobody";
  EXPECT_EQ(ReportElements(options).status().code(), StatusCode::kNotFound);
}

TEST(ConvertNanoDumps, GivesTheArraysOfTheVendorsTool) {
  const TemporaryFolder scratch;
  Options options;
  options.inputs = {kNano / "mine"};
  options.output = scratch / "arrays";
  ASSERT_TRUE(kernel_dump::Run(options).ok());
  for (const auto& entry : fs::directory_iterator(kNano / "expected_arrays")) {
    EXPECT_EQ(Slurp(entry.path()), Slurp(scratch / "arrays" / entry.path().filename()))
        << entry.path();
  }
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
