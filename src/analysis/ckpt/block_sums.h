// The sums over one block of a box. Blocks have one size whatever the number of threads, and their
// sums are merged in order, so that figures do not depend on that number; all figures come from one
// walk over a block, since reading it is what takes the time.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/ckpt/metrics.h"
#include "src/analysis/ckpt/result.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// The common refinement of two tilings: boxes that lie in one piece on each side. A parameter that
// one model's ranks cut along rows is compared with one cut along columns without building either:
// each box is a view into both sides' files.

// A rectangle of the parameter, seen on both sides; both views have its shape.
struct Box {
  TensorView a;
  TensorView b;
  Shape offset;        // of its first element in the parameter
  size_t piece_a = 0;  // the pieces it was cut from
  size_t piece_b = 0;
  bool plain_a = false;  // a.is_plain()
  bool plain_b = false;
  // Set for sides that are stored as codes: their views have no data.
  const io::CodedTensor* coded_a = nullptr;
  const io::CodedTensor* coded_b = nullptr;
  int64_t coded_first_a = 0;
  int64_t coded_first_b = 0;

  int64_t element_count() const { return a.element_count(); }
};

// Beside 8 for each piece: a thousand ranks that hold columns against a thousand that hold rows.
inline constexpr size_t kMostBoxes = 1'000'000;

// Both parameters have the same shape, and their pieces tile it. In row-major order of offsets. An
// error where rows of one side meet columns of the other in more boxes than memory is for: pieces
// may repeat an element, so that their files are small.
Result<std::vector<Box>> Refine(const checkpoint::Parameter& a, const checkpoint::Parameter& b,
                                size_t most_boxes = kMostBoxes);

// Per thread; grows to one block of each kind.
struct BlockScratch {
  std::vector<std::byte> stored_a;
  std::vector<std::byte> stored_b;
  std::vector<float> float_a;
  std::vector<float> float_b;
  std::vector<double> double_a;
  std::vector<double> double_b;
  std::vector<float> decoded_a;
  std::vector<float> decoded_b;
  std::vector<float> bounds_a;
  std::vector<float> bounds_b;
  std::vector<float> turned;
  io::CodedTensor::ReadCodes codes_a;
  io::CodedTensor::ReadCodes codes_b;
};

// Elements [first, first + count) of the box in row-major order, at most tensor::kSumBlockElements.
// `float32`: every element is rounded to float32 first, of a complex one the real part counts.
PairSums SumsOfBlock(const Box& box, int64_t first, int64_t count, const Tolerance& tolerance,
                     bool means, bool float32, BlockScratch& scratch);

// The elements themselves; valid until the next call with this scratch.
std::pair<std::span<const double>, std::span<const double>> DoublesOfBlock(const Box& box,
                                                                           int64_t first,
                                                                           int64_t count,
                                                                           BlockScratch& scratch);

// The sums of products alone, beyond the range of double, added to `sums`.
void WideSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                     WideSums& sums);

// The sums of products alone, each product rounded to float32 (see FlushedStep).
void FlushedSumsOfBlock(const Box& box, int64_t first, int64_t count, BlockScratch& scratch,
                        kernels::ComparePartial& sums);

}  // namespace msprobe::analysis::ckpt
