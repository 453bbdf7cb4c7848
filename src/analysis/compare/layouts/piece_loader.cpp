// Reads the tensors of joined rows through their pieces, and finds in which order parts lie where
// no record tells: all orders that their shapes allow are tried against the other side's values.
#include "src/analysis/compare/layouts/piece_loader.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/agreement.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare::layouts {

using layout::Axis;
using layout::kAxisCount;
using layout::SpreadKind;

PieceLoader::PieceLoader(const PairLayout& pair, const Side& npu, const Side& bench,
                         std::array<std::vector<JoinedRow>, 2> rows)
    : pair_(pair), first_rows_{npu.rows.data(), bench.rows.data()}, rows_(std::move(rows)) {}

const JoinedRow& PieceLoader::RowOf(bool of_npu, const SideRow& row) const {
  const size_t side = of_npu ? 0 : 1;
  return rows_[side][static_cast<size_t>(&row - first_rows_[side])];
}

// ||a - b|| / ||b||; infinite where they cannot be compared, or as soon as it is above `most` if
// ||b||^2 is at most `norm_limit`.
double ErrorOf(const layout::WholeTensor& a, const layout::WholeTensor& b, double most,
               double norm_limit) {
  if (!AreComparable(a, b)) {
    return HUGE_VAL;
  }
  double difference = 0;
  double norm = 0;
  const double give_up = most * most * norm_limit;
  ForEachRunOf(a, b, [&](std::span<const double> x, std::span<const double> y, size_t) {
    for (size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += y[i] * y[i];
    }
    return !(difference > give_up);
  });
  return difference > give_up ? HUGE_VAL : difference == 0 ? 0 : std::sqrt(difference / norm);
}

namespace {

double SquaresOf(const layout::WholeTensor& whole) {
  double squares = 0;
  std::vector<double> values(tensor::kCopyBlockElements);
  const auto count = static_cast<size_t>(whole.element_count());
  for (size_t first = 0; first < count; first += values.size()) {
    const std::span<double> block = std::span(values).first(std::min(values.size(), count - first));
    whole.Read(static_cast<int64_t>(first), block);
    for (const double value : block) {
      squares += value * value;
    }
  }
  return squares;
}

// The orders that parts of `size` along an axis may have: those of fused projections and of chunks,
// and where other dimensions were flattened into this one, a block for each of their elements.
std::vector<layout::Spread> OrdersOf(size_t axis, const layout::Spread& spread, int64_t size) {
  constexpr size_t kMostOrders = 16;
  std::vector<layout::Spread> orders;
  const auto add = [&](layout::PartOrder order, int64_t blocks) {
    layout::Spread& other = orders.emplace_back(spread);
    other.order = order;
    other.blocks = blocks;
    other.block_sizes.clear();
  };
  if (static_cast<Axis>(axis) == Axis::kTensor) {
    add(layout::PartOrder::kBlocks, 3);
  } else {
    add(layout::PartOrder::kZigzag, 1);
    add(layout::PartOrder::kInterleaved, 1);
  }
  for (int64_t blocks = 2; blocks < size && orders.size() < kMostOrders; ++blocks) {
    if (size % blocks == 0) {
      add(layout::PartOrder::kBlocks, blocks);
    }
  }
  return orders;
}

// Other ways to put the pieces together that their shapes allow: parts in other orders, and axes
// that cut as many parts taken for each other. Those that change the least come first.
std::vector<layout::Placement> AlternativesOf(const JoinedRow& row) {
  constexpr size_t kMostAlternatives = 96;
  constexpr double kManyElements = 4e6;  // of which few alternatives are tried
  std::vector<layout::Placement> bases = {row.placement};
  const layout::GridSize& grid = row.placement.grid;
  const auto cuts = [&](const layout::Placement& placement, size_t axis) {
    return placement.spreads[axis].kind == SpreadKind::kShard && grid[axis] > 1;
  };
  for (size_t a = 0; a < kAxisCount; ++a) {
    for (size_t b = a + 1; b < kAxisCount; ++b) {
      if (cuts(row.placement, a) && cuts(row.placement, b) && grid[a] == grid[b] &&
          row.placement.spreads[a].dimension != row.placement.spreads[b].dimension) {
        layout::Placement& swapped = bases.emplace_back(row.placement);
        std::swap(swapped.spreads[a].dimension, swapped.spreads[b].dimension);
      }
    }
  }
  double elements = 0;
  for (const Shape& shape : row.shapes) {
    elements += static_cast<double>(msprobe::ElementCount(shape));
  }
  const size_t most = elements > kManyElements ? 6 : kMostAlternatives;
  std::vector<layout::Placement> all(bases.begin() + 1, bases.end());
  for (const layout::Placement& base : bases) {
    std::vector<layout::Placement> changed = {base};
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      if (!cuts(base, axis) || base.spreads[axis].order != layout::PartOrder::kContiguous) {
        continue;
      }
      const auto dimension = static_cast<size_t>(base.spreads[axis].dimension);
      const size_t known = changed.size();
      for (const layout::Spread& order :
           OrdersOf(axis, base.spreads[axis], row.shapes[0][dimension])) {
        for (size_t i = 0; i < known && changed.size() < most; ++i) {
          layout::Placement other = changed[i];
          other.spreads[axis] = order;
          if (layout::WholeShape(other, row.shapes)) {
            changed.push_back(std::move(other));
          }
        }
      }
    }
    all.insert(all.end(), changed.begin() + 1, changed.end());
  }
  all.resize(std::min(all.size(), most));
  return all;
}

}  // namespace

