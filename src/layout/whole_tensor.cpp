// The elements of a whole as a tree over its pieces.
//
// A leaf is a piece; an inner node is what the nodes below it make along one axis of the grid:
// parts beside each other (Parts), or their sum (Sum). Scaled and Cut may be on top. Each node
// gives any run of its elements in row-major order. Parts hand the run down piece by piece: where
// they lie is known from the shapes alone (ElementRuns). Sums and scales go over small blocks on
// the stack, in float64. The tree is as deep as there are axes, and holds no elements.
#include "src/layout/whole_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"

#include "src/base/mapped_reads.h"
#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::layout {

struct WholeTensor::Node {
  virtual ~Node() = default;
  virtual void Copy(int64_t first, int64_t count, std::byte* out) const = 0;
  virtual const TensorView* piece() const { return nullptr; }

  DType dtype = DType::kFloat32;
  Shape shape;

  size_t item() const { return DTypeSize(dtype); }
};

namespace {

using Node = WholeTensor::Node;
using NodePtr = std::unique_ptr<Node>;

struct PieceNode final : Node {
  explicit PieceNode(TensorView of) : view(std::move(of)), is_plain(view.is_plain()) {
    dtype = view.dtype;
    shape = view.shape;
  }

  void Copy(int64_t first, int64_t count, std::byte* out) const override {
    if (!is_plain) {
      tensor::CopyElements(view, first, count, out);
      return;
    }
    const std::span<const std::byte> stored(view.data + static_cast<size_t>(first) * item(),
                                            static_cast<size_t>(count) * item());
    if (stored.size() < kReadBytes) {
      std::memcpy(out, stored.data(), stored.size());
      return;
    }
    thread_local std::vector<std::byte> scratch;
    const std::span<const std::byte> read = base::ReadMapped(stored, scratch);
    std::memcpy(out, read.data(), read.size());
  }

  const TensorView* piece() const override { return &view; }

  // Below, a look at the mapping is cheaper than a call to read the file.
  static constexpr size_t kReadBytes = size_t{32} << 10U;

  TensorView view;
  bool is_plain;
};

struct PartsNode final : Node {
  void Copy(int64_t first, int64_t count, std::byte* out) const override {
    int64_t row = first / order.row;
    int64_t at = first % order.row;
    auto run = std::upper_bound(
        order.runs.begin(), order.runs.end(), at,
        [](int64_t place, const ElementRuns::Run& other) { return place < other.begin; });
    --run;
    while (count > 0) {
      const int64_t in_run = at - run->begin;
      const int64_t taken = std::min(count, run->count - in_run);
      parts[run->part]->Copy(row * order.parts[run->part] + run->from + in_run, taken, out);
      out += static_cast<size_t>(taken) * item();
      count -= taken;
      at += taken;
      if (at == run->begin + run->count && ++run == order.runs.end()) {
        run = order.runs.begin();
        at = 0;
        ++row;
      }
    }
  }

  std::vector<NodePtr> parts;
  ElementRuns order;
};

// float64 stays, what is narrower becomes float32.
DType SumDType(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

void StoreDoubles(std::span<const double> values, DType dtype, std::byte* out) {
  if (dtype == DType::kFloat64) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  for (const double value : values) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(out, &narrow, sizeof(narrow));
    out += sizeof(narrow);
  }
}

// A block of elements as doubles, on the stack.
struct DoubleBlock {
  std::array<std::byte, tensor::kStackBlockElements * sizeof(double)> bytes;
  std::array<double, tensor::kStackBlockElements> values;

