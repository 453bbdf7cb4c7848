#include "src/analysis/compare/tensor_folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/array_pair.h"
#include "src/analysis/compare/name_pairs.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTensorSuffix = ".pt";
constexpr int kDeepestTensors = 8;

struct TensorName {
  std::string_view call;
  dump::RowState state = dump::RowState::kOutput;
};

// Where the call ends and the tensor begins. A name without a direction is a call of its own.
TensorName ParseTensorName(std::string_view stem) {
  constexpr std::array<std::pair<std::string_view, dump::RowState>, 3> kDirections = {
      {{".input_kwargs", dump::RowState::kInput},
       {".input", dump::RowState::kInput},
       {".output", dump::RowState::kOutput}}};
  for (const auto& [direction, state] : kDirections) {
    const size_t at = stem.rfind(direction);
    const size_t end = at == std::string_view::npos ? at : at + direction.size();
    if (at != std::string_view::npos && at > 0 && (end == stem.size() || stem[end] == '.')) {
      return {stem.substr(0, at), state};
    }
  }
  return {stem, dump::RowState::kOutput};
}

// "x_12": a tensor of a custom call that counts its files.
bool IsNumbered(std::string_view stem) {
  const size_t at = stem.rfind('_');
  return at != std::string_view::npos && at + 1 < stem.size() &&
         stem.find_first_not_of("0123456789", at + 1) == std::string_view::npos;
}

bool IsTensorFile(std::string_view name) {
  if (!name.ends_with(kTensorSuffix)) {
    return false;
  }
  const std::string_view stem = name.substr(0, name.size() - kTensorSuffix.size());
  return ParseTensorName(stem).call.size() < stem.size() || IsNumbered(stem);
}

std::vector<std::string> TensorFilesOf(const Folder& folder) {
  std::vector<std::string> names;
  std::copy_if(folder.files.begin(), folder.files.end(), std::back_inserter(names),
               [](const std::string& name) { return IsTensorFile(name); });
  // Inputs before outputs, "x.2" before "x.10".
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const TensorName first = ParseTensorName(a);
    const TensorName second = ParseTensorName(b);
    if (first.call != second.call) {
      return base::NaturalLess(first.call, second.call);
    }
    return first.state != second.state ? first.state < second.state : base::NaturalLess(a, b);
  });
  return names;
}

// Folders with such files, by their paths below `root`.
Result<std::map<std::string, fs::path>> FindTensorFolders(const fs::path& root) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders, WalkFolders(root, kDeepestTensors));
  std::map<std::string, fs::path> found;
  for (const Folder& folder : folders) {
    if (!TensorFilesOf(folder).empty()) {
      found.emplace(folder.path.lexically_relative(root).string(), folder.path);
    }
  }
  return found;
}

void AddTensorRow(const std::string& file, const ArraySummary* summary, const Status& status,
                  Side& side) {
  const std::string_view stem =
      std::string_view(file).substr(0, file.size() - kTensorSuffix.size());
  const TensorName name = ParseTensorName(stem);
  if (side.entries.empty() || side.entries.back().name != name.call) {
    side.entries.push_back({side.Keep(name.call), static_cast<uint32_t>(side.rows.size()), 0});
  }
  ++side.entries.back().row_count;
  SideRow row;
  row.name = side.Keep(stem);
  row.entry = static_cast<uint32_t>(side.entries.size() - 1);
  row.state = name.state;
  row.api_name = row.name.substr(0, std::min(name.call.size() + 1, row.name.size()));
  row.is_tensor = true;
  row.type = "tensor";
  row.data_name = side.Keep(file);
  row.dtype = "None";
  row.shape = "None";
  row.md5 = kNotApplicable;
  if (summary != nullptr) {
    row.dtype = DTypeName(summary->dtype);
    row.shape = side.Intern(ShapeText(summary->shape));
    for (size_t i = 0; i < kStatCount && msprobe::ElementCount(summary->shape) > 0; ++i) {
      row.stats[i].kind = StatKind::kNumber;
      row.stats[i].number = summary->stats[i];
    }
  } else {
    row.problem = side.Keep(status.message());
  }
  side.rows.push_back(row);
}

