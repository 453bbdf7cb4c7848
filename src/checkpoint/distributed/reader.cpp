#include "src/checkpoint/distributed/reader.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/common/state_dict.h"
#include "src/checkpoint/megatron/layout.h"
#include "src/io/contents.h"
#include "src/io/pickle_reader.h"
#include "src/io/pickle_tensors.h"
#include "src/io/torch_rebuild.h"

namespace msprobe::checkpoint {
namespace {

using io::kNoPickleValue;
using io::Pickle;
using io::PickleGlobal;
using io::PickleId;
using io::PickleKind;

// Attributes are looked up one by one: real objects have up to five of them.
constexpr size_t kMostAttributes = 32;
constexpr size_t kMostStates = 2;  // attributes and slots
// Sizes and offsets in all; a pickle can refer to one list very often.
constexpr size_t kMostNumbers = 16'000'000;
constexpr size_t kLongestPath = 64;  // keys
// Bytes of the keys in all paths; one text can be referred to very often.
constexpr size_t kMostPathBytes = size_t{64} << 20U;

// One storage_data entry.
struct StoredChunk {
  Shape offsets;
  std::string_view file;
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
  bool transformed = false;  // compressed or otherwise changed before it was written
};

Status Bad(std::string text) {
  return BadFormatError(std::move(text)).WithHint("the file is damaged or of an unknown version");
}

class MetadataParser {
 public:
  explicit MetadataParser(const Pickle& pickle) : pickle_(pickle) {}

  Status Parse(DistributedMetadata& metadata) {
    const PickleId tensors = Attribute(pickle_.root(), "state_dict_metadata");
    const PickleId storage = Attribute(pickle_.root(), "storage_data");
    if (!IsDict(tensors) || !IsDict(storage)) {
      return Bad("no state_dict_metadata and storage_data: not the metadata of a checkpoint");
    }
    MSP_RETURN_IF_ERROR(ReadStorage(storage));
    const PickleId planner = Attribute(pickle_.root(), "planner_data");
    if (IsDict(planner)) {
      for (const auto& [key, value] : pickle_.UniqueItems(planner)) {
        if (pickle_.kind(key) == PickleKind::kText) {
          planned_.emplace(pickle_.text(key), value);
        }
      }
    }
    for (const auto& [key, value] : pickle_.UniqueItems(tensors)) {
      if (pickle_.kind(key) != PickleKind::kText) {
        return Bad("a tensor whose name is not a string");
      }
      if (Attribute(value, "chunks") != kNoPickleValue) {
        MSP_RETURN_IF_ERROR(AddTensor(pickle_.text(key), value, metadata));
      }
    }
    return {};
  }

 private:
  bool IsDict(PickleId id) const {
    return id != kNoPickleValue && pickle_.kind(id) == PickleKind::kDict;
  }

  // An attribute of an object; kNoPickleValue when absent.
  PickleId Attribute(PickleId object, std::string_view name) const {
    if (object == kNoPickleValue || pickle_.kind(object) != PickleKind::kObject ||
        pickle_.sequence(pickle_.object(object).state).size() > kMostStates) {
      return kNoPickleValue;
    }
    const PickleId attributes = pickle_.attributes(object);
    return attributes != kNoPickleValue && pickle_.items(attributes).size() <= 2 * kMostAttributes
               ? pickle_.Find(attributes, name)
               : kNoPickleValue;
  }

  // torch.Size, a tuple or a list of counts.
  bool ReadSizes(PickleId id, Shape* sizes) {
    if (id == kNoPickleValue) {
      return false;
    }
    if (pickle_.kind(id) == PickleKind::kObject &&
        pickle_.global(pickle_.object(id).callee) == PickleGlobal::kTorchSize) {
      const std::span<const PickleId> arguments = pickle_.sequence(pickle_.object(id).arguments);
      if (arguments.empty()) {
        return true;
      }
      id = arguments[0];
    }
    if (pickle_.kind(id) != PickleKind::kTuple && pickle_.kind(id) != PickleKind::kList) {
      return false;
    }
    const std::span<const PickleId> items = pickle_.items(id);
    if (items.size() > io::kMaxRank || items.size() > numbers_left_) {
      return false;
    }
    numbers_left_ -= items.size();
    sizes->reserve(items.size());
    for (const PickleId item : items) {
      const std::optional<int64_t> value = pickle_.AsInt(item);
      if (!value || *value < 0) {
        return false;
      }
      sizes->push_back(*value);
    }
    return true;
  }

