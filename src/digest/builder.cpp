// From pieces of parameters to entries.
//
// A declared parameter is read as the parts that its family of models joins in it (src/naming).
// Pieces are cut the same way, by moving views; each then lies in one unfused parameter as a
// rectangle. Its elements are read in row-major order; runs of them that lie side by side in the
// flattened parameter go to the kernel at once, which needs the place of the first one only. Sums
// are kept per block of rows: a unit of work is what a piece has in one block. Since sums modulo
// 2^64 know no order, neither does the number of threads matter.
#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "src/base/mapped_reads.h"
#include "src/base/strings.h"
#include "src/digest/digest.h"
#include "src/naming/parts.h"
#include "src/naming/rules.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::digest {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Parameter;
using checkpoint::Piece;
using kernels::DigestCast;
using kernels::DigestSums;

constexpr int64_t kMostBlocks = 64;

struct CastWord {
  DigestCast cast;
  std::string_view name;
};
constexpr CastWord kCasts[] = {{DigestCast::kFloat32, "float32"},
                               {DigestCast::kBFloat16, "bfloat16"},
                               {DigestCast::kFloat16, "float16"}};

ValueKind KindOf(DType dtype) {
  switch (GetDTypeInfo(dtype).kind) {
    case DTypeKind::kFloat:
      return ValueKind::kFloat;
    case DTypeKind::kComplex:
      return ValueKind::kComplex;
    default:
      return ValueKind::kInteger;
  }
}

// Where the elements of a piece, counted in row-major order, lie in the flattened whole.
class Places {
 public:
  Places(const Piece& piece, const Shape& whole)
      : shape_(piece.view.shape), offset_(piece.offset), strides_(ContiguousStrides(whole)) {
    size_t axis = shape_.size();
    while (axis > 0) {
      run_ *= shape_[--axis];
      if (shape_[axis] != whole[axis]) {
        break;
      }
    }
    outer_axes_ = axis;
  }

  // Elements of a run, which lie side by side.
  int64_t run() const { return run_; }
  int64_t PlaceOfRun(int64_t number) const {
    int64_t place = 0;
    for (size_t axis = outer_axes_; axis-- > 0;) {
      place += (offset_[axis] + number % shape_[axis]) * strides_[axis];
      number /= shape_[axis];
    }
    for (size_t axis = outer_axes_; axis < shape_.size(); ++axis) {
      place += offset_[axis] * strides_[axis];
    }
    return place;
  }

 private:
  const Shape& shape_;
  const Shape& offset_;
  Shape strides_;
  size_t outer_axes_ = 0;
  int64_t run_ = 1;
};

struct Scratch {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

// Values of codes in the row-major order of the view.
void DecodeRun(const Piece& piece, int64_t first, int64_t count, std::vector<float>& values) {
  values.resize(static_cast<size_t>(count));
  const TensorView& view = piece.view;
  if (view.strides == ContiguousStrides(view.shape)) {
    piece.coded->Decode(piece.coded_first + first, static_cast<size_t>(count), DType::kFloat32,
                        values.data(), nullptr);
    return;
  }
  const size_t rank = view.shape.size();
  const int64_t columns = view.shape[rank - 1];
  const bool is_in_rows = view.strides[rank - 1] == 1;
  for (int64_t at = 0; at < count;) {
    int64_t left = first + at;
    int64_t place = piece.coded_first;
    for (size_t axis = rank; axis-- > 0;) {
      place += left % view.shape[axis] * view.strides[axis];
      left /= view.shape[axis];
    }
    const int64_t run = is_in_rows ? std::min(count - at, columns - (first + at) % columns) : 1;
    piece.coded->Decode(place, static_cast<size_t>(run), DType::kFloat32, values.data() + at,
                        nullptr);
    at += run;
  }
}

// All elements of a piece.
DigestSums SumsOfPiece(const Piece& piece, const Shape& whole, DigestCast cast, bool in_memory,
                       Scratch& scratch) {
  using Source = tensor::BlockReader::Source;
  constexpr auto kBlock = static_cast<int64_t>(tensor::kSumBlockElements);
  const Places places(piece, whole);
  const int64_t count = piece.view.element_count();
  const DType dtype = piece.coded != nullptr ? DType::kFloat32 : piece.view.dtype;
  const auto bytes = static_cast<int64_t>(DTypeSize(dtype));
  tensor::BlockReader reader(piece.view, scratch.bytes,
                             in_memory ? Source::kMemory : Source::kFile);
  DigestSums sums;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t size = std::min(count - first, kBlock);
    std::span<const std::byte> block;
    if (piece.coded != nullptr) {
      DecodeRun(piece, first, size, scratch.values);
      block = std::as_bytes(std::span(scratch.values));
    } else {
      block = reader.Read(static_cast<size_t>(first), static_cast<size_t>(size));
    }
    for (int64_t at = 0; at < size;) {
      const int64_t element = first + at;
      const int64_t in_run = element % places.run();
      const int64_t length = std::min(size - at, places.run() - in_run);
      kernels::AddToDigest(
          dtype, cast,
          block.subspan(static_cast<size_t>(at * bytes), static_cast<size_t>(length * bytes)),
          static_cast<uint64_t>(places.PlaceOfRun(element / places.run()) + in_run), sums);
      at += length;
    }
  }
  return sums;
}

