#include "src/analysis/grad/grad.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/kernels/signs.h"
#include "src/report/readers.h"
#include "src/report/writers.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::grad {
namespace {

// The folder of the task grad_probe: its ranks and steps, and the names of parameters.

using NumberedFolders = std::map<int64_t, std::filesystem::path>;

// A row of grad_summary_<step>.csv.
struct GradientSummary {
  std::string parameter;
  std::optional<double> largest;  // of the absolute values of its elements; none: not known
};

constexpr size_t kMostAxes = 64;

const NamedTensor* Member(const TensorFile& file, std::string_view name) {
  for (const NamedTensor& tensor : file.tensors()) {
    if (tensor.name() == name) {
      return &tensor;
    }
  }
  return nullptr;
}

// The member `shape`, checked against the bits that there are.
Result<Shape> ReadShape(const std::string& path, const TensorView& sizes, const TensorView& bits) {
  if (sizes.dtype != DType::kInt64 || sizes.shape.size() != 1 ||
      sizes.element_count() > static_cast<int64_t>(kMostAxes) || bits.dtype != DType::kUInt8 ||
      bits.shape.size() != 1) {
    return BadFormatError(
        fmt::format("{}: the members are bits, of uint8, and shape, of int64", path));
  }
  Shape shape(static_cast<size_t>(sizes.element_count()));
  tensor::CopyElements(sizes, 0, sizes.element_count(), reinterpret_cast<std::byte*>(shape.data()));
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      return BadFormatError(fmt::format("{}: {} is not a shape", path, ShapeText(shape)));
    }
  }
  if (bits.element_count() != count / 8 + (count % 8 != 0 ? 1 : 0)) {
    return BadFormatError(fmt::format("{}: {} bytes of bits are not those of shape {}", path,
                                      bits.element_count(), ShapeText(shape)));
  }
  return shape;
}

}  // namespace

SignFile::SignFile(TensorFile file, TensorView view, Shape shape, bool is_packed)
    : file_(std::move(file)),
      view_(std::move(view)),
      shape_(std::move(shape)),
      is_packed_(is_packed) {}

Result<SignFile> SignFile::Open(const std::filesystem::path& path,
                                std::vector<std::byte>& scratch) {
  TensorFile::Options options;
  options.scratch = &scratch;
  MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, options));
  if (file.format() == TensorFileFormat::kNpz) {
    const NamedTensor* const bits = Member(file, "bits");
    const NamedTensor* const sizes = Member(file, "shape");
    if (bits == nullptr || sizes == nullptr) {
      return BadFormatError(fmt::format("{}: a member bits or shape is missing", path.string()));
    }
    MSP_RETURN_IF_ERROR(Status(bits->status));
    MSP_RETURN_IF_ERROR(Status(sizes->status));
    TensorView view = bits->view;
    MSP_ASSIGN_OR_RETURN(Shape shape, ReadShape(path.string(), sizes->view, view));
    return SignFile(std::move(file), std::move(view), std::move(shape), true);
  }
  MSP_ASSIGN_OR_RETURN(const NamedTensor* const tensor, file.Single());
  MSP_RETURN_IF_ERROR(Status(tensor->status));
  TensorView view = tensor->view;
  if (view.dtype != DType::kBool) {
    return BadFormatError(
        fmt::format("{} holds {}, not bool", path.string(), DTypeName(view.dtype)));
  }
  Shape shape = view.shape;
  return SignFile(std::move(file), std::move(view), std::move(shape), false);
}

std::span<const std::byte> SignFile::Flags(size_t first, size_t count, Scratch& scratch) const {
  return tensor::BlockReader(view_, scratch.flags).Read(first, count);
}

std::span<const std::byte> SignFile::Bits(size_t first, size_t count, Scratch& scratch) const {
  const size_t bytes = (count + 7) / 8;
  if (is_packed_) {
    return tensor::BlockReader(view_, scratch.flags).Read(first / 8, bytes);
  }
  scratch.bits.resize(bytes);
  kernels::PackFlags(Flags(first, count, scratch), scratch.bits);
  return scratch.bits;
}

void SignFile::Release(size_t first, size_t count) const {
  const size_t unit = is_packed_ ? 8 : 1;
  file_.ReleasePages(view_, static_cast<int64_t>(first / unit),
                     static_cast<int64_t>((count + unit - 1) / unit));
}