  std::span<double> Read(const Node& node, int64_t first, int64_t count) {
    node.Copy(first, count, bytes.data());
    const std::span<double> read = std::span(values).first(static_cast<size_t>(count));
    kernels::WidenToDouble(node.dtype, std::span(bytes).first(read.size() * node.item()), read);
    return read;
  }
};

template <typename Make>
void ForStackBlocks(int64_t first, int64_t count, const Make& make) {
  constexpr auto kBlockSize = static_cast<int64_t>(tensor::kStackBlockElements);
  for (int64_t done = 0; done < count; done += kBlockSize) {
    make(first + done, std::min(kBlockSize, count - done));
  }
}

struct SumNode final : Node {
  void Copy(int64_t first, int64_t count, std::byte* out) const override {
    ForStackBlocks(first, count, [&](int64_t begin, int64_t size) {
      std::array<double, tensor::kStackBlockElements> sums;
      std::fill_n(sums.begin(), size, 0.0);
      DoubleBlock block;
      for (const NodePtr& part : parts) {
        const std::span<const double> values = block.Read(*part, begin, size);
        for (size_t i = 0; i < values.size(); ++i) {
          sums[i] += values[i];
        }
      }
      const double divisor = is_mean ? static_cast<double>(parts.size()) : 1;
      for (double& sum : std::span(sums).first(static_cast<size_t>(size))) {
        sum /= divisor;
      }
      StoreDoubles(std::span(sums).first(static_cast<size_t>(size)), dtype, out);
      out += static_cast<size_t>(size) * item();
    });
  }

  std::vector<NodePtr> parts;
  bool is_mean = false;
};

struct ScaledNode final : Node {
  void Copy(int64_t first, int64_t count, std::byte* out) const override {
    ForStackBlocks(first, count, [&](int64_t begin, int64_t size) {
      DoubleBlock block;
      const std::span<double> values = block.Read(*of, begin, size);
      for (double& value : values) {
        value *= scale;
      }
      StoreDoubles(values, dtype, out);
      out += values.size() * item();
    });
  }

  NodePtr of;
  double scale = 1;
};

// The leading part: runs of the whole along the innermost dimension that is cut.
struct CutNode final : Node {
  void Copy(int64_t first, int64_t count, std::byte* out) const override {
    while (count > 0) {
      const int64_t in_run = first % run;
      const int64_t taken = std::min(count, run - in_run);
      int64_t rest = first / run;
      int64_t place = in_run;
      for (size_t axis = outer_axes; axis-- > 0;) {
        place += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
      of->Copy(place, taken, out);
      out += static_cast<size_t>(taken) * item();
      first += taken;
      count -= taken;
    }
  }

  NodePtr of;
  Shape strides;          // of the whole
  size_t outer_axes = 0;  // in front of the innermost dimension that is cut
  int64_t run = 1;
};

bool Fits(const std::vector<NodePtr>& parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](const NodePtr& part) { return part->dtype == parts[0]->dtype; });
}

Result<NodePtr> JoinParts(const Spread& spread, std::vector<NodePtr> parts) {
  if (!Fits(parts)) {
    return MismatchError("pieces of a tensor have different dtypes");
  }
  std::vector<Shape> shapes;
  for (const NodePtr& part : parts) {
    shapes.push_back(part->shape);
  }
  auto made = std::make_unique<PartsNode>();
  std::optional<Shape> shape = JoinShapes(spread, shapes, &made->order);
  if (!shape) {
    return MismatchError("pieces of a tensor do not fit each other");
  }
  made->dtype = parts[0]->dtype;
  made->shape = *std::move(shape);
  made->parts = std::move(parts);
  return NodePtr(std::move(made));
}

Result<NodePtr> AddParts(const Spread& spread, std::vector<NodePtr> parts) {
  if (GetDTypeInfo(parts[0]->dtype).kind != DTypeKind::kFloat) {
    return UnsupportedError("only floating values are summed over ranks");
  }
  if (!Fits(parts) || std::any_of(parts.begin(), parts.end(), [&](const NodePtr& part) {
        return part->shape != parts[0]->shape;
      })) {
    return MismatchError("summands of a tensor have different dtypes or shapes");
  }
  auto made = std::make_unique<SumNode>();
  made->dtype = SumDType(parts[0]->dtype);
  made->shape = parts[0]->shape;
  made->is_mean = spread.is_mean;
  made->parts = std::move(parts);
  return NodePtr(std::move(made));
}

class TreeMaker {
 public:
  TreeMaker(const Placement& placement, const OpenPiece& open)
      : placement_(placement), open_(open) {}