  Status ReadStorage(PickleId storage) {
    for (const auto& [key, value] : pickle_.UniqueItems(storage)) {
      const PickleId name = Attribute(key, "fqn");
      if (name == kNoPickleValue || pickle_.kind(name) != PickleKind::kText) {
        return Bad("a storage entry without a name");
      }
      const PickleId offset = Attribute(key, "offset");
      if (offset == kNoPickleValue || pickle_.kind(offset) == PickleKind::kNone) {
        continue;  // no tensor
      }
      StoredChunk chunk;
      const PickleId file = Attribute(value, "relative_path");
      const std::optional<uint64_t> begin = Count(Attribute(value, "offset"));
      const std::optional<uint64_t> size_bytes = Count(Attribute(value, "length"));
      if (!ReadSizes(offset, &chunk.offsets) || file == kNoPickleValue ||
          pickle_.kind(file) != PickleKind::kText || !begin || !size_bytes) {
        return Bad(fmt::format("tensor \"{}\": its storage entry has no file, offset and length",
                               Shown(pickle_.text(name))));
      }
      chunk.file = pickle_.text(file);
      chunk.begin = *begin;
      chunk.size_bytes = *size_bytes;
      const PickleId transforms = Attribute(value, "transform_descriptors");
      chunk.transformed = transforms != kNoPickleValue && !pickle_.sequence(transforms).empty();
      stored_[pickle_.text(name)].push_back(std::move(chunk));
    }
    return {};
  }

  std::optional<uint64_t> Count(PickleId id) const {
    const std::optional<int64_t> value =
        id != kNoPickleValue ? pickle_.AsInt(id) : std::optional<int64_t>();
    return value && *value >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*value))
                                : std::nullopt;
  }

  static std::string Shown(std::string_view name) { return base::Printable(name.substr(0, 200)); }

  // (dtype, layout, ...), or the same as attributes.
  std::optional<DType> ReadDType(PickleId properties) const {
    if (properties == kNoPickleValue || pickle_.kind(properties) != PickleKind::kObject) {
      return std::nullopt;
    }
    PickleId dtype = Attribute(properties, "dtype");
    const std::span<const PickleId> state = pickle_.sequence(pickle_.object(properties).state);
    if (dtype == kNoPickleValue && !state.empty()) {
      dtype = state[0];
    }
    return dtype != kNoPickleValue ? io::TorchDTypeOfGlobal(pickle_, dtype) : std::nullopt;
  }

  // The keys of the state dict that lead to a tensor, as the planner flattened it.
  std::vector<std::string> PathOf(std::string_view name) {
    const auto planned = planned_.find(name);
    std::vector<std::string> path;
    if (planned != planned_.end()) {
      const std::span<const PickleId> keys = pickle_.sequence(planned->second);
      if (keys.size() <= kLongestPath) {
        for (const PickleId key : keys) {
          path.push_back(io::PickleKeyText(pickle_, key));
          const size_t bytes = sizeof(std::string) + path.back().size();
          path_bytes_left_ -= std::min(path_bytes_left_, bytes);
        }
      }
    }
    if (path_bytes_left_ == 0) {
      path.clear();
    }
    if (path.empty()) {
      path.emplace_back(name);
    }
    return path;
  }