namespace fs = std::filesystem;

namespace {

// Folders <word><digits> directly below `folder`, by number.
Result<NumberedFolders> FindNumbered(const fs::path& folder, std::string_view word) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  NumberedFolders found;
  for (const std::string& name : names) {
    if (!name.starts_with(word) || name.size() == word.size() ||
        !std::all_of(name.begin() + static_cast<ptrdiff_t>(word.size()), name.end(),
                     base::IsDigit)) {
      continue;
    }
    const std::optional<int64_t> number =
        base::ParseInt(std::string_view(name).substr(word.size()));
    if (number && base::IsFolder(folder / name)) {
      found.emplace(*number, folder / name);
    }
  }
  return found;
}

// Files of directions in the folder of a step by the name of their parameter: .npy, else .npz
// (bits), else .pt.
Result<std::map<std::string, std::string>> FindDirections(const fs::path& step) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(step));
  std::map<std::string, std::string> found;
  for (const std::string_view ending : {".npy", ".npz", ".pt"}) {
    for (const std::string& name : names) {
      if (name.ends_with(ending)) {
        found.emplace(name.substr(0, name.size() - ending.size()), name);
      }
    }
  }
  return found;
}

Result<std::vector<GradientSummary>> ReadSummary(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(path));
  // Graph mode of MindSpore writes them with a capital.
  const auto find = [&](std::string_view wanted) -> std::optional<size_t> {
    for (size_t at = 0; at < table.columns().size(); ++at) {
      if (base::EqualsIgnoringCase(table.columns()[at], wanted)) {
        return at;
      }
    }
    return std::nullopt;
  };
  const std::optional<size_t> name = find("param_name");
  if (!name) {
    return BadFormatError(fmt::format("{} has no column param_name", path.string()))
        .WithHint("give folders that the task grad_probe has written");
  }
  const std::optional<size_t> most = find("max");
  const std::optional<size_t> least = find("min");
  std::vector<GradientSummary> rows;
  for (size_t at = 0; at < table.row_count(); ++at) {
    const auto row = table.row(at);
    GradientSummary& summary = rows.emplace_back();
    summary.parameter = row[*name].text();
    if (most && least) {
      const std::optional<double> high = base::ParseDouble(row[*most].text());
      const std::optional<double> low = base::ParseDouble(row[*least].text());
      if (high && low && std::isfinite(*high) && std::isfinite(*low)) {
        summary.largest = std::max(std::abs(*high), std::abs(*low));
      }
    }
  }
  return rows;
}

// Drops are measured between steps that were compared. An empty gradient says nothing.
std::optional<size_t> FirstMarked(const Row& row, const Options& options) {
  std::optional<double> before;
  for (size_t step = 0; step < row.steps.size(); ++step) {
    const std::optional<Agreement>& agreement = row.steps[step];
    if (!agreement || agreement->elements == 0) {
      continue;
    }
    const double similarity = agreement->similarity();
    if (before ? *before - similarity > options.max_drop : similarity < options.min_similarity) {
      return step;
    }
    before = similarity;
  }
  return std::nullopt;
}

}  // namespace

void Judge(RankComparison& rank, const Options& options) {
  rank.summary.name = "summary";
  rank.summary.steps.assign(rank.steps.size(), std::nullopt);
  for (Row& row : rank.parameters) {
    for (size_t step = 0; step < row.steps.size(); ++step) {
      if (!row.steps[step]) {
        continue;
      }
      std::optional<Agreement>& sum = rank.summary.steps[step];
      sum = sum.value_or(Agreement());
      sum->equal += row.steps[step]->equal;
      sum->elements += row.steps[step]->elements;
    }
    row.marked = row.is_rounding ? std::nullopt : FirstMarked(row, options);
  }
  rank.summary.marked = FirstMarked(rank.summary, options);
}

uint64_t ComparedPairs(const Comparison& comparison) {
  uint64_t pairs = 0;
  for (const RankComparison& rank : comparison.ranks) {
    for (const Row& row : rank.parameters) {
      pairs += static_cast<uint64_t>(
          std::count_if(row.steps.begin(), row.steps.end(),
                        [](const std::optional<Agreement>& step) { return step.has_value(); }));
    }
  }
  return pairs;
}

