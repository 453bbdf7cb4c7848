#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/common/readers.h"
#include "src/checkpoint/common/state_dict.h"
#include "src/io/contents.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStepTracker = "latest";
constexpr uint64_t kLongestStepTracker = 4096;
constexpr std::string_view kStepPrefix = "global_step";
constexpr std::string_view kModelStates = "_model_states.pt";
constexpr std::string_view kOptimizerStates = "_optim_states.pt";
constexpr std::string_view kOnlyModelRank = "mp_rank_00";
constexpr std::string_view kDataRank = "zero_pp_rank_";
constexpr const char* kWayOut =
    "DeepSpeed writes zero_to_fp32.py beside the tracker: run it there (python zero_to_fp32.py . "
    "pytorch_model.bin) and pass the file that it makes";

// "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt".
struct StateFile {
  std::string name;
  std::string_view kind;             // kModelStates or kOptimizerStates
  std::optional<int64_t> data_rank;  // nullopt: all data ranks share it
  std::string model_rank;            // "mp_rank_00"
};

std::optional<StateFile> ParseStateFile(const std::string& name) {
  StateFile file;
  file.name = name;
  file.kind = name.ends_with(kModelStates) ? kModelStates : kOptimizerStates;
  if (!name.ends_with(file.kind)) {
    return std::nullopt;
  }
  const std::string_view stem(name.data(), name.size() - file.kind.size());
  const size_t model_rank = stem.rfind("mp_rank_");
  if (model_rank == std::string_view::npos) {
    return std::nullopt;
  }
  file.model_rank = stem.substr(model_rank);
  const size_t data_rank = stem.find(kDataRank);
  if (data_rank != std::string_view::npos && data_rank < model_rank) {
    const size_t digits = data_rank + kDataRank.size();
    file.data_rank = base::ParseInt(stem.substr(digits, model_rank - 1 - digits));
    if (!file.data_rank || *file.data_rank < 0) {
      return std::nullopt;
    }
  }
  return file;
}

std::vector<StateFile> StateFilesIn(const fs::path& folder) {
  std::vector<StateFile> files;
  if (const auto names = base::ListFolder(folder); names.ok()) {
    for (const std::string& name : *names) {
      if (std::optional<StateFile> file = ParseStateFile(name)) {
        files.push_back(*std::move(file));
      }
    }
  }
  return files;
}

// The step folder that the tracker file of `root` names; nullopt if there is no tracker file.
std::optional<fs::path> TrackedStep(const fs::path& root) {
  const fs::path tracker = root / kStepTracker;
  if (!base::Exists(tracker) || base::IsFolder(tracker)) {
    return std::nullopt;
  }
  const Result<std::string> text = base::ReadTextFile(tracker, kLongestStepTracker);
  const std::string name(text.ok() ? base::Trim(*text) : std::string_view());
  return IsPlainFileName(name) ? std::optional(root / name) : std::nullopt;
}

struct NamedShape {
  std::string name;
  Shape shape;
};

class ZeroReader {
 public:
  ZeroReader(const fs::path& folder, const Options& options) : folder_(folder) {
    checkpoint_.kind = Kind::kDeepSpeed;
    checkpoint_.path = folder;
    const std::string step = base::WithoutLastSlash(folder).filename().string();
    if (step.starts_with(kStepPrefix)) {
      checkpoint_.iteration = base::ParseInt(std::string_view(step).substr(kStepPrefix.size()));
    }
    if (options.optimizer) {
      checkpoint_.warnings.push_back(
          fmt::format("{}: states of DeepSpeed's optimizer are not compared", folder.native()));
    }
  }

  Result<Checkpoint> Run() {
    for (StateFile& file : StateFilesIn(folder_)) {
      if (file.model_rank != kOnlyModelRank) {
        return UnsupportedError(
                   fmt::format("{}: a DeepSpeed checkpoint of a tensor or pipeline parallel model "
                               "({}), which is not joined",
                               folder_.native(), file.name))
            .WithHint(kWayOut);
      }
      auto& by_rank = file.kind == kModelStates ? model_files_ : optimizer_files_;
      by_rank.emplace(file.data_rank.value_or(-1), std::move(file.name));
    }
    const auto whole = model_files_.find(-1);
    MSP_RETURN_IF_ERROR(whole != model_files_.end() ? ReadWhole(whole->second) : ReadParts());
    MSP_RETURN_IF_ERROR(CheckNotEmpty(checkpoint_, true), folder_.native());
    return std::move(checkpoint_);
  }

 private:
  using Files = std::map<int64_t, std::string>;  // by data rank