class PieceLoader::OpenPieces {
 public:
  OpenPieces(const JoinedRow& row, const std::vector<JoinedRank>& ranks)
      : row_(row), ranks_(ranks), files_(row.pieces.size()) {}

  Result<TensorView> Open(size_t piece) {
    std::optional<TensorFile>& file = files_[piece];
    if (!file) {
      const Piece& of = row_.pieces[piece];
      MSP_RETURN_IF_ERROR(dump::CheckDataName(of.data_name));
      MSP_ASSIGN_OR_RETURN(file,
                           TensorFile::Open(ranks_[of.rank].folder.folder /
                                                dump::TensorFolderOf(of.data_name) / of.data_name,
                                            {}));
    }
    MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file->Single());
    MSP_RETURN_IF_ERROR(tensor->status);
    TensorView view = tensor->view;
    if (row_.is_swapped && view.shape.size() >= 2) {
      std::swap(view.shape[0], view.shape[1]);
      std::swap(view.strides[0], view.strides[1]);
    }
    return view;
  }

  Result<tensor::TensorBuffer> Copy(size_t piece) {
    MSP_ASSIGN_OR_RETURN(const TensorView view, Open(piece));
    return tensor::MakeContiguous(view, kMostTensorBytes);
  }

  // The whole that they make in this placement.
  Result<layout::WholeTensor> Join(const layout::Placement& placement, bool is_cut = true) {
    return layout::WholeTensor::Make(
        placement, [this](size_t piece) { return Open(piece); }, row_.scale,
        is_cut ? row_.cut : std::nullopt);
  }

  void ReleasePages() const {
    for (const std::optional<TensorFile>& file : files_) {
      if (file) {
        const Result<const NamedTensor*> tensor = file->Single();
        if (tensor.ok()) {
          file->ReleasePages((*tensor)->view, 0, (*tensor)->view.element_count());
        }
      }
    }
  }

 private:
  const JoinedRow& row_;
  const std::vector<JoinedRank>& ranks_;
  std::vector<std::optional<TensorFile>> files_;
};

std::shared_ptr<PieceLoader::OpenPieces> PieceLoader::PiecesOf(bool of_npu,
                                                               const SideRow& row) const {
  return std::make_shared<OpenPieces>(RowOf(of_npu, row), of_npu ? pair_.npu : pair_.bench);
}

bool PieceLoader::Compare(const SideRow& npu, const SideRow& bench,
                          const CompareWholes& use) const {
  const std::shared_ptr<OpenPieces> npu_pieces = PiecesOf(true, npu);
  const std::shared_ptr<OpenPieces> bench_pieces = PiecesOf(false, bench);
  const Result<layout::WholeTensor> n = npu_pieces->Join(RowOf(true, npu).placement);
  const Result<layout::WholeTensor> b = bench_pieces->Join(RowOf(false, bench).placement);
  return n.ok() && b.ok() && use(*n, *b);
}

