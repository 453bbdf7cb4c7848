#include "src/analysis/compare/compare_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/result_table.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::DumpText;
using test_support::TemporaryFolder;
using test_support::TensorText;

// Two dumps on disk and their comparison.
class PairOnDisk {
 public:
  PairOnDisk(const std::string& npu_entries, const std::string& bench_entries,
             const std::string& npu_task = "statistics",
             const std::string& bench_task = "statistics") {
    input_.npu_json = folder_.Write("npu/dump.json", DumpText(npu_entries, npu_task));
    input_.bench_json = folder_.Write("bench/dump.json", DumpText(bench_entries, bench_task));
    options.quiet = true;
  }

  Result<ComparedPair> Compare(size_t threads = 1) const {
    base::ThreadPool pool(threads);
    return ComparePair(options, input_, pool);
  }
  const TemporaryFolder& folder() const { return folder_; }

  Options options;

 private:
  TemporaryFolder folder_;
  PairInput input_;
};

std::string TableText(const ComparedPair& pair) {
  const report::Table table = MakeResultTable(
      pair.npu, pair.bench, pair.result, pair.show_stack_column ? &*pair.stack : nullptr, nullptr);
  std::string text;
  for (size_t i = 0; i < table.row_count(); ++i) {
    for (const report::Cell& cell : table.row(i)) {
      text += report::CellText(cell) + "|";
    }
    text += "\n";
  }
  return text;
}

TEST(ComparePair, RefusesDumpsOfDifferentTasks) {
  const Result<ComparedPair> pair = PairOnDisk("", "", "statistics", "tensor").Compare();
  ASSERT_FALSE(pair.ok());
  EXPECT_EQ(pair.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(pair.status().message(), ::testing::HasSubstr("\"tensor\""));
}

TEST(ComparePair, RefusesATaskWithoutValues) {
  const Result<ComparedPair> pair = PairOnDisk("", "", "structure", "structure").Compare();
  ASSERT_FALSE(pair.ok());
  EXPECT_EQ(pair.status().code(), StatusCode::kUnsupported);
}

TEST(ComparePair, RefusesChecksumsOnOneSideOnly) {
  const std::string with =
      R"("Torch.f.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32",
      "shape": [1], "md5": "00000000"}]})";
  const std::string without =
      R"("Torch.f.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1]}]})";
  EXPECT_EQ(PairOnDisk(with, without).Compare().status().code(), StatusCode::kMismatch);
}

TEST(ComparePair, ComparesTheCompleteEntriesOfATruncatedFileWhenAllowed) {
  const std::string entries = CallText("Torch.a.0.forward", TensorText(1), TensorText(1)) + "," +
                              CallText("Torch.b.0.forward", TensorText(1), TensorText(1));
  PairOnDisk pair(entries, entries);
  const std::string whole = DumpText(entries);
  pair.folder().Write("npu/dump.json", whole.substr(0, whole.size() - 40));
  EXPECT_EQ(pair.Compare().status().code(), StatusCode::kBadFormat);
  pair.options.allow_truncated = true;
  const Result<ComparedPair> compared = pair.Compare();
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_EQ(compared->result.rows.size(), 2u);
  EXPECT_FALSE(compared->warnings.empty());
}

TEST(ComparePair, MatchesFuzzilyInStatisticsModeToo) {
  PairOnDisk pair(CallText("Torch.a.3.forward", TensorText(1), TensorText(1)),
                  CallText("Torch.a.0.forward", TensorText(1), TensorText(1)));
  pair.options.match.fuzzy = true;
  const Result<ComparedPair> compared = pair.Compare();
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_NE(compared->result.rows[0].pair.bench, kNoRow);
  EXPECT_FALSE(compared->result.rows[0].message.empty());
}

TEST(ComparePair, ShowsTheStackOnTheFirstRowOfEachCall) {
  const std::string entries = CallText("Torch.a.0.forward", TensorText(1), TensorText(1));
  const PairOnDisk pair(entries, entries);
  pair.folder().Write("npu/stack.json",
                      R"({"0": [["Torch.a.0.forward"], ["File a.py, line 1, in f, \n y = 'x'"]]})");
  const Result<ComparedPair> compared = pair.Compare();
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_THAT(TableText(*compared),
              ::testing::HasSubstr(
                  "|[\"File a.py, line 1, in f, \\n y = 'x'\"]|\nTorch.a.0.forward.output.0|"));
}

