#include "src/checkpoint/checkpoint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/common/readers.h"
#include "src/checkpoint/distributed/reader.h"
#include "src/checkpoint/megatron/reader.h"
#include "src/io/contents.h"

namespace msprobe::checkpoint {
namespace {

void SortByPlace(std::vector<Piece>& pieces) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
}

// Everything but shape and pieces.
Parameter Labelled(const Parameter& source) {
  Parameter result;
  result.name = source.name;
  result.dtype = source.dtype;
  result.raw_dtype = source.raw_dtype;
  result.status = source.status;
  result.notes = source.notes;
  return result;
}

bool Overlaps(const Piece& a, const Piece& b) {
  for (size_t axis = 0; axis < a.offset.size(); ++axis) {
    if (a.offset[axis] + a.view.shape[axis] <= b.offset[axis] ||
        b.offset[axis] + b.view.shape[axis] <= a.offset[axis]) {
      return false;
    }
  }
  return true;
}

// A random number for every place on every axis (SplitMix64).
uint64_t Landmark(size_t axis, int64_t place) {
  uint64_t bits = static_cast<uint64_t>(place) * 0x9E3779B97F4A7C15U +
                  (static_cast<uint64_t>(axis) + 1) * 0xD1B54A32D192ED03U;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31U);
}

// The volume of a box when the distance of two places is the difference of their landmarks, modulo
// 2^64. Volumes of boxes that tile another add up to its volume; those of boxes that overlap here
// and leave a gap there do not, but for a chance of about 2^-60. Unlike pairs, linear.
uint64_t RandomVolume(const Shape& offset, const Shape& shape) {
  uint64_t volume = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    volume *= Landmark(axis, offset[axis] + shape[axis]) - Landmark(axis, offset[axis]);
  }
  return volume;
}

Status BadTiling(const Parameter& parameter, std::string_view what) {
  return {StatusCode::kBadFormat, fmt::format("parameter {} of shape {}: {}", parameter.name,
                                              ShapeText(parameter.shape), what)};
}

// For pieces that do overlap: which, if that is soon found.
Status NameOverlap(const Parameter& parameter) {
  constexpr size_t kMostPairs = 1'000'000;
  const std::vector<Piece>& pieces = parameter.pieces;
  size_t pairs = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (size_t j = i + 1; j < pieces.size() && pairs < kMostPairs; ++j, ++pairs) {
      if (Overlaps(pieces[i], pieces[j])) {
        return BadTiling(parameter,
                         fmt::format("the pieces at {} and {} overlap", ShapeText(pieces[i].offset),
                                     ShapeText(pieces[j].offset)));
      }
    }
  }
  return BadTiling(parameter, "its pieces overlap");
}

Status CheckAxis(const Parameter& source, size_t axis) {
  if (axis < source.shape.size()) {
    return {};
  }
  return {StatusCode::kBadFormat, fmt::format("parameter {} of shape {} has no axis {}",
                                              source.name, ShapeText(source.shape), axis)};
}

}  // namespace

void Piece::Advance(int64_t elements) {
  if (coded != nullptr) {
    coded_first += elements;
    return;
  }
  const size_t skipped = static_cast<size_t>(elements) * DTypeSize(view.dtype);
  view.data += skipped;
  view.extent_bytes -= skipped;
}

Parameter MakeParameter(std::string name, std::shared_ptr<const io::CodedTensor> coded) {
  TensorView view;
  view.shape = coded->shape();
  view.strides = ContiguousStrides(view.shape);
  Parameter parameter = MakeParameter(std::move(name), view, kNoFile);
  for (Piece& piece : parameter.pieces) {
    piece.coded = coded;
  }
  return parameter;
}

std::string FormatOf(const Parameter& parameter) {
  if (!parameter.raw_dtype.empty()) {
    return base::AsciiLower(parameter.raw_dtype);
  }
  return !parameter.pieces.empty() && parameter.pieces.front().coded != nullptr
             ? parameter.pieces.front().coded->format()
             : std::string(io::ShortDTypeName(parameter.dtype));
}

Parameter MakeParameter(std::string name, const TensorView& view, size_t file) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.dtype = view.dtype;
  parameter.shape = view.shape;
  if (view.element_count() > 0) {
    parameter.pieces.push_back({view, Shape(view.shape.size(), 0), file});
  }
  return parameter;
}