// Rows [begin, end) of the whole, of a piece that has them.
Piece RowsOf(const Piece& piece, int64_t begin, int64_t end) {
  Piece part = piece;
  if (!part.view.shape.empty()) {
    part.Advance((begin - piece.offset[0]) * piece.view.strides[0]);
    part.view.shape[0] = end - begin;
    part.offset[0] = begin;
  }
  return part;
}

Status CheckPiece(const Parameter& parameter, const Piece& piece) {
  bool fits = piece.offset.size() == parameter.shape.size() &&
              piece.view.shape.size() == parameter.shape.size();
  for (size_t axis = 0; fits && axis < parameter.shape.size(); ++axis) {
    fits = piece.offset[axis] >= 0 && piece.view.shape[axis] <= parameter.shape[axis] &&
           piece.offset[axis] <= parameter.shape[axis] - piece.view.shape[axis];
  }
  if (fits) {
    return {};
  }
  return MismatchError(fmt::format("a piece of shape {} at {} does not lie in {} of shape {}",
                                   ShapeText(piece.view.shape), ShapeText(piece.offset),
                                   parameter.name, ShapeText(parameter.shape)));
}

}  // namespace

int64_t BlockRows(int64_t rows) { return std::max<int64_t>(rows / kMostBlocks, 1); }

size_t BlockCount(int64_t rows) {
  const int64_t size = BlockRows(rows);
  return static_cast<size_t>(rows / size + (rows % size != 0 ? 1 : 0));
}

std::string RowsText(int64_t rows, size_t first_block, size_t last_block) {
  const int64_t size = BlockRows(rows);
  return fmt::format("{}-{}", static_cast<int64_t>(first_block) * size,
                     std::min((static_cast<int64_t>(last_block) + 1) * size, rows) - 1);
}

std::string_view CastName(DigestCast cast) {
  for (const CastWord& word : kCasts) {
    if (word.cast == cast) {
      return word.name;
    }
  }
  return {};
}

std::optional<DigestCast> ParseCast(std::string_view text) {
  const std::optional<DType> dtype = ParseDType(text);
  for (const CastWord& word : kCasts) {
    if ((dtype && word.name == DTypeName(*dtype)) || (word.name == "bfloat16" && text == "bf16") ||
        (word.name == "float16" && text == "fp16") || (word.name == "float32" && text == "fp32")) {
      return word.cast;
    }
  }
  return std::nullopt;
}

struct Builder::State {
  naming::BuiltInMapping mapping;
  naming::MappedCheckpoint side;
  std::optional<int64_t> vocabulary;
  std::optional<int64_t> other_vocabulary;
  DigestCast cast = DigestCast::kNone;
  std::vector<Entry> entries;
  // By declared parameter: its entries, in the order of its parts. Empty for one that has none.
  std::vector<std::vector<size_t>> entries_of;
  std::vector<Scratch> scratch;

  // The unfused parameters of a declared one, with its pieces.
  Result<std::vector<Parameter>> Unfused(const naming::Item& item, const Parameter& source) {
    const naming::Reading& reading = item.reading;
    if (reading.rule == nullptr) {
      return std::vector<Parameter>{source};
    }
    return naming::SplitParameter(source, *reading.rule, reading.transpose, reading.parts.size(),
                                  side.heads, side.slices);
  }

  bool IsVocabulary(const naming::Item& item) const {
    return item.reading.parts.size() == 1 &&
           std::find(mapping.vocabulary.begin(), mapping.vocabulary.end(),
                     item.reading.parts.front()) != mapping.vocabulary.end();
  }