  Status AddTensor(std::string_view name, PickleId value, DistributedMetadata& metadata) {
    DistributedTensor tensor;
    tensor.path = PathOf(name);
    tensor.dtype = ReadDType(Attribute(value, "properties"));
    if (!ReadSizes(Attribute(value, "size"), &tensor.size)) {
      return Bad(fmt::format("tensor \"{}\" has no valid size", Shown(name)));
    }
    // Elements of any type have at most 16 bytes.
    if (const auto fits = io::DenseBytes(tensor.size, 16); !fits.ok()) {
      tensor.size.clear();
      tensor.status = fits.status();
    }
    const std::span<const PickleId> chunks = pickle_.sequence(Attribute(value, "chunks"));
    std::vector<StoredChunk> stored;
    if (const auto found = stored_.find(name); found != stored_.end()) {
      stored = std::move(found->second);
      stored_.erase(found);
    }
    // A chunk without a place is a gap, and so the tiling will say.
    if (chunks.size() > stored.size() && tensor.status.ok()) {
      tensor.status = BadFormatError(
          fmt::format("{} of its {} chunks are stored", stored.size(), chunks.size()));
    }
    std::sort(stored.begin(), stored.end(),
              [](const StoredChunk& a, const StoredChunk& b) { return a.offsets < b.offsets; });
    for (size_t i = 0; i < chunks.size() && tensor.status.ok(); ++i) {
      tensor.status = AddChunk(chunks[i], stored, tensor, metadata);
    }
    metadata.tensors.push_back(std::move(tensor));
    return {};
  }

  Status AddChunk(PickleId value, std::span<const StoredChunk> stored, DistributedTensor& tensor,
                  DistributedMetadata& metadata) {
    DistributedChunk chunk;
    if (!ReadSizes(Attribute(value, "offsets"), &chunk.offsets) ||
        !ReadSizes(Attribute(value, "sizes"), &chunk.sizes) ||
        chunk.offsets.size() != tensor.size.size() || chunk.sizes.size() != tensor.size.size()) {
      return BadFormatError("a chunk without valid offsets and sizes");
    }
    for (size_t axis = 0; axis < tensor.size.size(); ++axis) {
      if (chunk.sizes[axis] > tensor.size[axis] ||
          chunk.offsets[axis] > tensor.size[axis] - chunk.sizes[axis]) {
        return BadFormatError(fmt::format("the chunk of shape {} at {} reaches outside of {}",
                                          ShapeText(chunk.sizes), ShapeText(chunk.offsets),
                                          ShapeText(tensor.size)));
      }
    }
    const auto place = std::lower_bound(
        stored.begin(), stored.end(), chunk.offsets,
        [](const StoredChunk& a, const Shape& offsets) { return a.offsets < offsets; });
    if (place == stored.end() || place->offsets != chunk.offsets) {
      return BadFormatError(fmt::format("no file holds the chunk at {}", ShapeText(chunk.offsets)));
    }
    chunk.begin = place->begin;
    chunk.size_bytes = place->size_bytes;
    if (!IsPlainFileName(place->file)) {
      chunk.status = BadFormatError(
          fmt::format("\"{}\" is not a file name inside the folder", Shown(place->file)));
    } else if (place->transformed) {
      chunk.status = UnsupportedError("a compressed chunk cannot be read");
    } else {
      const auto [file, is_new] = files_.try_emplace(place->file, metadata.files.size());
      if (is_new) {
        metadata.files.emplace_back(place->file);
      }
      chunk.file = file->second;
    }
    tensor.chunks.push_back(std::move(chunk));
    return {};
  }

  const Pickle& pickle_;
  size_t numbers_left_ = kMostNumbers;
  size_t path_bytes_left_ = kMostPathBytes;
  std::unordered_map<std::string_view, std::vector<StoredChunk>> stored_;
  std::unordered_map<std::string_view, PickleId> planned_;
  std::unordered_map<std::string_view, size_t> files_;
};

}  // namespace

Result<DistributedMetadata> ParseDistributedMetadata(std::span<const std::byte> bytes) {
  MSP_ASSIGN_OR_RETURN(const Pickle pickle, io::PickleReader::Read(bytes));
  DistributedMetadata metadata;
  io::WarnAboutGlobals(pickle, metadata.warnings);
  MSP_RETURN_IF_ERROR(MetadataParser(pickle).Parse(metadata));
  return metadata;
}

