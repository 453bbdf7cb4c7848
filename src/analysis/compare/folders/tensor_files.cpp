// A .pt file per tensor, without a dump.json: its name says which call it belongs to. The files of
// a folder become a Side as a dump.json does.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/folders/folders.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {

Side MakeFileSide(const std::filesystem::path& folder) {
  Side side;
  side.json_path = folder;
  side.tensor_folder = folder;
  side.header.task = "tensor";
  side.header.has_data = true;
  return side;
}

void DescribeTensor(const Result<ArraySummary>& tensor, Side& side, SideRow& row) {
  row.is_tensor = true;
  row.type = "tensor";
  row.dtype = "None";
  row.shape = "None";
  row.md5 = kNotApplicable;
  if (!tensor.ok()) {
    row.problem = side.Keep(tensor.status().message());
    return;
  }
  row.dtype = DTypeName(tensor->dtype);
  row.shape = side.Intern(ShapeText(tensor->shape));
  for (size_t i = 0; i < kStatCount && msprobe::ElementCount(tensor->shape) > 0; ++i) {
    row.stats[i].kind = StatKind::kNumber;
    row.stats[i].number = tensor->stats[i];
  }
}

RowMapping MapRowsByName(Side& npu, const Side& bench) {
  constexpr std::string_view kNoShape = "None";
  std::unordered_map<std::string_view, const SideRow*> partners;
  for (const SideRow& row : bench.rows) {
    partners.try_emplace(row.name, &row);
  }
  RowMapping mapping;
  mapping.by_key_only = true;
  for (SideRow& row : npu.rows) {
    const auto partner = partners.find(row.name);
    const bool fits = partner == partners.end() || partner->second->shape == row.shape ||
                      partner->second->shape == kNoShape || row.shape == kNoShape;
    if (!fits) {
      row.problem = npu.Keep(
          fmt::format("The row of this name has the shape {} there. ", partner->second->shape));
    }
    // No row has an empty name.
    mapping.keys.push_back(fits ? row.name : std::string_view());
  }
  return mapping;
}

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

void AddTensorRow(const std::string& file, const Result<ArraySummary>& tensor, Side& side) {
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
  row.data_name = side.Keep(file);
  DescribeTensor(tensor, side, row);
  side.rows.push_back(row);
}

Result<Side> LoadTensorFolder(const fs::path& path, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Folder> folders, WalkFolders(path, 0));
  const std::vector<std::string> files = TensorFilesOf(folders.front());
  std::vector<Result<ArraySummary>> tensors(files.size(), ArraySummary());
  pool.ParallelFor(files.size(), [&](size_t i, size_t) {
    tensors[i] = [&]() -> Result<ArraySummary> {
      MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path / files[i]));
      MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
      MSP_RETURN_IF_ERROR(tensor->status);
      return SummarizeArray(tensor->view);
    }();
  });
  Side side = MakeFileSide(path);
  for (size_t i = 0; i < files.size(); ++i) {
    AddTensorRow(files[i], tensors[i], side);
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
    return NotFoundError(
        fmt::format("no folder of {} has a partner in {} (test: {}; reference: {})",
                    options.npu_path.string(), options.bench_path.string(),
                    base::Join(plan.npu_only, ", "), base::Join(plan.bench_only, ", ")));
  }
  return plan;
}

Result<ComparedPair> CompareTensorFolders(const Options& options, const PlannedPair& planned,
                                          base::ThreadPool& pool) {
  const base::Stopwatch load_watch;
  LoadedPair loaded;
  PairSource source;
  MSP_ASSIGN_OR_RETURN(loaded.npu, LoadTensorFolder(planned.input.npu_json, pool));
  MSP_ASSIGN_OR_RETURN(loaded.bench, LoadTensorFolder(planned.input.bench_json, pool));
  source.mapping = MapRowsByName(loaded.npu, loaded.bench);
  source.load_seconds = load_watch.seconds();
  return CompareLoaded(options, planned.input, std::move(loaded), std::move(source), pool);
}

}  // namespace msprobe::analysis::compare