  void Declare(const naming::Item& item) {
    std::vector<size_t>& mine = entries_of.emplace_back();
    const Parameter& stored = item.parameter;
    Entry common;
    common.stored = stored.name;
    common.dtype = stored.dtype;
    common.kind = KindOf(stored.dtype);
    common.format = checkpoint::FormatOf(stored);
    if (const std::string* reason = naming::IgnoredBecause(mapping, {}, side, item.name)) {
      common.left_out = *reason;
    }
    if (!stored.status.ok()) {
      common.problem = stored.status.message();
    } else if (!stored.raw_dtype.empty()) {
      common.problem = fmt::format("values of {} are not known", stored.raw_dtype);
    }
    Parameter shaped = stored;
    shaped.pieces.clear();
    Result<std::vector<Parameter>> parts = Unfused(item, shaped);
    if (!parts.ok()) {
      // As a whole: good for those who hold it in the same form.
      Entry entry = common;
      entry.part = item.name;
      entry.name = item.label;
      entry.fused = item.reading.parts;
      entry.shape = stored.shape;
      AddEntry(std::move(entry), mine);
      return;
    }
    for (size_t part = 0; part < parts->size(); ++part) {
      Entry entry = common;
      const naming::PartLocation place{entries_of.size() - 1, part};
      entry.part = naming::IsFirstOf(side, place) ? item.reading.parts[part] : item.name;
      entry.name = naming::UnfusedName(side, item, part);
      entry.shape = (*parts)[part].shape;
      if (IsVocabulary(item) && !entry.shape.empty()) {
        CutToVocabulary(entry);
      }
      AddEntry(std::move(entry), mine);
    }
  }

  void CutToVocabulary(Entry& entry) const {
    int64_t& rows = entry.shape[0];
    // Rows beyond twice those of the other side are not padding.
    const std::optional<int64_t> wanted = vocabulary ? vocabulary
                                          : other_vocabulary && *other_vocabulary > rows / 2
                                              ? other_vocabulary
                                              : std::nullopt;
    if (wanted && rows > *wanted) {
      entry.padded_to = rows;
      rows = *wanted;
    }
  }

  void AddEntry(Entry entry, std::vector<size_t>& mine) {
    entry.blocks.assign(BlockCount(entry.rows()), 0);
    mine.push_back(entries.size());
    entries.push_back(std::move(entry));
  }

  void AddPart(Entry& entry, const Parameter& part, bool in_memory, base::ThreadPool& pool) {
    struct Unit {
      Piece piece;
      size_t block = 0;
      DigestSums sums;
    };
    std::vector<Unit> units;
    const int64_t rows = entry.rows();
    const int64_t block_rows = BlockRows(rows);
    for (const Piece& piece : part.pieces) {
      if (piece.view.element_count() == 0) {
        continue;
      }
      entry.boxes.push_back({piece.offset, piece.view.shape});
      const int64_t first = piece.offset.empty() ? 0 : piece.offset[0];
      const int64_t end = first + (piece.view.shape.empty() ? 1 : piece.view.shape[0]);
      for (int64_t row = first; row < end;) {
        const int64_t next = std::min((row / block_rows + 1) * block_rows, end);
        units.push_back({RowsOf(piece, row, next), static_cast<size_t>(row / block_rows), {}});
        row = next;
      }
    }
    const auto run = [&](size_t unit, size_t worker) {
      units[unit].sums =
          SumsOfPiece(units[unit].piece, entry.shape, cast, in_memory, scratch[worker]);
    };
    constexpr int64_t kAloneElements = int64_t{1} << 16U;
    if (units.size() < 2 || part.element_count() < kAloneElements) {
      for (size_t unit = 0; unit < units.size(); ++unit) {
        run(unit, 0);
      }
    } else {
      pool.ParallelFor(units.size(), run);
    }
    for (const Unit& unit : units) {
      entry.blocks[unit.block] += unit.sums.a;
      entry.total += unit.sums.b;
    }
  }
};

Builder::Builder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Builder::Builder(Builder&& other) noexcept = default;
Builder& Builder::operator=(Builder&& other) noexcept = default;
Builder::~Builder() = default;