namespace {

using Directions = std::map<std::string, std::string>;

constexpr size_t kWarningsTold = 20;

struct Side {
  fs::path step;  // the folder of a step
  Directions files;
};

// One pair of files.
struct Job {
  fs::path first;
  fs::path second;
  std::string where;  // "rank 0, step 1, b.0.ln1.weight"
  std::optional<Agreement>* result = nullptr;
  Status status = {};
  uint64_t bytes = 0;
};

struct Scratch {
  std::vector<std::byte> files[2];
  SignFile::Scratch blocks[2];
};

Status CompareFiles(Job& job, Scratch& scratch) {
  MSP_ASSIGN_OR_RETURN(const SignFile first, SignFile::Open(job.first, scratch.files[0]));
  MSP_ASSIGN_OR_RETURN(const SignFile second, SignFile::Open(job.second, scratch.files[1]));
  job.bytes = first.size_bytes() + second.size_bytes();
  if (first.shape() != second.shape()) {
    return MismatchError(fmt::format("shapes {} and {} differ", ShapeText(first.shape()),
                                     ShapeText(second.shape())));
  }
  const bool as_bits = first.is_packed() || second.is_packed();
  const auto count = static_cast<size_t>(ElementCount(first.shape()));
  uint64_t different = 0;
  for (size_t at = 0; at < count; at += SignFile::kBlockElements) {
    const size_t part = std::min(SignFile::kBlockElements, count - at);
    different += as_bits
                     ? kernels::CountDifferentBits(first.Bits(at, part, scratch.blocks[0]),
                                                   second.Bits(at, part, scratch.blocks[1]), part)
                     : kernels::CountDifferentFlags(first.Flags(at, part, scratch.blocks[0]),
                                                    second.Flags(at, part, scratch.blocks[1]));
    first.Release(at, part);
    second.Release(at, part);
  }
  *job.result = Agreement{count - different, count};
  return {};
}

// Warnings about ranks and steps of one side only.
void TellUnpaired(const NumberedFolders& first, const NumberedFolders& second,
                  std::vector<std::string>& warnings) {
  const NumberedFolders* const sides[] = {&first, &second};
  for (size_t i = 0; i < 2; ++i) {
    for (const auto& [number, path] : *sides[i]) {
      if (!sides[1 - i]->contains(number)) {
        warnings.push_back(fmt::format("{} is left out: the other run has none", path.string()));
      }
    }
  }
}

std::vector<int64_t> CommonNumbers(const NumberedFolders& first, const NumberedFolders& second) {
  std::vector<int64_t> common;
  for (const auto& [number, path] : first) {
    if (second.contains(number)) {
      common.push_back(number);
    }
  }
  return common;
}

// By parameter: the largest element of its gradient over the median one of the step's parameters,
// of the step where that is most.
using Sizes = std::map<std::string, double>;

void NoteSizes(const std::vector<GradientSummary>& step, Sizes& sizes) {
  std::vector<double> all;
  for (const GradientSummary& row : step) {
    if (row.largest) {
      all.push_back(*row.largest);
    }
  }
  if (all.empty()) {
    return;
  }
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  for (const GradientSummary& row : step) {
    // A gradient of zeros has equal signs in both runs, or it is the other run's that is not zero.
    const double size = row.largest && *row.largest > 0 && *middle > 0
                            ? *row.largest / *middle
                            : std::numeric_limits<double>::infinity();
    double& known = sizes.try_emplace(row.parameter, size).first->second;
    known = std::max(known, size);
  }
}

// A sum that cancels leaves about the rounding unit of float32, 6e-8, times the root of the number
// of its terms; a gradient that small beside the others has no digit of its own.
bool IsRounding(const Sizes& sizes, const std::string& parameter) {
  constexpr double kMostOfRounding = 1e-5;
  const auto found = sizes.find(parameter);
  return found != sizes.end() && found->second < kMostOfRounding;
}

class Comparer {
 public:
  explicit Comparer(const Options& options) : options_(options) { comparison_.options = options; }

