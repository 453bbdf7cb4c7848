// The tensors of joined rows, read through the pieces that ranks and micro-batches have of them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/layouts/plan.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/layout/placement.h"
#include "src/layout/whole_tensor.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::compare::layouts {

// A file that holds a piece; views into the arena of the side.
struct Piece {
  uint32_t rank = 0;  // place among the ranks of the side
  std::string_view data_name;
};

// Ranks that must hold the same value and do not.
enum class Suspicion : uint8_t {
  kNone,
  kReplicasDiffer,  // along an axis where the tensor is replicated
  kNotReduced,      // the sum of the pieces is the other side's value, but nothing reduces them
  kPartIsZero,      // a part that the other side has is zero
  kRepeats,         // a micro-batch is the one before
  kOutOfPlace,      // positions are not those of the rank's part of the sequence
};

// A dimension along which a side has more than the other: of a padded vocabulary.
struct Padding {
  size_t dimension = 0;
  int64_t larger = 0;   // on the side that has more
  int64_t smaller = 0;  // on the other one, which may be padded, too
};

struct JoinedRow {
  layout::Placement placement;
  std::vector<Piece> pieces;  // in the order of the grid
  std::vector<Shape> shapes;  // of the pieces
  // What summands are themselves that are read behind their reduction.
  std::optional<layout::Placement> shown;
  std::optional<Shape> cut;  // what is compared of a whole that is padded
  std::optional<Padding> padding;
  double scale = 1;
  bool is_swapped = false;       // the first two dimensions of each piece
  bool is_communicated = false;  // taken by a call behind communication that only one side makes
  Suspicion suspicion = Suspicion::kNone;
  std::vector<int64_t> suspects;  // ranks that differ from the others
  double error = 0;               // how far they do, relative

  std::string Text() const { return (shown ? *shown : placement).Text(); }
};

// Reads the tensors of joined rows. Thread-safe.
class PieceLoader : public TensorLoader {
 public:
  // Both outlive the loader; the rows are those of the sides, in their order.
  PieceLoader(const PairLayout& pair, const Side& npu, const Side& bench,
              std::array<std::vector<JoinedRow>, 2> rows);

  Result<std::optional<LoadedTensor>> Load(bool of_npu, const SideRow& row) const override;
  // Finds the order of parts that no record tells: of fused projections, of chunks of a sequence,
  // of samples dealt out.
  bool Reconsider(const SideRow& npu, const SideRow& bench,
                  const Distance& distance) const override;
  // Whether replicas of the data have parts of each micro-batch, or micro-batches are parts of what
  // a replica has: by the first tensors that are cut in both ways. Before any are compared.
  void ChooseOrder(const Side& npu, const Side& bench);
  // In which order ranks have the parts of a sequence is one fact of a run: as the first tensors
  // tell.
  void ChooseSequenceOrder(const Side& npu, const Side& bench);
  // Where the padding begins of a vocabulary that both sides pad, to other sizes: the shapes of the
  // rows become those without it.
  void ChooseVocabulary(Side& npu, Side& bench);
  // Pieces of the NPU side that have the value, not a constant, of the micro-batch before.
  std::vector<size_t> RepeatedPieces(const SideRow& npu) const;
  // The two parts along the tensor axis that have to change places so that the whole is the
  // reference's, in any order that parts may have.
  std::optional<std::pair<size_t, size_t>> ExchangedParts(const SideRow& npu,
                                                          const SideRow& bench) const;
  // Hands the wholes of both sides to `use`, whose answer it returns; false: they cannot be read.
  using CompareWholes =
      std::function<bool(const layout::WholeTensor& npu, const layout::WholeTensor& bench)>;
  bool Compare(const SideRow& npu, const SideRow& bench, const CompareWholes& use) const;
  // The same with the padding of the NPU side.
  bool CompareUncut(const SideRow& npu, const SideRow& bench, const CompareWholes& use) const;
  // Statistics of rows that lost them because pieces have padding, from their tensors.
  void FillPadded(Side& npu, Side& bench, base::ThreadPool& pool) const;
  const JoinedRow& RowOf(bool of_npu, const SideRow& row) const;

 private:
  // The pieces of a row: opened when they are first asked for, and as long as this lives.
  class OpenPieces;
  // The parts of both sides are in other orders than the common one.
  bool TryBoth(const SideRow& npu, const SideRow& bench) const;
  std::shared_ptr<OpenPieces> PiecesOf(bool of_npu, const SideRow& row) const;

  const PairLayout& pair_;
  std::array<const SideRow*, 2> first_rows_;
  mutable std::array<std::vector<JoinedRow>, 2> rows_;  // the order of parts is found when needed
};

// Calls use(npu, bench, first) for all elements of two wholes of equal shape, block by block; a use
// may return false to end the walk.
template <typename Use>
void ForEachRunOf(const layout::WholeTensor& a, const layout::WholeTensor& b, const Use& use) {
  std::vector<double> x(tensor::kCopyBlockElements);
  std::vector<double> y(tensor::kCopyBlockElements);
  const auto count = static_cast<size_t>(a.element_count());
  for (size_t first = 0; first < count; first += x.size()) {
    const size_t size = std::min(x.size(), count - first);
    const std::span<double> left = std::span(x).first(size);
    const std::span<double> right = std::span(y).first(size);
    a.Read(static_cast<int64_t>(first), left);
    b.Read(static_cast<int64_t>(first), right);
    if (!use(left, right, first)) {
      return;
    }
  }
}

inline bool AreComparable(const layout::WholeTensor& a, const layout::WholeTensor& b) {
  return a.shape() == b.shape() && GetDTypeInfo(a.dtype()).kind != DTypeKind::kComplex &&
         GetDTypeInfo(b.dtype()).kind != DTypeKind::kComplex;
}

// ||a - b|| / ||b||; infinite where they cannot be compared, or as soon as it is above `most` if
// ||b||^2 is at most `norm_limit`.
double ErrorOf(const layout::WholeTensor& a, const layout::WholeTensor& b, double most = HUGE_VAL,
               double norm_limit = HUGE_VAL);

}  // namespace msprobe::analysis::compare::layouts