Result<Builder> Builder::Make(const Checkpoint& declared, const BuildOptions& options) {
  auto state = std::make_unique<State>();
  MSP_ASSIGN_OR_RETURN(state->mapping, naming::LoadBuiltInMapping());
  naming::MappedCheckpoint& side = state->side = naming::MakeSide(declared);
  const checkpoint::ModelFacts& facts = declared.facts;
  const auto known = [](std::optional<int64_t> given, std::optional<int64_t> recorded) {
    const std::optional<int64_t> value = given ? given : recorded;
    return value && *value > 0 && *value <= naming::kMaxHeads ? value : std::nullopt;
  };
  side.heads.attention_heads = known(options.attention_heads, facts.attention_heads);
  side.heads.query_groups = known(options.query_groups, facts.query_groups);
  if (!side.heads.query_groups) {
    side.heads.query_groups = side.heads.attention_heads;
  }
  side.gated = facts.gated.value_or(false);
  naming::ChooseDialect(state->mapping, side);
  naming::ReadParts(state->mapping, side);
  if (!facts.gated && naming::HoldsGate(side)) {
    side.gated = true;
    naming::ReadParts(state->mapping, side);
  }
  if (const auto heads = naming::HeadsByShapes(side); heads && !side.heads.attention_heads) {
    side.heads = *heads;
  }
  state->vocabulary = options.vocabulary ? options.vocabulary : facts.vocabulary;
  if (state->vocabulary && *state->vocabulary <= 0) {
    state->vocabulary.reset();
  }
  state->other_vocabulary = options.other_vocabulary;
  state->cast = options.cast;
  for (const naming::Item& item : side.items) {
    state->Declare(item);
  }
  return Builder(std::move(state));
}

Status Builder::Add(size_t index, std::span<const Piece> pieces, bool in_memory,
                    base::ThreadPool& pool) {
  State& state = *state_;
  if (index >= state.side.items.size()) {
    return Status(StatusCode::kInternal, "a parameter that was not declared");
  }
  const naming::Item& item = state.side.items[index];
  const std::vector<size_t>& mine = state.entries_of[index];
  if (mine.empty() || !state.entries[mine.front()].problem.empty()) {
    return {};
  }
  Parameter held = item.parameter;
  held.pieces.assign(pieces.begin(), pieces.end());
  for (const Piece& piece : held.pieces) {
    MSP_RETURN_IF_ERROR(CheckPiece(held, piece));
  }
  std::vector<Parameter> parts;
  if (mine.size() == 1 && !state.entries[mine.front()].fused.empty()) {
    parts.push_back(std::move(held));
  } else {
    MSP_ASSIGN_OR_RETURN(parts, state.Unfused(item, held));
  }
  state.scratch.resize(std::max<size_t>(pool.thread_count(), 1));
  for (size_t part = 0; part < parts.size(); ++part) {
    Entry& entry = state.entries[mine[part]];
    if (entry.padded_to) {
      MSP_ASSIGN_OR_RETURN(parts[part], checkpoint::Slice(parts[part], 0, 0, entry.shape[0]));
    }
    state.AddPart(entry, parts[part], in_memory, pool);
  }
  return {};
}

std::vector<size_t> Builder::EntriesOf(size_t index) const {
  return index < state_->entries_of.size() ? state_->entries_of[index] : std::vector<size_t>();
}

const std::vector<Entry>& Builder::entries() const { return state_->entries; }

Digest Builder::Take() {
  Digest digest;
  digest.cast = state_->cast;
  digest.entries = std::move(state_->entries);
  return digest;
}

Result<Digest> DigestOf(const Checkpoint& checkpoint, const BuildOptions& options,
                        base::ThreadPool& pool,
                        const std::function<void(uint64_t, uint64_t)>& on_progress) {
  MSP_ASSIGN_OR_RETURN(Builder builder, Builder::Make(checkpoint, options));
  for (size_t i = 0; i < checkpoint.parameters.size(); ++i) {
    const Parameter& parameter = checkpoint.parameters[i];
    MSP_RETURN_IF_ERROR(builder.Add(i, parameter.pieces, /*in_memory=*/false, pool));
    for (const Piece& piece : parameter.pieces) {
      if (piece.file < checkpoint.files.size() && piece.coded == nullptr) {
        checkpoint.files[piece.file].ReleasePages(piece.view, 0, piece.view.element_count());
      }
    }
    if (on_progress) {
      const auto elements = static_cast<uint64_t>(parameter.element_count());
      on_progress(elements, elements * DTypeSize(parameter.dtype));
    }
  }
  Digest digest = builder.Take();
  digest.source = checkpoint::KindName(checkpoint.kind);
  return digest;
}

}  // namespace msprobe::digest