Status CheckTiling(Parameter& parameter) {
  std::vector<Piece>& pieces = parameter.pieces;
  std::erase_if(pieces, [](const Piece& piece) { return piece.view.element_count() == 0; });
  SortByPlace(pieces);
  int64_t covered = 0;
  for (const Piece& piece : pieces) {
    if (piece.offset.size() != parameter.shape.size() ||
        piece.view.shape.size() != parameter.shape.size()) {
      return BadTiling(parameter,
                       fmt::format("a piece has shape {} at {}", ShapeText(piece.view.shape),
                                   ShapeText(piece.offset)));
    }
    for (size_t axis = 0; axis < parameter.shape.size(); ++axis) {
      // Without overflow: nothing here need be small.
      if (piece.offset[axis] < 0 || piece.view.shape[axis] > parameter.shape[axis] ||
          piece.offset[axis] > parameter.shape[axis] - piece.view.shape[axis]) {
        return BadTiling(parameter,
                         fmt::format("the piece of shape {} at {} reaches outside",
                                     ShapeText(piece.view.shape), ShapeText(piece.offset)));
      }
    }
    covered += piece.view.element_count();
    if (covered > parameter.element_count()) {
      return BadTiling(parameter, "its pieces overlap");
    }
  }
  if (covered != parameter.element_count()) {
    return BadTiling(
        parameter, fmt::format("{} of {} elements are missing", parameter.element_count() - covered,
                               parameter.element_count()));
  }
  uint64_t volume = 0;
  for (const Piece& piece : pieces) {
    volume += RandomVolume(piece.offset, piece.view.shape);
  }
  if (volume != RandomVolume(Shape(parameter.shape.size(), 0), parameter.shape)) {
    return NameOverlap(parameter);
  }
  return {};
}

Result<Parameter> Concatenate(std::span<const Parameter> parts, size_t axis) {
  if (parts.empty()) {
    return Status(StatusCode::kInternal, "nothing to join");
  }
  Parameter joined = Labelled(parts.front());
  joined.shape = parts.front().shape;
  MSP_RETURN_IF_ERROR(CheckAxis(parts.front(), axis));
  joined.shape[axis] = 0;
  for (const Parameter& part : parts) {
    Shape other = part.shape;
    if (other.size() == joined.shape.size()) {
      other[axis] = joined.shape[axis];
    }
    if (other != joined.shape) {
      return Status(
          StatusCode::kBadFormat,
          fmt::format("parameter {}: shapes {} and {} cannot be joined along axis {}", joined.name,
                      ShapeText(parts.front().shape), ShapeText(part.shape), axis));
    }
    for (const Piece& piece : part.pieces) {
      joined.pieces.push_back(piece);
      joined.pieces.back().offset[axis] += joined.shape[axis];
    }
    if (__builtin_add_overflow(joined.shape[axis], part.shape[axis], &joined.shape[axis])) {
      return Status(StatusCode::kBadFormat,
                    fmt::format("parameter {}: the whole is larger than any memory", joined.name));
    }
    if (&part != &parts.front()) {
      joined.notes.insert(joined.notes.end(), part.notes.begin(), part.notes.end());
    }
    if (joined.status.ok() && !part.status.ok()) {
      joined.status = part.status;
    }
  }
  // Also of parts that cannot be read, whose sizes nothing bounds.
  MSP_RETURN_IF_ERROR(io::DenseBytes(joined.shape, DTypeSize(joined.dtype)).status());
  SortByPlace(joined.pieces);
  return joined;
}

Result<Parameter> Slice(const Parameter& source, size_t axis, int64_t begin, int64_t count) {
  MSP_RETURN_IF_ERROR(CheckAxis(source, axis));
  if (begin < 0 || count < 0 || count > source.shape[axis] || begin > source.shape[axis] - count) {
    return Status(StatusCode::kBadFormat,
                  fmt::format("parameter {} of shape {} has no elements {} to {} on axis {}",
                              source.name, ShapeText(source.shape), begin, begin + count, axis));
  }
  Parameter part = Labelled(source);
  part.shape = source.shape;
  part.shape[axis] = count;
  for (const Piece& piece : source.pieces) {
    const int64_t first = std::max(begin, piece.offset[axis]);
    const int64_t last = std::min(begin + count, piece.offset[axis] + piece.view.shape[axis]);
    if (first >= last) {
      continue;
    }
    Piece cut = piece;
    cut.Advance((first - piece.offset[axis]) * piece.view.strides[axis]);
    cut.view.shape[axis] = last - first;
    cut.offset[axis] = first - begin;
    part.pieces.push_back(std::move(cut));
  }
  return part;
}

Result<Parameter> Transpose(const Parameter& source) {
  if (source.shape.size() != 2) {
    return Status(StatusCode::kBadFormat,
                  fmt::format("parameter {} of shape {} is not a matrix and cannot be transposed",
                              source.name, ShapeText(source.shape)));
  }
  Parameter turned = source;
  std::swap(turned.shape[0], turned.shape[1]);
  for (Piece& piece : turned.pieces) {
    std::swap(piece.offset[0], piece.offset[1]);
    std::swap(piece.view.shape[0], piece.view.shape[1]);
    std::swap(piece.view.strides[0], piece.view.strides[1]);
  }
  SortByPlace(turned.pieces);
  return turned;
}

Result<Parameter> Select(const Parameter& source, int64_t index) {
  MSP_ASSIGN_OR_RETURN(Parameter part, Slice(source, 0, index, 1));
  part.shape.erase(part.shape.begin());
  for (Piece& piece : part.pieces) {
    piece.offset.erase(piece.offset.begin());
    piece.view.shape.erase(piece.view.shape.begin());
    piece.view.strides.erase(piece.view.strides.begin());
  }
  return part;
}