bool PieceLoader::CompareUncut(const SideRow& npu, const SideRow& bench,
                               const CompareWholes& use) const {
  const std::shared_ptr<OpenPieces> npu_pieces = PiecesOf(true, npu);
  const std::shared_ptr<OpenPieces> bench_pieces = PiecesOf(false, bench);
  const Result<layout::WholeTensor> n =
      npu_pieces->Join(RowOf(true, npu).placement, /*is_cut=*/false);
  const Result<layout::WholeTensor> b = bench_pieces->Join(RowOf(false, bench).placement);
  return n.ok() && b.ok() && use(*n, *b);
}

void PieceLoader::FillPadded(Side& npu, Side& bench, base::ThreadPool& pool) const {
  // Shares of samples and of a sequence, flattened, may be in an order that is not known: such rows
  // stay as they are on both sides.
  const auto is_shared = [](const JoinedRow& row) {
    return std::any_of(
        row.placement.spreads.begin(), row.placement.spreads.end() - 1,
        [](const layout::Spread& spread) { return spread.kind == SpreadKind::kShard; });
  };
  std::vector<std::pair<bool, SideRow*>> rows;
  std::unordered_set<std::string_view> shared;
  for (const bool of_npu : {true, false}) {
    for (SideRow& row : (of_npu ? npu : bench).rows) {
      const JoinedRow& joined = RowOf(of_npu, row);
      if (!joined.padding || row.data_name == "-1" || row.stats[kNorm].kind != StatKind::kNone) {
        continue;
      }
      rows.emplace_back(of_npu, &row);
      if (is_shared(joined)) {
        shared.insert(row.name);
      }
    }
  }
  std::erase_if(rows, [&](const auto& row) { return shared.contains(row.second->name); });
  pool.ParallelFor(rows.size(), [&](size_t item, size_t) {
    const auto [of_npu, row] = rows[item];
    const std::shared_ptr<OpenPieces> pieces = PiecesOf(of_npu, *row);
    const Result<layout::WholeTensor> whole = pieces->Join(RowOf(of_npu, *row).placement);
    if (!whole.ok() || whole->element_count() == 0 ||
        GetDTypeInfo(whole->dtype()).kind != DTypeKind::kFloat) {
      return;
    }
    std::array<double, kStatCount> found = {-HUGE_VAL, HUGE_VAL, 0, 0};
    std::vector<double> values(tensor::kCopyBlockElements);
    const auto count = static_cast<size_t>(whole->element_count());
    bool has_nan = false;
    for (size_t first = 0; first < count; first += values.size()) {
      const std::span<double> block =
          std::span(values).first(std::min(values.size(), count - first));
      whole->Read(static_cast<int64_t>(first), block);
      for (const double value : block) {
        has_nan = has_nan || std::isnan(value);
        found[kMax] = std::max(found[kMax], value);
        found[kMin] = std::min(found[kMin], value);
        found[kMean] += value;
        found[kNorm] += value * value;
      }
    }
    found[kMean] /= static_cast<double>(count);
    found[kNorm] = std::sqrt(found[kNorm]);
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      row->stats[stat].kind = StatKind::kNumber;
      row->stats[stat].number = has_nan ? std::nan("") : found[stat];
    }
    pieces->ReleasePages();
  });
}