Result<Side> LoadTensorFolder(const fs::path& path, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders, WalkFolders(path, 0));
  const std::vector<std::string> files = TensorFilesOf(folders.front());
  std::vector<ArraySummary> summaries(files.size());
  std::vector<Status> statuses(files.size());
  pool.ParallelFor(files.size(), [&](size_t i, size_t) {
    statuses[i] = [&]() -> Status {
      MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path / files[i]));
      MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
      MSP_RETURN_IF_ERROR(tensor->status);
      summaries[i] = SummarizeArray(tensor->view);
      return {};
    }();
  });
  Side side;
  side.json_path = path;
  side.tensor_folder = path;
  side.header.task = "tensor";
  side.header.has_data = true;
  for (size_t i = 0; i < files.size(); ++i) {
    AddTensorRow(files[i], statuses[i].ok() ? &summaries[i] : nullptr, statuses[i], side);
  }
  side.header.entry_count = side.entries.size();
  return side;
}

}  // namespace

bool HoldsTensorFiles(const fs::path& folder) {
  const Result<std::map<std::string, fs::path>> found = FindTensorFolders(folder);
  return found.ok() && !found->empty();
}

Result<PairingPlan> PlanTensorFolders(const Options& options) {
  using Folders = std::map<std::string, fs::path>;
  MSP_ASSIGN_OR_RETURN(const Folders npu, FindTensorFolders(options.npu_path));
  MSP_ASSIGN_OR_RETURN(Folders bench, FindTensorFolders(options.bench_path));
  PairingPlan plan;
  for (const auto& [place, folder] : npu) {
    const auto partner = npu.size() == 1 && bench.size() == 1 ? bench.begin() : bench.find(place);
    if (partner == bench.end()) {
      plan.npu_only.push_back(place);
      continue;
    }
    PlannedPair pair;
    pair.input = {folder, partner->second, std::nullopt, std::nullopt};
    for (const fs::path& part : fs::path(place)) {
      const dump::NumberedName step = dump::ParseStepName(part.string());
      const dump::NumberedName rank = dump::ParseRankName(part.string());
      pair.input.step = step.valid ? step.number : pair.input.step;
      pair.input.rank = rank.valid ? rank.number : pair.input.rank;
    }
    pair.result_subfolder = npu.size() > 1 ? fs::path(place) : fs::path();
    plan.pairs.push_back(std::move(pair));
    bench.erase(partner);
  }
  for (const auto& [place, folder] : bench) {
    plan.bench_only.push_back(place);
  }
  if (plan.pairs.empty()) {
    return NotFoundError(fmt::format("no folder of {} has a partner in {} (here: {}; there: {})",
                                     options.npu_path.string(), options.bench_path.string(),
                                     base::Join(plan.npu_only, ", "),
                                     base::Join(plan.bench_only, ", ")));
  }
  return plan;
}

Result<ComparedPair> CompareTensorFolders(const Options& options, const PlannedPair& planned,
                                          base::ThreadPool& pool) {
  const base::Stopwatch load_watch;
  ComparedPair compared;
  MSP_ASSIGN_OR_RETURN(compared.npu, LoadTensorFolder(planned.input.npu_json, pool));
  MSP_ASSIGN_OR_RETURN(compared.bench, LoadTensorFolder(planned.input.bench_json, pool));
  PairRowsByName(compared);
  compared.timings.load_seconds = load_watch.seconds();
  MSP_RETURN_IF_ERROR(CompareLoaded(options, planned.input, pool, /*previous=*/nullptr, compared));
  return compared;
}

}  // namespace msprobe::analysis::compare
