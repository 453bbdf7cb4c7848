#include "src/analysis/kernel_dump/element_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/kernel_dump/array_writer.h"
#include "src/analysis/kernel_dump/number_reader.h"
#include "src/analysis/kernel_dump/vector_measures.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/base/files.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr std::string_view kHeader =
    "Index,N C H W,NPUDump,GroundTruth,AbsoluteError,RelativeError\n";
constexpr size_t kLeastCoordinates = 4;  // a tensor of fewer axes has zeros behind
constexpr size_t kFlushBytes = size_t{1} << 20U;

Result<VectorOperator> LastOf(const std::filesystem::path& side, const std::string& name) {
  MSP_ASSIGN_OR_RETURN(std::vector<VectorOperator> operators, FindVectorOperators(side));
  const auto last = std::find_if(operators.rbegin(), operators.rend(),
                                 [&](const VectorOperator& op) { return op.name == name; });
  if (last == operators.rend()) {
    return NotFoundError(fmt::format("{} has no operator \"{}\"", side.string(), name))
        .WithHint("the second field of a dump's name is the name of its operator");
  }
  return std::move(*last);
}

std::string CoordinatesText(uint64_t index, const Shape& shape) {
  std::vector<uint64_t> places(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<uint64_t>(shape[axis]);
    places[axis] = index % extent;
    index /= extent;
  }
  places.resize(std::max(places.size(), kLeastCoordinates));
  return fmt::format("{}", fmt::join(places, " "));
}

// Behind every number a tab, as the vendor's tool has it: spreadsheets then keep all digits.
void AppendLine(const ElementDifference& element, const Shape& shape, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{},{},{:.6f}\t,{:.6f}\t,{:.6f}\t,", element.index,
                 CoordinatesText(element.index, shape), element.mine, element.golden,
                 element.absolute);
  if (element.golden == 0) {
    out += "-\n";
  } else {
    fmt::format_to(std::back_inserter(out), "{:.6f}\t\n", element.relative);
  }
}

// The farthest elements of a walk; of equally far ones the first. NaN is farthest.
class Farthest {
 public:
  Farthest(size_t most, double ElementDifference::*distance) : most_(most), distance_(distance) {}

  void Add(const ElementDifference& element) {
    if (elements_.size() == most_ && !Before(element, elements_.front())) {
      return;
    }
    const auto before = [this](const auto& a, const auto& b) { return Before(a, b); };
    if (elements_.size() == most_) {
      std::pop_heap(elements_.begin(), elements_.end(), before);
      elements_.pop_back();
    }
    elements_.push_back(element);
    std::push_heap(elements_.begin(), elements_.end(), before);
  }

  std::vector<ElementDifference> Take() {
    std::sort(elements_.begin(), elements_.end(),
              [this](const auto& a, const auto& b) { return Before(a, b); });
    return std::move(elements_);
  }

 private:
  double KeyOf(const ElementDifference& element) const {
    const double distance = element.*distance_;
    return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
  }
  bool Before(const ElementDifference& a, const ElementDifference& b) const {
    return KeyOf(a) != KeyOf(b) ? KeyOf(a) > KeyOf(b) : a.index < b.index;
  }

  const size_t most_;
  double ElementDifference::*const distance_;
  std::vector<ElementDifference> elements_;  // a heap, the nearest in front
};

// Lines in files of so many.
class PartWriter {
 public:
  PartWriter(const ElementReportOptions& options, std::string stem)
      : options_(options), stem_(std::move(stem)) {}

  Status Add(const ElementDifference& element, const Shape& shape) {
    if (element.index % options_.lines_per_file == 0) {
      MSP_RETURN_IF_ERROR(Finish());
      paths_.push_back(options_.sides.output / fmt::format("{}_{}.csv", stem_, element.index));
      MSP_ASSIGN_OR_RETURN(file_, base::AtomicFile::Create(paths_.back()));
      is_open_ = true;
      text_ = kHeader;
    }
    AppendLine(element, shape, text_);
    if (text_.size() > kFlushBytes) {
      MSP_RETURN_IF_ERROR(file_.Write(std::string_view(text_)));
      text_.clear();
    }
    return {};
  }

  Status Finish() {
    if (!is_open_) {
      return {};
    }
    is_open_ = false;
    MSP_RETURN_IF_ERROR(file_.Write(std::string_view(text_)));
    text_.clear();
    return file_.Commit();
  }

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  const ElementReportOptions& options_;
  const std::string stem_;
  base::AtomicFile file_;
  bool is_open_ = false;
  std::string text_;
  std::vector<std::filesystem::path> paths_;
};

Status WriteFarthest(const std::filesystem::path& path,
                     const std::vector<ElementDifference>& elements, ElementReport& report) {
  std::string text(kHeader);
  for (const ElementDifference& element : elements) {
    AppendLine(element, report.shape, text);
  }
  report.files.push_back(path);
  return base::WriteFileAtomically(path, text);
}