namespace {

// Real models stay far below; the facts and the shapes come from files.
constexpr int64_t kMostParts = 10'000;
constexpr int64_t kMostPieces = 1'000'000;

// How many parts all stacks may become, and how many bytes their names and messages may take. A
// stack may repeat one element, have none, or stand in no file.
constexpr uint64_t kFreeParts = 100'000;
constexpr uint64_t kFreePartTextBytes = uint64_t{64} << 20U;
constexpr uint64_t kFileBytesPerPart = 64;

class PartBudget {
 public:
  explicit PartBudget(uint64_t file_bytes)
      : parts_left_(kFreeParts + file_bytes / kFileBytesPerPart),
        text_bytes_left_(kFreePartTextBytes + file_bytes) {}

  // Whether `whole` may become `count` parts.
  bool Take(const Parameter& whole, int64_t count) {
    constexpr uint64_t kNumberBytes = 32;
    uint64_t text_bytes = whole.name.size() + kNumberBytes + whole.status.message().size();
    for (const std::string& note : whole.notes) {
      text_bytes += note.size();
    }
    const auto parts = static_cast<uint64_t>(count);
    if (parts > parts_left_ || text_bytes > text_bytes_left_ / parts) {
      return false;
    }
    parts_left_ -= parts;
    text_bytes_left_ -= text_bytes * parts;
    return true;
  }

 private:
  uint64_t parts_left_;
  uint64_t text_bytes_left_;
};

// A word in a name behind which the number of the part is missing, and what to write there.
struct Stack {
  std::string_view word;
  std::string_view numbered;  // with the number behind it
};
constexpr Stack kLayers = {".layers.", ".layers."};
constexpr Stack kExperts = {".experts.experts.", ".experts.local_experts."};

std::string NameOfPart(std::string_view name, size_t at, const Stack& stack, int64_t number) {
  return fmt::format("{}{}{}.{}", name.substr(0, at), stack.numbered, number,
                     name.substr(at + stack.word.size()));
}

bool CanSplit(const Parameter& parameter, int64_t count) {
  if (count < 1 || count > kMostParts || parameter.shape.empty() || parameter.shape[0] != count) {
    return false;
  }
  int64_t pieces = 0;
  for (const Piece& piece : parameter.pieces) {
    pieces += piece.view.shape[0];
    if (pieces > kMostPieces) {
      return false;
    }
  }
  // Every part looks at every piece.
  return static_cast<int64_t>(parameter.pieces.size()) <= 100 * kMostPieces / count;
}

// Appends the parts, or the parameter itself where it is not a stack.
void Split(Parameter parameter, std::optional<int64_t> count, const Stack& stack,
           PartBudget& budget, std::vector<Parameter>& out) {
  const size_t at = parameter.name.find(stack.word);
  const size_t after = at + stack.word.size();
  if (!count || at == std::string::npos || after >= parameter.name.size() ||
      std::isdigit(static_cast<unsigned char>(parameter.name[after])) != 0 ||
      !CanSplit(parameter, *count) || !budget.Take(parameter, *count)) {
    out.push_back(std::move(parameter));
    return;
  }
  for (int64_t number = 0; number < *count; ++number) {
    // Cannot fail: the number is below the size of axis 0.
    Result<Parameter> part = Select(parameter, number);
    if (part.ok()) {
      part->name = NameOfPart(parameter.name, at, stack, number);
      out.push_back(*std::move(part));
    }
  }
}

}  // namespace

std::vector<Parameter> SplitStackedLayers(std::vector<Parameter> parameters,
                                          const ModelFacts& facts, uint64_t file_bytes) {
  PartBudget budget(file_bytes);
  std::vector<Parameter> layers;
  for (Parameter& parameter : parameters) {
    Split(std::move(parameter), facts.layers, kLayers, budget, layers);
  }
  std::vector<Parameter> experts;
  for (Parameter& parameter : layers) {
    Split(std::move(parameter), facts.experts, kExperts, budget, experts);
  }
  return experts;
}

