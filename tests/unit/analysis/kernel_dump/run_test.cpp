// The recorded dumps against the arrays that the Python tool made of them.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/kernel_dump.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

const fs::path kData = fs::path(MSPROBE_TEST_DATA) / "kernel_dump";

void ExpectSameArray(const fs::path& expected_path, const fs::path& path) {
  const Result<TensorFile> expected = TensorFile::Open(expected_path);
  const Result<TensorFile> found = TensorFile::Open(path);
  ASSERT_TRUE(expected.ok() && found.ok()) << path;
  const TensorView& a = expected->tensors().front().view;
  const TensorView& b = found->tensors().front().view;
  EXPECT_EQ(a.shape, b.shape) << path;
  if (a.element_count() > 0) {  // the Python tool forgets the type of an empty array
    EXPECT_EQ(a.dtype, b.dtype) << path;
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(a.data), a.size_bytes()),
              std::string_view(reinterpret_cast<const char*>(b.data), b.size_bytes()))
        << path;
  }
}

Findings Convert(Options options) {
  Result<Findings> findings = Run(options);
  EXPECT_TRUE(findings.ok()) << findings.status().message();
  return findings.ok() ? *std::move(findings) : Findings();
}

size_t FilesIn(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ConvertKernelDumps, GivesTheArraysOfThePythonTool) {
  const TemporaryFolder scratch;
  Options options;
  options.inputs = {kData / "dumps"};
  options.output = scratch / "raw";
  const Findings findings = Convert(options);
  EXPECT_EQ(findings.failed_files(), 0U);
  size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(kData / "expected_raw")) {
    const fs::path found = scratch / "raw" / entry.path().filename();
    ASSERT_TRUE(fs::exists(found)) << found;
    if (entry.path().extension() == ".npy") {
      ExpectSameArray(entry.path(), found);
    } else {
      EXPECT_EQ(Slurp(entry.path()), Slurp(found)) << found;
    }
    ++compared;
  }
  EXPECT_EQ(compared, FilesIn(scratch / "raw"));
}

TEST(ConvertKernelDumps, ToOriginalGivesWhatTheFrameworkSees) {
  const TemporaryFolder scratch;
  Options options;
  options.inputs = {kData / "dumps"};
  options.output = scratch / "plain";
  options.to_original = true;
  options.index = true;
  EXPECT_EQ(Convert(options).failed_files(), 0U);
  size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(kData / "expected_plain")) {
    ExpectSameArray(entry.path(), scratch / "plain" / entry.path().filename());
    ++compared;
  }
  EXPECT_EQ(compared, 10U);
  EXPECT_THAT(Slurp(scratch / "plain" / "parse_index.csv"), HasSubstr("FRACTAL_NZ,ND"));
}

TEST(ConvertKernelDumps, FilesOfAllKindsHoldTheSameElements) {
  const TemporaryFolder scratch;
  Options options;
  options.inputs = {kData / "dumps" / "MatMul.MatMul_nz.4.1.1700000000001004"};
  options.output = scratch / "out";
  options.format = "ND";
  options.input = 1;
  options.kind = ArrayFile::kPt;
  EXPECT_EQ(Convert(options).converted(), 1U);
  options.kind = ArrayFile::kBin;
  const Findings findings = Convert(options);
  const std::string name = "MatMul.MatMul_nz.4.1.1700000000001004.input.1";
  EXPECT_EQ(findings.files[0].parts[0].path.filename(), name + ".2_17_40.float16.ND.bin");
  const fs::path expected = kData / "expected_plain" / (name + ".npy");
  ExpectSameArray(expected, scratch / "out" / (name + ".2x17x40.pt"));
  const std::string array = Slurp(expected);
  EXPECT_EQ(Slurp(findings.files[0].parts[0].path), array.substr(array.size() - 2 * 17 * 40 * 2));
}

TEST(ConvertKernelDumps, ATensorWithoutARuleIsToldAndTheOthersAreConverted) {
  const TemporaryFolder scratch;
  Options options;
  options.inputs = {kData / "dumps" / "Conv2D.Conv2D_5hd.5.1.1700000000001005"};
  options.output = scratch / "out";
  options.format = "ND";
  const Findings findings = Convert(options);
  EXPECT_GT(findings.failed_parts(), 0U);
  EXPECT_THAT(findings.files[0].parts[0].status.message(),
              HasSubstr("Not supported from NC1HWC0 to ND"));
  const report::Document document = MakeDocument(findings, options.output);
  EXPECT_EQ(document.verdict.word, "INCOMPLETE");
  options.format = "XYZ";
  EXPECT_EQ(kernel_dump::Run(options).status().code(), StatusCode::kUsage);
  options.inputs = {scratch.path()};
  options.format.clear();
  EXPECT_EQ(kernel_dump::Run(options).status().code(), StatusCode::kNotFound);
}

TEST(ConvertKernelDumps, ATruncatedFileGivesWhatItHolds) {
  const TemporaryFolder scratch;
  const std::string name = "MatMul.MatMul_nz.4.1.1700000000001004";
  const std::string whole = Slurp(kData / "dumps" / name);
  scratch.Write("in/" + name, whole.substr(0, whole.size() / 2));
  scratch.Write("in/sub/Add.x.1.1.17", "no dump");
  Options options;
  options.inputs = {scratch / "in"};
  options.output = scratch / "out";
  const Findings findings = Convert(options);
  EXPECT_EQ(findings.failed_files(), 2U);
  EXPECT_GT(findings.converted(), 0U);
  EXPECT_GT(findings.failed_parts(), 0U);
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
