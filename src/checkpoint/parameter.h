// One parameter of a model, wherever its parts lie: rectangular pieces, each a view of mapped bytes
// and its place in the whole. Cutting, joining and transposing only move views, so that a merged
// parameter is never built in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

namespace msprobe::checkpoint {

inline constexpr size_t kNoFile = SIZE_MAX;

struct Piece {
  TensorView view;        // borrows from the checkpoint's files
  Shape offset;           // of the view's first element in the parameter; as long as its shape
  size_t file = kNoFile;  // index into Checkpoint::files: whose pages may go when the piece is read
  // Of elements that stand in no file as they are (dequantised, a number of the optimizer).
  std::shared_ptr<const std::vector<std::byte>> memory = nullptr;
};

struct Parameter {
  std::string name;
  DType dtype = DType::kFloat32;  // of the first piece; pieces may differ
  Shape shape;                    // of the whole
  // Tile the shape: no gap, no overlap. In row-major order of their offsets. None for a parameter
  // without elements.
  std::vector<Piece> pieces;
  // Set where `dtype` stands for bytes of elements without a dtype here: "F4".
  std::string raw_dtype = {};
  // Not ok: this parameter cannot be read (the others can). The shape may still be known.
  Status status;
  // What a careful reader wants to know: "copies differ on TP ranks 0 and 1", ...
  std::vector<std::string> notes;

  int64_t element_count() const { return ElementCount(shape); }
};

// The whole of one tensor.
Parameter MakeParameter(std::string name, const TensorView& view, size_t file);

// Sets `shape` and checks that the pieces tile it; sorts them. An error names the first gap or
// overlap.
Status CheckTiling(Parameter& parameter);

// All other results keep the name of the (first) source, its status when not ok, and its notes.

// Joined along `axis`; all other sizes must be equal. Fails for 0-d parameters.
Result<Parameter> Concatenate(std::span<const Parameter> parts, size_t axis);
// Elements [begin, begin + count) along `axis`.
Result<Parameter> Slice(const Parameter& source, size_t axis, int64_t begin, int64_t count);
// Axes 0 and 1 of a matrix exchanged.
Result<Parameter> Transpose(const Parameter& source);
// One row of axis 0 taken out: rank falls by one. For parameters that stack layers or experts.
Result<Parameter> Select(const Parameter& source, int64_t index);

}  // namespace msprobe::checkpoint