  Result<Comparison> Run() {
    MSP_ASSIGN_OR_RETURN(const NumberedFolders first, FindNumbered(options_.first, "rank"));
    MSP_ASSIGN_OR_RETURN(const NumberedFolders second, FindNumbered(options_.second, "rank"));
    TellUnpaired(first, second, comparison_.warnings);
    comparison_.ranks.reserve(first.size());  // jobs point into it
    for (const int64_t rank : CommonNumbers(first, second)) {
      MSP_RETURN_IF_ERROR(FindRank(rank, first.at(rank), second.at(rank)));
    }
    if (comparison_.ranks.empty()) {
      return NotFoundError(fmt::format("{} and {} have no rank with a step in common",
                                       options_.first.string(), options_.second.string()))
          .WithHint(
              "give two folders that the task grad_probe has written with grad_level L1 or L2: "
              "rank<R>/step<S>/<parameter>.npy");
    }
    for (const RankComparison& rank : comparison_.ranks) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(rank.file));
    }
    CompareAll();
    for (RankComparison& rank : comparison_.ranks) {
      Judge(rank, options_);
      MSP_RETURN_IF_ERROR(Write(rank));
    }
    return std::move(comparison_);
  }

 private:
  Status FindRank(int64_t number, const fs::path& first, const fs::path& second) {
    MSP_ASSIGN_OR_RETURN(const NumberedFolders first_steps, FindNumbered(first, "step"));
    MSP_ASSIGN_OR_RETURN(const NumberedFolders second_steps, FindNumbered(second, "step"));
    TellUnpaired(first_steps, second_steps, comparison_.warnings);
    std::vector<int64_t> steps = CommonNumbers(first_steps, second_steps);
    if (steps.empty()) {
      comparison_.warnings.push_back(
          fmt::format("rank {} is left out: the runs have no step in common", number));
      return {};
    }
    std::vector<std::pair<Side, Side>> sides;
    for (const int64_t step : steps) {
      auto& [a, b] = sides.emplace_back();
      a.step = first_steps.at(step);
      b.step = second_steps.at(step);
      MSP_ASSIGN_OR_RETURN(a.files, FindDirections(a.step));
      MSP_ASSIGN_OR_RETURN(b.files, FindDirections(b.step));
    }
    RankComparison& rank = comparison_.ranks.emplace_back();
    rank.rank = number;
    rank.steps = std::move(steps);
    rank.file = options_.output / fmt::format("rank{}", number) / "similarities.csv";
    Sizes sizes;        // of the first run
    Sizes other_sizes;  // a gradient that vanishes in one run only is a finding
    for (const int64_t step : rank.steps) {
      if (const auto other = ReadSummary(second / fmt::format("grad_summary_{}.csv", step));
          other.ok()) {
        NoteSizes(*other, other_sizes);
      }
    }
    for (const std::string& name : NamesOf(rank, first, sides, sizes)) {
      Row& row = rank.parameters.emplace_back();
      row.name = name;
      row.steps.resize(rank.steps.size());
      row.is_rounding = IsRounding(sizes, name) && IsRounding(other_sizes, name);
    }
    for (size_t step = 0; step < rank.steps.size(); ++step) {
      AddJobs(rank, step, sides[step].first, sides[step].second);
    }
    return {};
  }

  // In the order of the first run's tables; after them those that are in none.
  std::vector<std::string> NamesOf(const RankComparison& rank, const fs::path& folder,
                                   const std::vector<std::pair<Side, Side>>& sides, Sizes& sizes) {
    std::set<std::string> wanted;
    for (const auto& [first, second] : sides) {
      for (const Side* const side : {&first, &second}) {
        for (const auto& [name, file] : side->files) {
          wanted.insert(name);
        }
      }
    }
    std::vector<std::string> names;
    for (const int64_t step : rank.steps) {
      const fs::path table = folder / fmt::format("grad_summary_{}.csv", step);
      if (!base::Exists(table)) {
        comparison_.warnings.push_back(fmt::format("{} is missing", table.string()));
        continue;
      }
      const Result<std::vector<GradientSummary>> listed = ReadSummary(table);
      if (!listed.ok()) {
        comparison_.warnings.push_back(listed.status().message());
        continue;
      }
      for (const GradientSummary& row : *listed) {
        if (wanted.erase(row.parameter) > 0) {
          names.push_back(row.parameter);
        }
      }
      NoteSizes(*listed, sizes);
    }
    names.insert(names.end(), wanted.begin(), wanted.end());
    return names;
  }

  void AddJobs(RankComparison& rank, size_t step, const Side& first, const Side& second) {
    for (Row& row : rank.parameters) {
      const auto a = first.files.find(row.name);
      const auto b = second.files.find(row.name);
      const std::string where =
          fmt::format("rank {}, step {}, {}", rank.rank, rank.steps[step], row.name);
      if (a != first.files.end() && b != second.files.end()) {
        jobs_.push_back({first.step / a->second, second.step / b->second, where, &row.steps[step]});
      } else if (a != first.files.end() || b != second.files.end()) {
        failures_.push_back(fmt::format("{}: only {} has it", where,
                                        a != first.files.end() ? "the test" : "the reference"));
      }
    }
  }

  void CompareAll() {
    base::ThreadPool pool(options_.threads);
    std::vector<Scratch> scratch(pool.thread_count());
    base::Progress progress("comparing", jobs_.size(), "gradients", options_.quiet);
    pool.ParallelFor(jobs_.size(), [&](size_t index, size_t worker) {
      jobs_[index].status = CompareFiles(jobs_[index], scratch[worker]);
      progress.Add(1, jobs_[index].bytes);
    });
    for (const Job& job : jobs_) {
      comparison_.bytes += job.bytes;
      if (!job.status.ok()) {
        failures_.push_back(fmt::format("{}: {}", job.where, job.status.message()));
      }
    }
    comparison_.failed = failures_.size();
    const size_t told = std::min(failures_.size(), kWarningsTold);
    comparison_.warnings.insert(comparison_.warnings.end(), failures_.begin(),
                                failures_.begin() + static_cast<ptrdiff_t>(told));
    if (told < failures_.size()) {
      comparison_.warnings.push_back(
          fmt::format("{} more could not be compared: empty cells in similarities.csv",
                      base::Plural(failures_.size() - told, "gradient")));
    }
  }

  Status Write(const RankComparison& rank) {
    std::vector<std::string> columns = {"step"};
    for (const int64_t step : rank.steps) {
      columns.push_back(std::to_string(step));
    }
    report::Table table("similarities", std::move(columns));
    const auto add = [&](const Row& row) {
      std::vector<report::Cell> cells = {table.KeepText(row.name)};
      for (const std::optional<Agreement>& step : row.steps) {
        cells.push_back(!step ? report::Cell()
                        : step->elements == 0
                            ? report::Cell::Integer(0)
                            : table.KeepText(base::PythonFloatRepr(step->similarity())));
      }
      table.AddRow(cells);
    };
    for (const Row& row : rank.parameters) {
      add(row);
    }
    add(rank.summary);
    MSP_RETURN_IF_ERROR(base::CreateFolders(rank.file.parent_path()));
    MSP_RETURN_IF_ERROR(report::WriteCsv(rank.file, table));
    comparison_.files.push_back(rank.file);
    return {};
  }

  const Options& options_;
  Comparison comparison_;
  std::vector<Job> jobs_;
  std::vector<std::string> failures_;
};

}  // namespace