namespace {

constexpr std::string_view kTensorSuffixes[] = {".pt",          ".pth", ".bin", ".ckpt",
                                                ".safetensors", ".npz", ".npy"};

std::vector<std::string> TensorFilesAmong(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (std::any_of(std::begin(kTensorSuffixes), std::end(kTensorSuffixes),
                    [&](std::string_view suffix) { return name.ends_with(suffix); })) {
      found.push_back(name);
    }
  }
  return found;
}

std::string FirstOf(std::vector<std::string> names) {
  constexpr size_t kShown = 6;
  if (names.empty()) {
    return "nothing";
  }
  const size_t count = names.size();
  names.resize(std::min(count, kShown));
  return base::Printable(base::Join(names, ", ")) +
         (count > kShown ? fmt::format(" and {} more", count - kShown) : "");
}

Status NoCheckpoint(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  return NotFoundError(
             fmt::format(
                 "{}: not a known kind of checkpoint; looked for mp_rank_* folders (Megatron), "
                 ".metadata (distributed), *_model_states.pt (DeepSpeed), *.safetensors or "
                 "pytorch_model*.bin with or without an "
                 "index (Hugging Face), *.gguf and a single tensor file, found {}",
                 folder.native(), FirstOf(names)))
      .WithHint("pass the folder of one iteration, or one of the files");
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kMegatron:
      return "Megatron";
    case Kind::kTensorFile:
      return "tensor file";
    case Kind::kHuggingFace:
      return "Hugging Face";
    case Kind::kDeepSpeed:
      return "DeepSpeed";
    case Kind::kGguf:
      return "GGUF";
    case Kind::kDistributed:
      return "torch distributed";
  }
  return "";
}

namespace {

// As many bytes as the codes of a piece may have.
TensorView CodesOf(const Piece& piece) {
  TensorView view;
  view.dtype = DType::kUInt8;
  view.shape = {
      std::min(piece.view.element_count(), static_cast<int64_t>(piece.coded->stored_bytes()))};
  view.extent_bytes = piece.coded->stored_bytes();
  return view;
}

// Marks parameters that repeat bytes without end as unreadable.
void LimitRepeatedBytes(Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const TensorFile& file : checkpoint.files) {
    bytes += file.size_bytes();
  }
  io::ReadBudget budget(bytes);
  for (Parameter& parameter : checkpoint.parameters) {
    for (size_t i = 0; parameter.status.ok() && i < parameter.pieces.size(); ++i) {
      const Piece& piece = parameter.pieces[i];
      parameter.status = budget.Take(piece.coded == nullptr ? piece.view : CodesOf(piece));
    }
    if (!parameter.status.ok()) {
      parameter.pieces.clear();
    }
  }
}

Result<Checkpoint> OpenByContent(const std::filesystem::path& path, const Options& options) {
  if (!base::Exists(path)) {
    return NotFoundError(fmt::format("{} does not exist", path.native()));
  }
  if (!base::IsFolder(path)) {
    return OpenTensorFile(path, options);
  }
  // Asked first: a tracker alone looks like Megatron's tree, and Megatron's torch_dist has one,
  // too.
  if (LooksLikeDistributed(path)) {
    return OpenDistributed(path, options);
  }
  if (LooksLikeMegatron(path)) {
    return OpenMegatron(path, options);
  }
  if (LooksLikeHuggingFace(path)) {
    return OpenHuggingFace(path, options);
  }
  if (LooksLikeDeepSpeed(path)) {
    return OpenDeepSpeed(path, options);
  }
  if (const std::vector<std::string> files = GgufFilesIn(path); !files.empty()) {
    return OpenGguf(path, files);
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(path));
  const std::vector<std::string> files = TensorFilesAmong(names);
  if (files.size() == 1) {
    return OpenTensorFile(path / files.front(), options);
  }
  return NoCheckpoint(path, names);
}

}  // namespace

bool IsWithAdapter(const std::filesystem::path& path) { return SplitAtAdapter(path).has_value(); }

Result<Checkpoint> OpenCheckpoint(const std::filesystem::path& path, const Options& options) {
  if (const auto halves = SplitAtAdapter(path)) {
    MSP_ASSIGN_OR_RETURN(Checkpoint base, OpenCheckpoint(halves->first, options));
    MSP_RETURN_IF_ERROR(MergeAdapter(halves->second, options, base));
    return base;
  }
  MSP_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenByContent(path, options));
  // The Python tool compares codes as they are.
  if (!options.compatible_merge) {
    FoldQuantised(checkpoint);
  }
  LimitRepeatedBytes(checkpoint);
  return checkpoint;
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t bytes = 0;
  for (const TensorFile& file : files) {
    bytes += file.size_bytes();
  }
  return bytes;
}

}  // namespace msprobe::checkpoint