bool PieceLoader::Reconsider(const SideRow& npu, const SideRow& bench,
                             const Distance& distance) const {
  constexpr double kOther = 1e-3;
  std::array<JoinedRow*, 2> joined = {&rows_[0][static_cast<size_t>(&npu - first_rows_[0])],
                                      &rows_[1][static_cast<size_t>(&bench - first_rows_[1])]};
  const SideRow* const rows[] = {&npu, &bench};
  const bool has_parts = std::any_of(joined.begin(), joined.end(), [](const JoinedRow* row) {
    return std::any_of(
        row->placement.spreads.begin(), row->placement.spreads.end(),
        [](const layout::Spread& spread) { return spread.kind == SpreadKind::kShard; });
  });
  if (!has_parts ||
      (distance.comparable && !distance.nonfinite_differs && distance.relative < 0.99 * kOther)) {
    return false;
  }
  std::array<std::shared_ptr<OpenPieces>, 2> pieces;
  std::array<std::optional<layout::WholeTensor>, 2> wholes;
  for (size_t side = 0; side < 2; ++side) {
    pieces[side] = PiecesOf(side == 0, *rows[side]);
    Result<layout::WholeTensor> whole = pieces[side]->Join(joined[side]->placement);
    if (!whole.ok()) {
      return false;
    }
    wholes[side] = *std::move(whole);
  }
  double error = ErrorOf(*wholes[0], *wholes[1]);
  bool found = false;
  for (size_t side = 0; side < 2 && error > kOther; ++side) {
    JoinedRow& row = *joined[side];
    const std::vector<layout::Placement> others = AlternativesOf(row);
    if (others.empty()) {
      continue;
    }
    const double norm =
        1.001 * (AreComparable(*wholes[0], *wholes[1]) ? SquaresOf(*wholes[1]) : HUGE_VAL);
    for (const layout::Placement& other : others) {
      Result<layout::WholeTensor> whole = pieces[side]->Join(other);
      const double most = std::max(kOther, error / 4);
      const double apart = !whole.ok() ? HUGE_VAL
                           : side == 0 ? ErrorOf(*whole, *wholes[1], most, norm)
                                       : ErrorOf(*wholes[0], *whole, most, norm);
      if (apart <= kOther || apart < error / 4) {
        // Blocks of anything but a parameter come from its shape, and say nothing of how it is
        // shared.
        const dump::RowState state = rows[side]->state;
        if (!row.shown && state != dump::RowState::kParameters &&
            state != dump::RowState::kParametersGrad) {
          row.shown = row.placement;
        }
        row.placement = other;
        error = apart;
        found = true;
        wholes[side] = *std::move(whole);
        if (error <= kOther) {
          break;
        }
      }
    }
  }
  return (error > kOther && TryBoth(npu, bench)) || found;
}

bool PieceLoader::TryBoth(const SideRow& npu, const SideRow& bench) const {
  constexpr double kEqual = 1e-5;
  constexpr double kMostWork = 4e6;  // elements of all ways to join a side
  std::array<JoinedRow*, 2> joined = {&rows_[0][static_cast<size_t>(&npu - first_rows_[0])],
                                      &rows_[1][static_cast<size_t>(&bench - first_rows_[1])]};
  const SideRow* const rows[] = {&npu, &bench};
  std::array<std::shared_ptr<OpenPieces>, 2> pieces;
  std::array<std::vector<layout::Placement>, 2> ways;
  std::array<std::vector<layout::WholeTensor>, 2> wholes;
  for (size_t side = 0; side < 2; ++side) {
    const std::vector<layout::Placement> others = AlternativesOf(*joined[side]);
    if (others.empty() ||
        static_cast<double>(others.size()) * ElementCount(rows[side]->shape) > kMostWork) {
      return false;
    }
    pieces[side] = PiecesOf(side == 0, *rows[side]);
    for (const layout::Placement& way : others) {
      Result<layout::WholeTensor> whole = pieces[side]->Join(way);
      if (whole.ok()) {
        wholes[side].push_back(*std::move(whole));
        ways[side].push_back(way);
      }
    }
  }
  for (size_t b = 0; b < wholes[1].size(); ++b) {
    const double norm = 1.001 * SquaresOf(wholes[1][b]);
    for (size_t n = 0; n < wholes[0].size(); ++n) {
      if (ErrorOf(wholes[0][n], wholes[1][b], kEqual, norm) > kEqual) {
        continue;
      }
      const std::array<size_t, 2> chosen = {n, b};
      for (size_t side = 0; side < 2; ++side) {
        if (!joined[side]->shown && rows[side]->state != dump::RowState::kParameters &&
            rows[side]->state != dump::RowState::kParametersGrad) {
          joined[side]->shown = joined[side]->placement;
        }
        joined[side]->placement = ways[side][chosen[side]];
      }
      return true;
    }
  }
  return false;
}

namespace {

// Every piece in memory, and many ways to join them: of rows up to this.
constexpr double kMostJoined = 4e6;

}  // namespace