Result<Comparison> Run(const Options& options) { return Comparer(options).Run(); }

namespace {

using base::Plural;
using report::AnswerOutcome;
using report::Cell;
using report::Section;
using report::Tone;

constexpr size_t kShownParameters = 10;
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

std::string Percent(double share) { return fmt::format("{:.2f} %", share * 100); }

bool IsIdentical(const Comparison& comparison) {
  return std::all_of(comparison.ranks.begin(), comparison.ranks.end(),
                     [](const RankComparison& rank) {
                       return std::all_of(rank.summary.steps.begin(), rank.summary.steps.end(),
                                          [](const std::optional<Agreement>& step) {
                                            return !step || step->equal == step->elements;
                                          });
                     });
}

// The rank whose summary stands out first.
const RankComparison* FirstMarked(const Comparison& comparison) {
  const RankComparison* first = nullptr;
  for (const RankComparison& rank : comparison.ranks) {
    if (rank.summary.marked && (first == nullptr || rank.steps[*rank.summary.marked] <
                                                        first->steps[*first->summary.marked])) {
      first = &rank;
    }
  }
  return first;
}

size_t MarkedParameters(const Comparison& comparison) {
  size_t marked = 0;
  for (const RankComparison& rank : comparison.ranks) {
    marked +=
        static_cast<size_t>(std::count_if(rank.parameters.begin(), rank.parameters.end(),
                                          [](const Row& row) { return row.marked.has_value(); }));
  }
  return marked;
}

std::string MarkText(const RankComparison& rank, const Options& options) {
  const size_t step = *rank.summary.marked;
  const double similarity = rank.summary.steps[step]->similarity();
  const std::string where = fmt::format("rank {}, step {}: {} of the signs agree", rank.rank,
                                        rank.steps[step], Percent(similarity));
  for (size_t before = step; before-- > 0;) {
    const std::optional<Agreement>& earlier = rank.summary.steps[before];
    if (earlier && earlier->elements > 0) {
      return fmt::format("{}, after {} at step {}", where, Percent(earlier->similarity()),
                         rank.steps[before]);
    }
  }
  return fmt::format("{}, less than {} at the first step", where, Percent(options.min_similarity));
}

report::Verdict MakeVerdict(const Comparison& comparison) {
  report::Verdict verdict;
  const auto say = [&](std::string_view word, Tone tone, AnswerOutcome outcome,
                       const std::string& rest) { verdict.Say(word, rest, tone, outcome); };
  size_t marked = 0;
  double lowest = 1;
  size_t steps = 0;
  for (const RankComparison& rank : comparison.ranks) {
    marked += rank.summary.marked ? 1 : 0;
    for (const std::optional<Agreement>& step : rank.summary.steps) {
      if (step && step->elements > 0) {
        lowest = std::min(lowest, step->similarity());
        ++steps;
      }
    }
  }
  verdict.number = static_cast<double>(marked);
  verdict.unit = "ranks";
  const std::string failed =
      comparison.failed == 0
          ? ""
          : fmt::format("; {} could not be compared", Plural(comparison.failed, "gradient"));
  if (steps == 0) {
    say("NOTHING COMPARED", Tone::kBad, AnswerOutcome::kNothingCompared,
        "no gradient has a partner with elements");
  } else if (const RankComparison* const first = FirstMarked(comparison)) {
    say("DIVERGED", Tone::kBad, AnswerOutcome::kFindings,
        MarkText(*first, comparison.options) + failed);
  } else if (comparison.failed > 0) {
    say("INCOMPLETE", Tone::kCaution, AnswerOutcome::kFindings,
        fmt::format("{}, of the others at least {} of the signs agree in every step",
                    failed.substr(2), Percent(lowest)));
  } else if (IsIdentical(comparison)) {
    say("IDENTICAL", Tone::kGood, AnswerOutcome::kClean, "all signs agree in every step");
  } else {
    const size_t parameters = MarkedParameters(comparison);
    say("AGREE", Tone::kGood, parameters > 0 ? AnswerOutcome::kFindings : AnswerOutcome::kClean,
        fmt::format(
            "at least {} of the signs agree in every step{}", Percent(lowest),
            parameters == 0 ? "" : fmt::format("; {} stand out", Plural(parameters, "parameter"))));
  }
  return verdict;
}

double LowestOf(const Row& row) {
  double lowest = 2;  // above every share: rows without values come last
  for (const std::optional<Agreement>& step : row.steps) {
    if (step && step->elements > 0) {
      lowest = std::min(lowest, step->similarity());
    }
  }
  return lowest;
}

// Parameters that stand out first, the lowest in front; those of nothing but rounding last.
std::vector<const Row*> WorstFirst(const RankComparison& rank) {
  std::vector<const Row*> rows;
  for (const Row& row : rank.parameters) {
    rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
    return std::tuple(a->is_rounding, !a->marked, LowestOf(*a)) <
           std::tuple(b->is_rounding, !b->marked, LowestOf(*b));
  });
  return rows;
}