namespace {

constexpr const char* kCommonName = "common.pt";  // Megatron's arguments and counters

// The chunks of the parameters that are wanted, each file opened once.
class ChunkReader {
 public:
  ChunkReader(const DistributedMetadata& metadata, Checkpoint& checkpoint)
      : metadata_(metadata), checkpoint_(checkpoint), wanted_(metadata.files.size()) {}

  void Add(std::string name, const DistributedTensor& tensor) {
    Parameter parameter;
    parameter.name = std::move(name);
    parameter.shape = tensor.size;
    parameter.dtype = tensor.dtype.value_or(DType::kFloat32);
    parameter.status = tensor.status;
    const size_t number = checkpoint_.parameters.size();
    for (const DistributedChunk& chunk : tensor.chunks) {
      if (!parameter.status.ok()) {
        break;
      }
      parameter.status = chunk.status;
      if (chunk.status.ok() && ElementCount(chunk.sizes) > 0) {
        wanted_[chunk.file].push_back({number, &chunk});
      }
    }
    checkpoint_.parameters.push_back(std::move(parameter));
  }

  void ReadAll() {
    for (size_t file = 0; file < wanted_.size(); ++file) {
      if (!wanted_[file].empty()) {
        ReadFile(file);
      }
    }
    if (unreadable_.more() > 0) {
      checkpoint_.warnings.push_back(
          fmt::format("{} more files cannot be read", unreadable_.more()));
    }
    for (Parameter& parameter : checkpoint_.parameters) {
      if (parameter.status.ok()) {
        parameter.status = CheckTiling(parameter);
      }
      if (!parameter.status.ok()) {
        parameter.pieces.clear();
      }
    }
  }

 private:
  struct Wanted {
    size_t parameter;
    const DistributedChunk* chunk;
  };

  void ReadFile(size_t file) {
    const std::string& name = metadata_.files[file];
    std::vector<Wanted>& wanted = wanted_[file];
    std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
      return a.chunk->begin < b.chunk->begin;
    });
    // Parts that overlap would let a small file cost any amount of work.
    std::vector<TensorFile::Part> parts;
    std::vector<Wanted> readers;
    uint64_t end = 0;
    for (const Wanted& each : wanted) {
      const DistributedChunk& chunk = *each.chunk;
      if (chunk.begin < end) {
        Fail(each, BadFormatError(fmt::format("{}: the chunk at byte {} overlaps another", name,
                                              chunk.begin)));
        continue;
      }
      parts.push_back({chunk.begin, chunk.size_bytes});
      readers.push_back(each);
      end = chunk.begin + chunk.size_bytes;
    }
    TensorFile::Options options;
    options.verify_stored_up_to_bytes = 0;  // opening reads no elements
    Result<TensorFile> opened = TensorFile::OpenParts(checkpoint_.path / name, parts, options);
    if (!opened.ok()) {
      const Status status = std::move(opened).status();
      unreadable_.Add(
          fmt::format("{}: {} chunks cannot be read ({})", name, readers.size(), status.message()));
      for (const Wanted& each : readers) {
        Fail(each, status);
      }
      return;
    }
    const size_t number = checkpoint_.files.size();
    checkpoint_.files.push_back(*std::move(opened));
    const TensorFile& tensors = checkpoint_.files.back();
    for (const std::string& warning : tensors.warnings()) {
      checkpoint_.warnings.push_back(fmt::format("{}: {}", name, warning));
    }
    for (size_t i = 0; i < readers.size(); ++i) {
      Place(readers[i], tensors.tensors()[i], number, name);
    }
  }

  void Place(const Wanted& wanted, const NamedTensor& tensor, size_t file,
             const std::string& file_name) {
    Status status = tensor.status;
    if (status.ok() && tensor.view.shape != wanted.chunk->sizes) {
      status = BadFormatError(fmt::format(
          "the chunk at {} has shape {} instead of {}", ShapeText(wanted.chunk->offsets),
          ShapeText(tensor.view.shape), ShapeText(wanted.chunk->sizes)));
    }
    if (!status.ok()) {
      Fail(wanted, std::move(status).AddContext(file_name));
      return;
    }
    Parameter& parameter = checkpoint_.parameters[wanted.parameter];
    if (parameter.pieces.empty()) {
      parameter.dtype = tensor.view.dtype;
    }
    parameter.pieces.push_back({tensor.view, wanted.chunk->offsets, file});
  }

  void Fail(const Wanted& wanted, Status status) {
    Parameter& parameter = checkpoint_.parameters[wanted.parameter];
    if (parameter.status.ok()) {
      parameter.status = std::move(status);
    }
  }

  const DistributedMetadata& metadata_;
  Checkpoint& checkpoint_;
  std::vector<std::vector<Wanted>> wanted_;  // per file
  base::LimitedWarnings unreadable_{checkpoint_.warnings};
};