  // The pieces from `piece` on whose outer axes are fixed. Recursion is as deep as there are axes.
  Result<NodePtr> Make(size_t level, size_t piece) {
    if (level == kAxisCount) {
      MSP_ASSIGN_OR_RETURN(TensorView view, open_(piece));
      return NodePtr(std::make_unique<PieceNode>(std::move(view)));
    }
    const size_t axis = placement_.data_outside && level < 2 ? 1 - level : level;
    const auto size = static_cast<size_t>(placement_.grid[axis]);
    const Spread& spread = placement_.spreads[axis];
    if (size == 1 || spread.kind == SpreadKind::kReplicated) {
      return Make(level + 1, piece);
    }
    size_t stride = 1;
    for (size_t inner = axis + 1; inner < kAxisCount; ++inner) {
      stride *= static_cast<size_t>(placement_.grid[inner]);
    }
    std::vector<NodePtr> parts;
    for (size_t i = 0; i < size; ++i) {
      MSP_ASSIGN_OR_RETURN(NodePtr part, Make(level + 1, piece + i * stride));
      parts.push_back(std::move(part));
    }
    return spread.kind == SpreadKind::kPartial ? AddParts(spread, std::move(parts))
                                               : JoinParts(spread, std::move(parts));
  }

 private:
  const Placement& placement_;
  const OpenPiece& open_;
};

NodePtr Scale(NodePtr whole, double scale) {
  if (scale == 1 || GetDTypeInfo(whole->dtype).kind != DTypeKind::kFloat) {
    return whole;
  }
  auto made = std::make_unique<ScaledNode>();
  made->dtype = SumDType(whole->dtype);
  made->shape = whole->shape;
  made->scale = scale;
  made->of = std::move(whole);
  return made;
}

Result<NodePtr> CutTo(NodePtr whole, const Shape& shape) {
  if (shape == whole->shape) {
    return whole;
  }
  if (shape.size() != whole->shape.size()) {
    return MismatchError("a padded tensor has other dimensions than what it is padded from");
  }
  auto made = std::make_unique<CutNode>();
  made->strides = ContiguousStrides(whole->shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > whole->shape[axis]) {
      return MismatchError("a padded tensor is smaller than what it is padded from");
    }
    made->outer_axes = shape[axis] != whole->shape[axis] ? axis : made->outer_axes;
  }
  for (size_t axis = made->outer_axes; axis < shape.size(); ++axis) {
    made->run *= shape[axis];
  }
  made->dtype = whole->dtype;
  made->shape = shape;
  made->of = std::move(whole);
  return NodePtr(std::move(made));
}

}  // namespace

Result<WholeTensor> WholeTensor::Make(const Placement& placement, const OpenPiece& open,
                                      double scale, const std::optional<Shape>& cut) {
  if (!placement.IsKnown()) {
    return UnsupportedError("how the ranks share this tensor is not known");
  }
  MSP_ASSIGN_OR_RETURN(NodePtr node, TreeMaker(placement, open).Make(0, 0));
  node = Scale(std::move(node), scale);
  if (cut) {
    MSP_ASSIGN_OR_RETURN(node, CutTo(std::move(node), *cut));
  }
  return WholeTensor(std::move(node));
}

WholeTensor::WholeTensor(std::unique_ptr<const Node> node) : node_(std::move(node)) {}
WholeTensor::WholeTensor(WholeTensor&&) noexcept = default;
WholeTensor& WholeTensor::operator=(WholeTensor&&) noexcept = default;
WholeTensor::~WholeTensor() = default;

DType WholeTensor::dtype() const { return node_->dtype; }
const Shape& WholeTensor::shape() const { return node_->shape; }
const TensorView* WholeTensor::piece() const { return node_->piece(); }

void WholeTensor::Copy(int64_t first, int64_t count, std::byte* out) const {
  if (count > 0) {
    node_->Copy(first, count, out);
  }
}

void WholeTensor::Read(int64_t first, std::span<double> values) const {
  constexpr size_t kBlock = tensor::kCopyBlockElements;
  thread_local std::vector<std::byte> bytes;
  bytes.resize(std::max(bytes.size(), std::min(values.size(), kBlock) * node_->item()));
  for (size_t done = 0; done < values.size(); done += kBlock) {
    const std::span<double> block = values.subspan(done, std::min(kBlock, values.size() - done));
    node_->Copy(first + static_cast<int64_t>(done), static_cast<int64_t>(block.size()),
                bytes.data());
    kernels::WidenToDouble(node_->dtype, std::span(bytes).first(block.size() * node_->item()),
                           block);
  }
}

}  // namespace msprobe::layout