  Result<const TensorFile*> Open(const std::string& name) {
    TensorFile::Options options;
    options.gather_slices = false;
    MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(folder_ / name, options));
    for (const std::string& warning : file.warnings()) {
      checkpoint_.warnings.push_back(fmt::format("{}: {}", name, warning));
    }
    checkpoint_.files.push_back(std::move(file));
    return &checkpoint_.files.back();
  }

  Status Unreadable(std::string_view what) const {
    return BadFormatError(
               fmt::format("{}: a DeepSpeed checkpoint of ZeRO 3, but {}", folder_.native(), what))
        .WithHint(kWayOut);
  }

  // The tensors of the model that one file holds as they are.
  void AddModule(const TensorFile& file, const std::unordered_set<std::string>& but) {
    io::ReadBudget memory = io::ReadBudget::ForMemory(file.size_bytes());
    std::vector<StateEntry> entries;
    for (const NamedTensor& tensor : file.tensors()) {
      if (tensor.path.size() < 2 || tensor.path[0] != "module") {
        continue;
      }
      StateEntry entry = MakeStateEntry(tensor, checkpoint_.files.size() - 1, memory);
      entry.path.erase(entry.path.begin());
      if (!but.contains(base::Join(entry.path, "."))) {
        entries.push_back(std::move(entry));
      }
    }
    AddParameters(std::move(entries), /*optimizer=*/true, checkpoint_, /*whole_names=*/true);
  }

  Status ReadWhole(const std::string& name) {
    MSP_ASSIGN_OR_RETURN(const TensorFile* file, Open(name));
    AddModule(*file, {});
    return {};
  }

  Status ReadParts() {
    if (model_files_.empty() || optimizer_files_.empty()) {
      return Unreadable(fmt::format("there is no file *{}",
                                    model_files_.empty() ? kModelStates : kOptimizerStates));
    }
    const auto ranks = static_cast<int64_t>(optimizer_files_.size());
    if (optimizer_files_.rbegin()->first != ranks - 1) {
      return Unreadable("files of ranks are missing: pass a copy that has all of them");
    }
    MSP_ASSIGN_OR_RETURN(const TensorFile* model, Open(model_files_.begin()->second));
    MSP_ASSIGN_OR_RETURN(const std::vector<NamedShape> shapes, ShapesIn(*model, "param_shapes"));
    MSP_ASSIGN_OR_RETURN(const std::vector<NamedShape> frozen,
                         ShapesIn(*model, "frozen_param_shapes"));
    std::unordered_set<std::string> parts;
    for (const std::vector<NamedShape>* list : {&shapes, &frozen}) {
      for (const NamedShape& named : *list) {
        parts.insert(named.name);
      }
    }
    AddModule(*model, parts);
    MSP_RETURN_IF_ERROR(ReadFlat(shapes));
    return frozen.empty() ? Status() : ReadFrozen(frozen);
  }

  Result<std::vector<NamedShape>> ShapesIn(const TensorFile& file, std::string_view key) const {
    std::vector<NamedShape> shapes;
    for (const NamedScalar& scalar : file.scalars()) {
      if (scalar.path.size() < 2 || scalar.path[0] != key || scalar.type != "torch.Size") {
        continue;
      }
      const std::optional<Shape> shape = ParseShape(scalar.text);
      if (!shape || !io::DenseBytes(*shape, sizeof(float)).ok()) {
        return Unreadable(fmt::format("the shape of {} cannot be read",
                                      base::Printable(scalar.path.back().substr(0, 200))));
      }
      shapes.push_back({scalar.path.back(), *shape});
    }
    return shapes;
  }

  // The data of one rank, in order; each a run of float32.
  using Runs = std::deque<std::span<const std::byte>>;

  Status ReadFlat(const std::vector<NamedShape>& shapes) {
    const auto ranks = static_cast<int64_t>(optimizer_files_.size());
    std::vector<Runs> runs;
    for (const auto& [rank, name] : optimizer_files_) {
      MSP_ASSIGN_OR_RETURN(const TensorFile* file, Open(name));
      Runs& own = runs.emplace_back();
      for (const NamedTensor& tensor : file->tensors()) {
        if (tensor.path.size() < 3 || tensor.path[1] != "fp32_flat_groups") {
          continue;
        }
        MSP_RETURN_IF_ERROR(Status(tensor.status), name);
        if (tensor.view.dtype != DType::kFloat32 || !tensor.view.is_plain()) {
          return Unreadable(fmt::format("fp32_flat_groups of {} is not a run of float32", name));
        }
        own.push_back(tensor.view.bytes());
      }
    }
    for (const NamedShape& named : shapes) {
      const int64_t count = ElementCount(named.shape);
      const int64_t part = count / ranks + (count % ranks != 0 ? 1 : 0);
      NamedTensor whole = Float32(named.shape);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t begin = std::min(count, rank * part);
        const int64_t wanted = std::min(count, begin + part) - begin;
        if (!Take(part, wanted, runs[static_cast<size_t>(rank)], whole.slices)) {
          return Unreadable(fmt::format("rank {} holds too few elements for {}", rank,
                                        base::Printable(named.name.substr(0, 200))));
        }
      }
      Add(named.name, whole);
    }
    for (const Runs& rest : runs) {
      for (const std::span<const std::byte> run : rest) {
        if (!run.empty()) {
          return Unreadable("its ranks hold more elements than its param_shapes tell of");
        }
      }
    }
    return {};
  }

  // Parameters that are not trained: a fragment of each in the model states of every rank.
  Status ReadFrozen(const std::vector<NamedShape>& shapes) {
    std::map<std::string, NamedTensor> wholes;
    std::map<std::string, int64_t> missing;
    for (const NamedShape& named : shapes) {
      wholes.emplace(named.name, Float32(named.shape));
      missing.emplace(named.name, ElementCount(named.shape));
    }
    for (const auto& [rank, name] : model_files_) {
      MSP_ASSIGN_OR_RETURN(const TensorFile* file, Open(name));
      for (const NamedTensor& tensor : file->tensors()) {
        const auto whole = tensor.path.size() == 2 && tensor.path[0] == "frozen_param_fragments"
                               ? wholes.find(tensor.path[1])
                               : wholes.end();
        if (whole == wholes.end()) {
          continue;
        }
        MSP_RETURN_IF_ERROR(Status(tensor.status), name);
        const bool is_first = whole->second.slices.empty();
        if (!tensor.view.is_plain() ||
            (!is_first && tensor.view.dtype != whole->second.view.dtype)) {
          return Unreadable(fmt::format("the fragment of {} in {} cannot be joined",
                                        base::Printable(tensor.path[1].substr(0, 200)), name));
        }
        whole->second.view.dtype = tensor.view.dtype;
        int64_t& left = missing[tensor.path[1]];
        const int64_t count = std::min(left, tensor.view.element_count());
        whole->second.slices.push_back(
            tensor.view.bytes().first(static_cast<size_t>(count) * DTypeSize(tensor.view.dtype)));
        left -= count;
      }
    }
    for (const NamedShape& named : shapes) {
      if (missing[named.name] != 0) {
        return Unreadable(
            fmt::format("fragments of {} are missing", base::Printable(named.name.substr(0, 200))));
      }
      Add(named.name, wholes.at(named.name));
    }
    return {};
  }

  static NamedTensor Float32(const Shape& shape) {
    NamedTensor tensor;
    tensor.view.dtype = DType::kFloat32;
    tensor.view.shape = shape;
    tensor.view.strides = ContiguousStrides(shape);
    return tensor;
  }

  // Moves `part` elements from the front of `runs`, and hands out the first `wanted` of them.
  static bool Take(int64_t part, int64_t wanted, Runs& runs,
                   std::vector<std::span<const std::byte>>& slices) {
    auto bytes_left = static_cast<uint64_t>(part) * sizeof(float);
    auto wanted_left = static_cast<uint64_t>(wanted) * sizeof(float);
    while (bytes_left > 0) {
      if (runs.empty()) {
        return false;
      }
      std::span<const std::byte>& front = runs.front();
      const size_t taken = std::min<uint64_t>(front.size(), bytes_left);
      if (const size_t used = std::min<uint64_t>(taken, wanted_left); used > 0) {
        slices.push_back(front.first(used));
        wanted_left -= used;
      }
      front = front.subspan(taken);
      bytes_left -= taken;
      if (front.empty()) {
        runs.pop_front();
      }
    }
    return true;
  }

  void Add(const std::string& name, const NamedTensor& whole) {
    io::ReadBudget memory = io::ReadBudget::ForMemory(0);
    StateEntry entry = whole.slices.empty() ? StateEntry() : MakeStateEntry(whole, kNoFile, memory);
    if (whole.slices.empty()) {
      entry.parameter.dtype = whole.view.dtype;
      entry.parameter.shape = whole.view.shape;
    }
    entry.parameter.name = name;
    if (names_.insert(name).second) {
      checkpoint_.parameters.push_back(std::move(entry.parameter));
    }
  }

  const fs::path folder_;
  Checkpoint checkpoint_;
  Files model_files_;  // -1: the file of all
  Files optimizer_files_;
  std::unordered_set<std::string> names_;  // of the parameters that were joined
};

}  // namespace

bool LooksLikeDeepSpeed(const fs::path& folder) {
  if (!StateFilesIn(folder).empty()) {
    return true;
  }
  const std::optional<fs::path> step = TrackedStep(folder);
  return step.has_value() &&
         (step->filename().string().starts_with(kStepPrefix) || !StateFilesIn(*step).empty());
}

Result<Checkpoint> OpenDeepSpeed(const fs::path& folder, const Options& options) {
  if (!StateFilesIn(folder).empty()) {
    return ZeroReader(folder, options).Run();
  }
  const std::optional<fs::path> step = TrackedStep(folder);
  if (!step.has_value() || StateFilesIn(*step).empty()) {
    return NotFoundError(fmt::format("{}: DeepSpeed's file \"latest\" names no folder with "
                                     "*_model_states.pt files",
                                     folder.native()))
        .WithHint("pass the folder of one step (global_step*)");
  }
  return ZeroReader(*step, options).Run();
}

}  // namespace msprobe::checkpoint
