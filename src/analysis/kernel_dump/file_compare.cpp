#include "src/analysis/kernel_dump/file_compare.h"

#include <string>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {

Result<FileComparison> CompareArrayFiles(const std::filesystem::path& mine,
                                         const std::filesystem::path& golden,
                                         const std::filesystem::path& output) {
  MSP_ASSIGN_OR_RETURN(const TensorFile mine_file, TensorFile::Open(mine));
  MSP_ASSIGN_OR_RETURN(const TensorFile golden_file, TensorFile::Open(golden));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* left, mine_file.Single());
  MSP_ASSIGN_OR_RETURN(const NamedTensor* right, golden_file.Single());
  FileComparison comparison;
  comparison.mine = mine;
  comparison.golden = golden;
  if (left->view.shape != right->view.shape) {
    comparison.status =
        MismatchError(fmt::format("its shape is {}, that of {} is {}", ShapeText(left->view.shape),
                                  golden.string(), ShapeText(right->view.shape)));
    return comparison;
  }
  comparison.status = CheckMeasurable(left->view, right->view);
  if (!comparison.status.ok()) {
    return comparison;
  }
  comparison.measures = MeasureVectors(left->view, right->view);
  std::string text;
  for (const Measure measure : kFileMeasures) {
    text +=
        fmt::format("{}: {}\n", MeasureName(measure), MeasureText(comparison.measures, measure));
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(output, base::TimestampNow()));
  comparison.file = output / fmt::format("file_result_{}.txt", stamp.text());
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(comparison.file, text));
  return comparison;
}

}  // namespace msprobe::analysis::kernel_dump
