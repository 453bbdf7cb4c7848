#include "src/checkpoint/distributed/metadata.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/checkpoint/common/plain_name.h"
#include "src/io/dense_view.h"
#include "src/io/pickle_describe.h"
#include "src/io/pickle_lister.h"
#include "src/io/pickle_reader.h"
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
// Of the keys in all paths; one text can be referred to very often.
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

}  // namespace msprobe::checkpoint