TEST(ComparePair, IgnoresANamedStackWithoutTheFlag) {
  const std::string entries = CallText("Torch.a.0.forward", TensorText(1), TensorText(1));
  PairOnDisk pair(entries, entries);
  pair.options.stack_path = pair.folder().path() / "nowhere.json";
  EXPECT_TRUE(pair.Compare().ok());
  pair.options.stack_mode = true;
  EXPECT_EQ(pair.Compare().status().code(), StatusCode::kNotFound);
}

TEST(ComparePair, KeepsOnlyTheRowsThatTheFilterNames) {
  const std::string entries = CallText("Torch.a.0.forward", TensorText(1), TensorText(1)) + "," +
                              CallText("Torch.b.0.forward", TensorText(1), TensorText(1));
  PairOnDisk pair(entries, entries);
  pair.options.match.name_filter = "Torch.b.*.output.*";
  const Result<ComparedPair> compared = pair.Compare();
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_EQ(compared->result.rows.size(), 1u);
}

// An entry with `count` saved outputs of 1000 floats each.
std::string SavedOutputs(size_t count) {
  std::string outputs;
  for (size_t i = 0; i < count; ++i) {
    outputs +=
        std::string(i > 0 ? "," : "") +
        R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1000], "Max": 1, "Min": 0, "Mean": 0.5,
                   "Norm": 2, "data_name": "Torch.f.0.forward.output.)" +
        std::to_string(i) + R"(.pt"})";
  }
  return R"("Torch.f.0.forward": {"output": [)" + outputs + "]}";
}

void SaveTensor(const std::filesystem::path& path, uint32_t seed) {
  std::filesystem::create_directories(path.parent_path());
  tensor::TensorBuffer buffer(DType::kFloat32, {1000});
  auto* values = reinterpret_cast<float*>(buffer.mutable_bytes().data());
  for (uint32_t i = 0; i < 1000; ++i) {
    seed = seed * 1664525U + 1013904223U;
    values[i] = static_cast<float>(seed >> 8U) * 0x1p-24F;
  }
  ASSERT_TRUE(WritePtFile(path, buffer.view()).ok());
}

TEST(ComparePair, GivesTheSameTableWithOneThreadAndWithSixteen) {
  const PairOnDisk pair(SavedOutputs(40), SavedOutputs(40), "tensor", "tensor");
  for (uint32_t i = 0; i < 40; ++i) {
    const std::string name =
        "dump_tensor_data/Torch.f.0.forward.output." + std::to_string(i) + ".pt";
    SaveTensor(pair.folder().path() / "npu" / name, i);
    SaveTensor(pair.folder().path() / "bench" / name, i + 1);
  }
  const Result<ComparedPair> item = pair.Compare(1);
  const Result<ComparedPair> many = pair.Compare(16);
  ASSERT_TRUE(item.ok() && many.ok());
  EXPECT_EQ(TableText(*item), TableText(*many));
  EXPECT_EQ(item->result.compared_bytes, 2u * 40 * 4000);
}

TEST(ComparePair, MarksARowWhoseFileIsBrokenAndComparesTheOthers) {
  const PairOnDisk pair(SavedOutputs(3), SavedOutputs(3), "tensor", "tensor");
  for (uint32_t i = 0; i < 3; ++i) {
    const std::string name =
        "dump_tensor_data/Torch.f.0.forward.output." + std::to_string(i) + ".pt";
    SaveTensor(pair.folder().path() / "npu" / name, i);
    SaveTensor(pair.folder().path() / "bench" / name, i);
  }
  pair.folder().Write("bench/dump_tensor_data/Torch.f.0.forward.output.1.pt", "not a tensor");
  std::filesystem::remove(pair.folder().path() /
                          "npu/dump_tensor_data/Torch.f.0.forward.output.2.pt");
  const Result<ComparedPair> compared = pair.Compare(2);
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_EQ(compared->result.rows[0].verdict, Verdict::kYes);
  for (const size_t bad : {1u, 2u}) {
    EXPECT_EQ(compared->result.rows[bad].verdict, Verdict::kNone);
    EXPECT_THAT(std::string(compared->result.rows[bad].message),
                ::testing::HasSubstr("output." + std::to_string(bad)));
  }
}

TEST(ComparePair, OpensNothingOutsideTheDumpsOwnFolder) {
  const std::string entry =
      R"("Torch.f.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32",
      "shape": [1000], "data_name": "../secret.pt"}]})";
  const PairOnDisk pair(entry, entry, "tensor", "tensor");
  SaveTensor(pair.folder().path() / "npu/secret.pt", 1);
  SaveTensor(pair.folder().path() / "bench/secret.pt", 1);
  const Result<ComparedPair> compared = pair.Compare();
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  EXPECT_EQ(compared->result.rows[0].verdict, Verdict::kNone);
}

}  // namespace
}  // namespace msprobe::analysis::compare
