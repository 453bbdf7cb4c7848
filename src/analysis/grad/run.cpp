#include "src/analysis/grad/run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/grad/probe_folder.h"
#include "src/analysis/grad/sign_file.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/kernels/signs.h"
#include "src/report/writers.h"

namespace msprobe::analysis::grad {
namespace {

namespace fs = std::filesystem;
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

// What is told of ranks and steps of one side only.
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

  // In the order of the first run's tables; behind them those that stand in none.
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
        failures_.push_back(
            fmt::format("{}: only {} has it", where,
                        a != first.files.end() ? "the first run" : "the second run"));
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

}  // namespace msprobe::analysis::grad