std::vector<size_t> PieceLoader::RepeatedPieces(const SideRow& npu) const {
  const JoinedRow& joined = RowOf(true, npu);
  constexpr auto kAxis = static_cast<size_t>(Axis::kMicroBatch);
  const auto batches = static_cast<size_t>(joined.placement.grid[kAxis]);
  std::vector<size_t> repeated;
  if (batches < 2 || joined.placement.spreads[kAxis].kind != SpreadKind::kShard ||
      npu.data_name == "-1" || ElementCount(npu.shape) > kMostJoined) {
    return repeated;
  }
  const std::shared_ptr<OpenPieces> pieces = PiecesOf(true, npu);
  const size_t stride = joined.pieces.size() / batches;
  for (size_t piece = stride; piece < joined.pieces.size(); ++piece) {
    const Result<tensor::TensorBuffer> now = pieces->Copy(piece);
    const Result<tensor::TensorBuffer> before = pieces->Copy(piece - stride);
    if (!now.ok() || !before.ok() || now->view().shape != before->view().shape ||
        now->view().dtype != before->view().dtype) {
      continue;
    }
    const std::span<const std::byte> bytes = now->view().bytes();
    const size_t item = DTypeSize(now->view().dtype);
    const bool is_constant =
        bytes.size() < 2 * item ||
        std::equal(bytes.begin() + static_cast<ptrdiff_t>(item), bytes.end(), bytes.begin());
    if (!is_constant && std::ranges::equal(bytes, before->view().bytes())) {
      repeated.push_back(piece);
    }
  }
  return repeated;
}

std::optional<std::pair<size_t, size_t>> PieceLoader::ExchangedParts(const SideRow& npu,
                                                                     const SideRow& bench) const {
  constexpr double kEqual = 1e-6;
  const JoinedRow& joined = RowOf(true, npu);
  constexpr auto kAxis = static_cast<size_t>(Axis::kTensor);
  const auto parts = static_cast<size_t>(joined.placement.grid[kAxis]);
  if (parts < 2 || parts > 16 || joined.placement.spreads[kAxis].kind != SpreadKind::kShard ||
      npu.data_name == "-1" || bench.data_name == "-1" || ElementCount(npu.shape) > kMostJoined) {
    return std::nullopt;
  }
  const std::shared_ptr<OpenPieces> pieces = PiecesOf(true, npu);
  const std::shared_ptr<OpenPieces> bench_pieces = PiecesOf(false, bench);
  const Result<layout::WholeTensor> reference = bench_pieces->Join(RowOf(false, bench).placement);
  if (!reference.ok()) {
    return std::nullopt;
  }
  const double norm = 1.001 * SquaresOf(*reference);
  std::vector<layout::Placement> placements = AlternativesOf(joined);
  placements.insert(placements.begin(), joined.placement);
  for (size_t a = 0; a < parts; ++a) {
    for (size_t b = a + 1; b < parts; ++b) {
      const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
        const size_t place = piece % parts;  // the tensor axis is the innermost one
        const size_t other = place == a ? b : place == b ? a : place;
        return pieces->Open(piece - place + other);
      };
      for (const layout::Placement& placement : placements) {
        const Result<layout::WholeTensor> whole =
            layout::WholeTensor::Make(placement, open, joined.scale, joined.cut);
        if (whole.ok() && ErrorOf(*whole, *reference, kEqual, norm) <= kEqual) {
          return std::pair(a, b);
        }
      }
    }
  }
  return std::nullopt;
}

Result<std::optional<LoadedTensor>> PieceLoader::Load(bool of_npu, const SideRow& row) const {
  constexpr int64_t kFewElements = 4096;  // that are not worth blocks; single numbers among them
  std::shared_ptr<OpenPieces> pieces = PiecesOf(of_npu, row);
  MSP_ASSIGN_OR_RETURN(layout::WholeTensor whole, pieces->Join(RowOf(of_npu, row).placement));
  if (whole.element_count() <= kFewElements) {
    tensor::TensorBuffer buffer(whole.dtype(), whole.shape());
    whole.Copy(0, whole.element_count(), buffer.mutable_bytes().data());
    return std::optional<LoadedTensor>(std::move(buffer));
  }
  LoadedTensor loaded;
  loaded.whole = std::make_shared<const layout::WholeTensor>(std::move(whole));
  loaded.files = pieces;
  loaded.release_pages = [pieces] { pieces->ReleasePages(); };
  return std::optional(std::move(loaded));
}

}  // namespace msprobe::analysis::compare::layouts