report::Curve CurveOf(const Row& row) {
  report::Curve curve{base::Printable(row.name), {}};
  for (const std::optional<Agreement>& step : row.steps) {
    curve.values.push_back(step && step->elements > 0 ? step->similarity() : kNoValue);
  }
  return curve;
}

Section RankSection(const RankComparison& rank) {
  Section section{fmt::format("Share of signs that agree, rank {}", rank.rank), {}};
  report::Curves curves;
  curves.unit = "share of signs";
  curves.axis = "step";
  for (const int64_t step : rank.steps) {
    curves.positions.push_back(std::to_string(step));
  }
  const std::vector<const Row*> rows = WorstFirst(rank);
  curves.items.push_back(CurveOf(rank.summary));
  report::Table table("parameters", {"Parameter", "Elements", "First", "Lowest", "At step", "Last",
                                     "Stands out at"});
  for (const Row* const row : rows) {
    curves.items.push_back(CurveOf(*row));
    std::optional<size_t> first;
    std::optional<size_t> lowest;
    std::optional<size_t> last;
    for (size_t step = 0; step < row->steps.size(); ++step) {
      if (!row->steps[step]) {
        continue;
      }
      first = first.value_or(step);
      last = step;
      if (!lowest || row->steps[step]->similarity() < row->steps[*lowest]->similarity()) {
        lowest = step;
      }
    }
    const auto share = [&](const std::optional<size_t>& step) {
      return step ? Cell::Number(row->steps[*step]->similarity()) : Cell();
    };
    const auto number = [&](const std::optional<size_t>& step) {
      return step ? Cell::Integer(rank.steps[*step]) : Cell();
    };
    table.AddRow(
        {table.KeepText(base::Printable(row->name)),
         first ? Cell::Integer(static_cast<int64_t>(row->steps[*first]->elements)) : Cell(),
         share(first), share(lowest), number(lowest), share(last), number(row->marked)},
        row->marked ? report::Fill::kYellow : report::Fill::kNone);
  }
  curves.display_limit.items = 1;
  curves.display_limit.counts_rest = false;  // they are in the table
  section.blocks.emplace_back(std::move(curves));
  report::DataTable data{std::move(table)};
  data.display_limit.items = kShownParameters;
  data.digits = 4;
  section.blocks.emplace_back(std::move(data));
  const auto rounding = std::count_if(rank.parameters.begin(), rank.parameters.end(),
                                      [](const Row& row) { return row.is_rounding; });
  if (rounding > 0) {
    section.blocks.emplace_back(report::Text{fmt::format(
        "The last of the list, {}: gradients of nothing but rounding, whose signs are chance",
        Plural(static_cast<size_t>(rounding), "parameter"))});
  }
  return section;
}