Status Walk(const ElementReportOptions& options, const std::string& stem, const TensorView& mine,
            const TensorView& golden, ElementReport& report) {
  Farthest absolute(options.most_shown, &ElementDifference::absolute);
  Farthest relative(options.most_shown, &ElementDifference::relative);
  PartWriter parts(options, stem);
  NumberReader<double> mine_numbers(mine);
  NumberReader<double> golden_numbers(golden);
  std::optional<double> least_absolute;
  std::optional<double> least_relative;
  for (uint64_t first = 0; first < report.elements; first += tensor::kCopyBlockElements) {
    const size_t here = std::min<uint64_t>(tensor::kCopyBlockElements, report.elements - first);
    const std::span<const double> m = mine_numbers.Read(first, here);
    const std::span<const double> g = golden_numbers.Read(first, here);
    for (size_t i = 0; i < here; ++i) {
      ElementDifference element{first + i, m[i], g[i], std::fabs(m[i] - g[i]), 0};
      if (g[i] != 0) {
        // fabs: the sign of a NaN is the machine's.
        element.relative = std::fabs(element.absolute / g[i]);
        least_relative = SmallerOrNaN(least_relative.value_or(element.relative), element.relative);
        report.most_relative = LargerOrNaN(report.most_relative, element.relative);
      }
      least_absolute = SmallerOrNaN(least_absolute.value_or(element.absolute), element.absolute);
      report.most_absolute = LargerOrNaN(report.most_absolute, element.absolute);
      absolute.Add(element);
      relative.Add(element);
      if (!options.only_farthest) {
        MSP_RETURN_IF_ERROR(parts.Add(element, report.shape));
      }
    }
  }
  MSP_RETURN_IF_ERROR(parts.Finish());
  report.least_absolute = least_absolute.value_or(0);
  report.least_relative = least_relative.value_or(0);
  report.files.insert(report.files.end(), parts.paths().begin(), parts.paths().end());
  report.by_absolute = absolute.Take();
  report.by_relative = relative.Take();
  return {};
}

}  // namespace

Result<ElementReport> ReportElements(const ElementReportOptions& options) {
  MSP_ASSIGN_OR_RETURN(const VectorOperator mine_op, LastOf(options.sides.mine, options.op_name));
  MSP_ASSIGN_OR_RETURN(const VectorOperator golden_op,
                       LastOf(options.sides.golden, options.op_name));
  MSP_ASSIGN_OR_RETURN(const OpenOperator mine, OpenOperator::Open(mine_op));
  MSP_ASSIGN_OR_RETURN(const OpenOperator golden, OpenOperator::Open(golden_op));
  const std::string what = options.is_input ? "input" : "output";
  for (const auto& [side, path] :
       {std::pair(&mine, &options.sides.mine), std::pair(&golden, &options.sides.golden)}) {
    if (!side->has(!options.is_input, options.number)) {
      return UsageError(fmt::format("{} {} of \"{}\" is not in {}, which has {} of them", what,
                                    options.number, options.op_name, path->string(),
                                    side->count(!options.is_input)));
    }
  }
  MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer left,
                       mine.AsFrameworkKnows(!options.is_input, options.number));
  MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer right,
                       golden.AsFrameworkKnows(!options.is_input, options.number));
  MSP_RETURN_IF_ERROR(mine.Check());
  MSP_RETURN_IF_ERROR(golden.Check());
  if (left.view().shape != right.view().shape) {
    return MismatchError(fmt::format("{} {} of \"{}\": the shapes differ, {} and {}", what,
                                     options.number, options.op_name, ShapeText(left.view().shape),
                                     ShapeText(right.view().shape)));
  }
  MSP_RETURN_IF_ERROR(CheckMeasurable(left.view(), right.view()));
  ElementReport report;
  report.shape = left.view().shape;
  report.elements = static_cast<uint64_t>(left.view().element_count());
  const std::string stem = fmt::format("{}_{}_{}", options.op_name, what, options.number);
  const std::filesystem::path& folder = options.sides.output;
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  report.files.push_back(folder / (stem + ".npy"));
  MSP_RETURN_IF_ERROR(WriteArray(report.files.back(), ArrayFile::kNpy, left.view()));
  MSP_RETURN_IF_ERROR(Walk(options, stem, left.view(), right.view(), report));
  MSP_RETURN_IF_ERROR(
      WriteFarthest(folder / (stem + "_absolute_error_topn.csv"), report.by_absolute, report));
  MSP_RETURN_IF_ERROR(
      WriteFarthest(folder / (stem + "_relative_error_topn.csv"), report.by_relative, report));
  report.files.push_back(folder / (stem + "_summary.txt"));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
      report.files.back(),
      fmt::format("TotalCount:{}\nNPUDump:{}\nGroundTruth:{}\nFormat:N C H W\n"
                  "MinAbsoluteError:{:.6f}\nMaxAbsoluteError:{:.6f}\n"
                  "MinRelativeError:{:.6f}\nMaxRelativeError:{:.6f}\n",
                  report.elements, options.op_name, options.op_name, report.least_absolute,
                  report.most_absolute, report.least_relative, report.most_relative)));
  return report;
}

}  // namespace msprobe::analysis::kernel_dump