// Megatron's arguments, if this is one of its checkpoints: facts, iteration, and names as its other
// checkpoints have them.
void ApplyMegatron(const Options& options, Checkpoint& checkpoint) {
  const std::filesystem::path path = checkpoint.path / kCommonName;
  if (!base::Exists(path)) {
    return;
  }
  const Result<TensorFile> common = TensorFile::Open(path);
  if (!common.ok()) {
    checkpoint.warnings.push_back(fmt::format(
        "without Megatron's arguments stacked layers stay stacked: {}", common.status().message()));
    return;
  }
  for (const std::string& warning : common->warnings()) {
    checkpoint.warnings.push_back(fmt::format("{}: {}", kCommonName, warning));
  }
  const MegatronArgs arguments(*common);
  if (arguments.empty()) {
    return;
  }
  checkpoint.facts = FactsFromArgs(arguments);
  checkpoint.parameters = SplitStackedLayers(std::move(checkpoint.parameters), checkpoint.facts,
                                             checkpoint.file_bytes());
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : checkpoint.parameters) {
    names.insert(parameter.name);
  }
  for (Parameter& parameter : checkpoint.parameters) {
    std::string name = TranslateMegatronName(parameter.name, !options.compatible_merge);
    if (names.insert(name).second) {
      parameter.name = std::move(name);
    }
  }
}

}  // namespace

bool LooksLikeDistributed(const std::filesystem::path& folder) {
  const Result<IterationFolder> found = FindIterationFolder(folder);
  return found.ok() && base::Exists(found->folder / kDistributedMetadataName);
}

Result<Checkpoint> OpenDistributed(const std::filesystem::path& folder, const Options& options) {
  MSP_ASSIGN_OR_RETURN(const IterationFolder found, FindIterationFolder(folder));
  Checkpoint checkpoint;
  checkpoint.kind = Kind::kDistributed;
  checkpoint.path = found.folder;
  checkpoint.iteration = found.iteration;
  const std::filesystem::path path = found.folder / kDistributedMetadataName;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(DistributedMetadata metadata, ParseDistributedMetadata(bytes.bytes()),
                       path.native());
  checkpoint.warnings = metadata.warnings;
  std::vector<std::vector<std::string>> paths;
  paths.reserve(metadata.tensors.size());
  for (DistributedTensor& tensor : metadata.tensors) {
    paths.push_back(std::move(tensor.path));
  }
  std::vector<std::string> names = NameParameters(paths, options.optimizer, checkpoint.warnings);
  ChunkReader reader(metadata, checkpoint);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) {
      reader.Add(std::move(names[i]), metadata.tensors[i]);
    }
  }
  reader.ReadAll();
  MSP_RETURN_IF_ERROR(CheckNotEmpty(checkpoint, options.optimizer), found.folder.native());
  if (checkpoint.files.empty() && !checkpoint.parameters.front().status.ok()) {
    return Status(checkpoint.parameters.front().status)
        .AddContext(fmt::format("{}: parameter {}", found.folder.native(),
                                checkpoint.parameters.front().name));
  }
  ApplyMegatron(options, checkpoint);
  return checkpoint;
}

}  // namespace msprobe::checkpoint