std::vector<report::TestCase> CasesOf(const Comparison& comparison) {
  std::vector<report::TestCase> cases;
  for (const RankComparison& rank : comparison.ranks) {
    report::TestCase& all = cases.emplace_back();
    all.name = fmt::format("rank {}", rank.rank);
    if (rank.summary.marked) {
      all.outcome = report::CaseOutcome::kFailed;
      all.level = all.type = "diverged";
      all.message = MarkText(rank, comparison.options);
    }
    for (const Row& row : rank.parameters) {
      report::TestCase& test = cases.emplace_back();
      test.name = fmt::format("rank {}, {}", rank.rank, base::Printable(row.name));
      const bool missing = std::any_of(row.steps.begin(), row.steps.end(),
                                       [](const auto& step) { return !step.has_value(); });
      if (row.marked || missing) {
        test.outcome = report::CaseOutcome::kFailed;
        test.level = test.type = "parameter";
        test.message = row.marked
                           ? fmt::format("step {}: {} of the signs agree", rank.steps[*row.marked],
                                         Percent(row.steps[*row.marked]->similarity()))
                           : "not compared in every step";
      }
    }
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Comparison& comparison) {
  report::Document document;
  document.command = "grad_compare";
  document.verdict = MakeVerdict(comparison);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "diverged", FirstMarked(comparison) != nullptr);
  report::SetFound(document.levels, "parameter",
                   MarkedParameters(comparison) > 0 || comparison.failed > 0);
  document.cases = CasesOf(comparison);
  for (const RankComparison& rank : comparison.ranks) {
    document.sections.push_back(RankSection(rank));
  }
  document.AddFiles(comparison.files);
  document.warnings = comparison.warnings;
  document.bytes = comparison.bytes;
  return document;
}

}  // namespace msprobe::analysis::grad
