// Values that are moved, never computed: bits must agree.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "src/reference/operators/operators.h"
#include "src/tensor/float_bits.h"

namespace msprobe::reference {

namespace {

using Dims = std::vector<int64_t>;

constexpr int64_t kMostRepeats = int64_t{1} << 30U;

// Same elements in the shape of the captured output, which a view cannot get wrong.
Values Reshaped(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || call.outputs().size() != 1 || call.outputs()[0].value == nullptr) {
    return {call.Fail(x == nullptr ? "" : "its output was not saved")};
  }
  return {m.Reshape(x, call.outputs()[0].value->shape)};
}

// view(dtype) reads bits as another type.
Values Viewed(Call& call, const Arithmetic& m) {
  if (DTypeArgument(call, 1, "dtype")) {
    return {call.Fail("a view of the bits as another type")};
  }
  return Reshaped(call, m);
}

Values Transposed(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr) {
    return {nullptr};
  }
  const size_t rank = x->shape.size();
  const int64_t a = DimOf(call, call.Int(1, "dim0"), rank);
  const int64_t b = DimOf(call, call.Int(2, "dim1"), rank);
  Dims order(rank);
  std::iota(order.begin(), order.end(), int64_t{0});
  if (call.failed() || rank == 0) {
    return {x};
  }
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return {m.Permute(x, order)};
}

Values T(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  return {x == nullptr || x->shape.size() < 2 ? x : m.Permute(x, {1, 0})};
}

Values Permuted(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  Dims order = call.Ints(1, "dims", true);
  if (x == nullptr) {
    return {nullptr};
  }
  std::vector<bool> seen(x->shape.size(), false);
  for (int64_t& dim : order) {
    dim = DimOf(call, dim, x->shape.size());
    if (call.failed() || seen.empty() || seen[static_cast<size_t>(dim)]) {
      return {call.Fail("the order names a dim twice")};
    }
    seen[static_cast<size_t>(dim)] = true;
  }
  return {m.Permute(x, order)};
}

Values MovedDim(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  Dims from = call.Ints(1, "source");
  Dims to = call.Ints(2, "destination");
  if (x == nullptr || from.size() != to.size()) {
    return {call.Fail("movedim of unequal lists")};
  }
  const size_t rank = x->shape.size();
  Dims order(rank, -1);
  std::vector<bool> taken(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t target = DimOf(call, to[i], rank);
    const int64_t source = DimOf(call, from[i], rank);
    if (call.failed() || rank == 0) {
      return {x};
    }
    order[static_cast<size_t>(target)] = source;
    taken[static_cast<size_t>(source)] = true;
  }
  size_t next = 0;
  for (int64_t& dim : order) {
    if (dim < 0) {
      while (next < rank && taken[next]) {
        ++next;
      }
      dim = static_cast<int64_t>(next++);
    }
  }
  return {m.Permute(x, order)};
}

Values Expanded(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || call.outputs().size() != 1 || call.outputs()[0].value == nullptr) {
    return {call.Fail("its output was not saved")};
  }
  return {m.Expand(x, call.outputs()[0].value->shape)};
}

// Elements chosen by their places: `source(place)` gives the place in x for each place of the
// output, -1 for the fill.
using Place = std::vector<int64_t>;
Value Picked(const Arithmetic& m, const Value& x, const Shape& shape,
             const std::function<bool(Place& place)>& source, double fill = 0) {
  if (x == nullptr || !m.Affords(shape)) {
    return nullptr;
  }
  const Shape strides = ContiguousStrides(x->shape);
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  Place place(shape.size());
  Place from;
  for (size_t i = 0; i < indices.size(); ++i) {
    from = place;
    int64_t index = 0;
    if (!source(from)) {
      index = -1;
    } else {
      for (size_t dim = 0; dim < strides.size(); ++dim) {
        if (from[dim] < 0 || from[dim] >= x->shape[dim]) {
          return m.Fail("an index is beyond the tensor");
        }
        index += from[dim] * strides[dim];
      }
    }
    indices[i] = index;
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++place[dim] < shape[dim]) {
        break;
      }
      place[dim] = 0;
    }
  }
  return m.Take({x}, shape, std::move(indices), fill);
}

Value Slice(const Arithmetic& m, const Value& x, int64_t dim, int64_t first, int64_t count) {
  if (x == nullptr) {
    return nullptr;
  }
  if (first < 0 || count < 0 || first + count > x->shape[static_cast<size_t>(dim)]) {
    return m.Fail("a slice is beyond the tensor");
  }
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(dim) + 1; i < x->shape.size(); ++i) {
    inner *= x->shape[i];
  }
  const int64_t size = x->shape[static_cast<size_t>(dim)];
  Shape shape = x->shape;
  shape[static_cast<size_t>(dim)] = count;
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  const int64_t run = count * inner;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    indices[i] = (at / run) * size * inner + first * inner + at % run;
  }
  return m.Take({x}, shape, std::move(indices));
}

Value Joined(Call& call, const Arithmetic& m, const Values& parts, int64_t dim) {
  if (call.failed() || parts.empty()) {
    return nullptr;
  }
  Values kept;
  for (const Value& part : parts) {
    if (!(part->shape.size() == 1 && part->size() == 0)) {  // torch.cat skips these
      kept.push_back(part);
    }
  }
  if (kept.empty()) {
    return parts[0];
  }
  const size_t rank = kept[0]->shape.size();
  const auto along = static_cast<size_t>(DimOf(call, dim, rank));
  if (call.failed() || rank == 0) {
    return call.Fail("numbers cannot be joined");
  }
  Shape shape = kept[0]->shape;
  shape[along] = 0;
  for (const Value& part : kept) {
    Shape same = part->shape;
    if (same.size() != rank) {
      return call.Fail("tensors of different rank are joined");
    }
    shape[along] += same[along];
    same[along] = kept[0]->shape[along];
    if (same != kept[0]->shape) {
      return call.Fail("tensors of different shapes are joined");
    }
  }
  int64_t inner = 1;
  int64_t outer = 1;
  for (size_t i = 0; i < rank; ++i) {
    (i < along ? outer : inner) *= i == along ? 1 : shape[i];
  }
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(ElementCount(shape)));
  for (int64_t o = 0; o < outer; ++o) {
    int64_t base = 0;
    for (const Value& part : kept) {
      const int64_t run = part->shape[along] * inner;
      for (int64_t i = 0; i < run; ++i) {
        indices.push_back(base + o * run + i);
      }
      base += static_cast<int64_t>(part->size());
    }
  }
  return m.Take(kept, shape, std::move(indices));
}

Values Concatenated(Call& call, const Arithmetic& m) {
  const Values parts = call.Tensors(0, "tensors");
  return {Joined(call, m, parts, call.Int(1, "dim", 0))};
}

Values Stacked(Call& call, const Arithmetic& m) {
  Values parts = call.Tensors(0, "tensors");
  if (call.failed()) {
    return {nullptr};
  }
  const size_t rank = parts[0]->shape.size();
  const int64_t dim = DimOf(call, call.Int(1, "dim", 0), rank + 1);
  for (Value& part : parts) {
    if (part->shape.size() != rank) {
      return {call.Fail("tensors of different rank are stacked")};
    }
    Shape shape = part->shape;
    shape.insert(shape.begin() + dim, 1);
    part = m.Reshape(part, shape);
  }
  return {Joined(call, m, parts, dim)};
}

// Whether a tensor may be cut into so many parts: one without elements has as many as it says.
bool HasParts(Call& call, const Value& x, int64_t count) {
  constexpr int64_t kFreeParts = 65'536;
  if (x->size() == 0 && count > kFreeParts && static_cast<size_t>(count) > call.outputs().size()) {
    call.Fail(fmt::format("it has {} outputs instead of {}", call.outputs().size(), count));
  }
  return !call.failed();
}

Values Cut(Call& call, const Arithmetic& m, int64_t dim, const Dims& sizes) {
  const Value x = call.Tensor(0, "input");
  Values parts;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    parts.push_back(Slice(m, x, dim, first, size));
    first += size;
  }
  return parts;
}

Values Split(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || x->shape.empty()) {
    return {call.Fail("a number cannot be split")};
  }
  Dims sizes = call.Ints(1, "split_size_or_sections");
  if (sizes.empty()) {
    sizes = call.Ints(1, "split_size");
  }
  const int64_t dim = DimOf(call, call.Int(2, "dim", 0), x->shape.size());
  const int64_t whole = x->shape[static_cast<size_t>(dim)];
  if (sizes.size() == 1 && sizes[0] != whole) {
    const int64_t step = sizes[0];
    if (step < 1) {
      return {call.Fail("split into parts of no size")};
    }
    sizes.clear();
    if (!HasParts(call, x, whole / step)) {
      return {nullptr};
    }
    for (int64_t first = 0; first < whole; first += step) {
      sizes.push_back(std::min(step, whole - first));
    }
  }
  return Cut(call, m, dim, sizes);
}

Values Chunked(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t chunks = call.Int(1, "chunks");
  if (x == nullptr || x->shape.empty() || chunks < 1) {
    return {call.Fail("it cannot be cut into chunks")};
  }
  const int64_t dim = DimOf(call, call.Int(2, "dim", 0), x->shape.size());
  const int64_t whole = x->shape[static_cast<size_t>(dim)];
  const int64_t step = std::max<int64_t>(1, (whole + chunks - 1) / chunks);
  if (!HasParts(call, x, whole / step)) {
    return {nullptr};
  }
  Dims sizes;
  for (int64_t first = 0; first < whole || sizes.empty(); first += step) {
    sizes.push_back(std::min(step, whole - first));
  }
  return Cut(call, m, dim, sizes);
}

Values Unbound(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || x->shape.empty()) {
    return {call.Fail("a number cannot be taken apart")};
  }
  const int64_t dim = DimOf(call, call.Int(1, "dim", 0), x->shape.size());
  Shape shape = x->shape;
  shape.erase(shape.begin() + dim);
  if (!HasParts(call, x, x->shape[static_cast<size_t>(dim)])) {
    return {nullptr};
  }
  Values parts;
  for (int64_t i = 0; i < x->shape[static_cast<size_t>(dim)]; ++i) {
    parts.push_back(m.Reshape(Slice(m, x, dim, i, 1), shape));
  }
  return parts;
}

Values Narrowed(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || x->shape.empty()) {
    return {call.Fail("a number cannot be narrowed")};
  }
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x->shape.size());
  const int64_t first = call.Int(2, "start");
  const int64_t count = call.Int(3, "length");
  return {Slice(m, x, dim, first < 0 ? first + x->shape[static_cast<size_t>(dim)] : first, count)};
}

Values Selected(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || x->shape.empty()) {
    return {call.Fail("there is nothing to select from a number")};
  }
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x->shape.size());
  const int64_t index = call.Int(2, "index");
  Shape shape = x->shape;
  shape.erase(shape.begin() + dim);
  const Value part =
      Slice(m, x, dim, index < 0 ? index + x->shape[static_cast<size_t>(dim)] : index, 1);
  return {part == nullptr ? nullptr : m.Reshape(part, shape)};
}

Values Flipped(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  Dims dims = call.Ints(1, "dims", true);
  if (x == nullptr) {
    return {nullptr};
  }
  for (int64_t& dim : dims) {
    dim = DimOf(call, dim, x->shape.size());
  }
  return {Picked(m, x, x->shape, [&](Place& place) {
    for (const int64_t dim : dims) {
      if (!place.empty()) {
        const auto at = static_cast<size_t>(dim);
        place[at] = x->shape[at] - 1 - place[at];
      }
    }
    return true;
  })};
}

Values Rolled(Call& call, const Arithmetic& m) {
  Value x = call.Tensor(0, "input");
  const Dims shifts = call.Ints(1, "shifts");
  Dims dims = call.Ints(2, "dims");
  if (x == nullptr || shifts.empty() || (!dims.empty() && dims.size() != shifts.size())) {
    return {call.Fail("roll of unequal lists")};
  }
  const Shape shape = x->shape;
  if (dims.empty()) {
    x = m.Reshape(x, {static_cast<int64_t>(x->size())});
    dims = {0};
  }
  for (int64_t& dim : dims) {
    dim = DimOf(call, dim, x->shape.size());
  }
  if (call.failed() || x->shape.empty()) {
    return {x};
  }
  const Value rolled = Picked(m, x, x->shape, [&](Place& place) {
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto at = static_cast<size_t>(dims[i]);
      const int64_t size = x->shape[at];
      place[at] = ((place[at] - shifts[i]) % size + size) % size;
    }
    return true;
  });
  return {rolled == nullptr ? nullptr : m.Reshape(rolled, shape)};
}

template <bool kUpper>
Values Triangle(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t diagonal = call.Int(1, "diagonal", 0);
  if (x == nullptr || x->shape.size() < 2) {
    return {call.Fail("a triangle of something else than matrices")};
  }
  const size_t rank = x->shape.size();
  return {Picked(m, x, x->shape, [=](Place& place) {
    const int64_t distance = place[rank - 1] - place[rank - 2];
    return kUpper ? distance >= diagonal : distance <= diagonal;
  })};
}

Values Repeated(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Dims times = call.Ints(1, call.Has(1, "dims") ? "dims" : "repeats", true);
  if (x == nullptr) {
    return {nullptr};
  }
  const size_t rank = std::max(times.size(), x->shape.size());
  Shape own(rank, 1);
  std::copy_backward(x->shape.begin(), x->shape.end(), own.end());
  Shape shape = own;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] < 0 || times[i] > kMostRepeats) {
      return {call.Fail("a negative number of repeats")};
    }
    shape[rank - times.size() + i] *= times[i];
  }
  const Value whole = m.Reshape(x, own);
  return {Picked(m, whole, shape, [&](Place& place) {
    for (size_t i = 0; i < rank; ++i) {
      place[i] %= own[i];
    }
    return true;
  })};
}

Values RepeatedInterleaved(Call& call, const Arithmetic& m) {
  Value x = call.Tensor(0, "input");
  if (x == nullptr) {
    return {nullptr};
  }
  int64_t dim = 0;
  if (call.Has(2, "dim")) {
    dim = DimOf(call, call.Int(2, "dim"), x->shape.size());
  } else {
    x = m.Reshape(x, {static_cast<int64_t>(x->size())});
  }
  if (call.failed() || x->shape.empty()) {
    return {x};
  }
  const auto along = static_cast<size_t>(dim);
  std::vector<int64_t> sources;
  const Value counts = call.OptionalTensor(1, "repeats");
  const int64_t count = counts == nullptr ? call.Int(1, "repeats") : 0;
  for (int64_t i = 0; i < x->shape[along]; ++i) {
    const size_t at = counts != nullptr && counts->size() == 1 ? 0 : static_cast<size_t>(i);
    if (counts != nullptr && at >= counts->size()) {
      return {call.Fail("there is not a number of repeats for each element")};
    }
    const int64_t times = counts == nullptr ? count : static_cast<int64_t>(counts->value[at]);
    if (times < 0 || times > kMostRepeats ||
        !m.Affords({times + static_cast<int64_t>(sources.size())})) {
      return {call.Fail("an impossible number of repeats")};
    }
    sources.insert(sources.end(), static_cast<size_t>(times), i);
  }
  Shape shape = x->shape;
  shape[along] = static_cast<int64_t>(sources.size());
  return {Picked(m, x, shape, [&](Place& place) {
    place[along] = sources[static_cast<size_t>(place[along])];
    return true;
  })};
}

Values Padded(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Dims pad = call.Ints(1, "pad");
  const std::string mode = call.Text(2, "mode", "constant");
  const double fill = call.Number(3, "value", 0);
  if (x == nullptr || pad.size() % 2 != 0 || pad.size() / 2 > x->shape.size()) {
    return {call.Fail("more dims are padded than there are")};
  }
  Shape shape = x->shape;
  Dims before(shape.size(), 0);
  Dims after(shape.size(), 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t dim = shape.size() - 1 - i;
    if (std::abs(pad[2 * i]) > kMostRepeats || std::abs(pad[2 * i + 1]) > kMostRepeats) {
      return {call.Fail("impossible padding")};
    }
    before[dim] = pad[2 * i];
    after[dim] = pad[2 * i + 1];
    shape[dim] += before[dim] + after[dim];
    if (shape[dim] < 0) {
      return {call.Fail("impossible padding")};
    }
    // A circle is closed around what negative padding leaves.
    const int64_t left =
        x->shape[dim] + std::min<int64_t>(before[dim], 0) + std::min<int64_t>(after[dim], 0);
    if (mode == "circular" && std::max(before[dim], after[dim]) > left) {
      return {call.Fail("impossible padding")};
    }
  }
  const Value filling = m.Scalar(fill);
  if (mode == "constant" && !filling->is_exact()) {
    return {call.Fail("padded with a number that is not one of the type")};
  }
  return {Picked(
      m, x, shape,
      [&](Place& place) {
        for (size_t dim = 0; dim < place.size(); ++dim) {
          const int64_t size = x->shape[dim];
          int64_t at = place[dim] - before[dim];
          if (mode == "circular") {
            const int64_t first = std::max<int64_t>(-before[dim], 0);
            const int64_t count = size + std::min<int64_t>(after[dim], 0) - first;
            at = first + ((at - first) % count + count) % count;
          } else if (at < 0 || at >= size) {
            if (mode == "constant" || size == 0) {
              return false;
            }
            if (mode == "replicate") {
              at = at < 0 ? 0 : size - 1;
            } else {
              at = at < 0 ? -at : 2 * (size - 1) - at;
            }
          }
          place[dim] = at;
        }
        return true;
      },
      fill)};
}

Values Diagonal(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t offset = call.Int(1, "diagonal", 0);
  if (x == nullptr || std::abs(offset) > kMostRepeats) {
    return {call.Fail("an impossible diagonal")};
  }
  const int64_t down = offset < 0 ? -offset : 0;
  const int64_t right = offset > 0 ? offset : 0;
  if (x->shape.size() == 1) {
    const int64_t size = x->shape[0] + down + right;
    return {Picked(m, x, {size, size}, [=](Place& place) {
      const bool on = place[1] - place[0] == offset;
      place = {place[0] - down};
      return on;
    })};
  }
  if (x->shape.size() != 2) {
    return {call.Fail("a diagonal of something else than a matrix")};
  }
  const int64_t size = std::max<int64_t>(0, std::min(x->shape[0] - down, x->shape[1] - right));
  return {Picked(m, x, {size}, [=](Place& place) {
    place = {place[0] + down, place[0] + right};
    return true;
  })};
}

}  // namespace

OperatorList MoveOperators() {
  return {
      {"view", Viewed},
      {"reshape flatten unflatten squeeze unsqueeze view_as reshape_as ravel expand_dims",
       Reshaped},
      {"transpose swapaxes swapdims", Transposed},
      {"t", T},
      {"permute", Permuted},
      {"movedim moveaxis", MovedDim},
      {"expand expand_as broadcast_to", Expanded},
      {"cat concat concatenate", Concatenated},
      {"stack", Stacked},
      {"split", Split},
      {"chunk", Chunked},
      {"unbind", Unbound},
      {"narrow", Narrowed},
      {"select", Selected},
      {"flip", Flipped},
      {"roll", Rolled},
      {"tril", Triangle<false>},
      {"triu", Triangle<true>},
      {"repeat tile", Repeated},
      {"repeat_interleave", RepeatedInterleaved},
      {"pad", Padded},
      {"diag", Diagonal},
  };
}

// Copies, whose bits must agree, and casts, which round to nearest.

namespace {

Values Copied(Call& call, const Arithmetic&) { return {call.Tensor(0, "input")}; }

// A copy of its own, which autograd knows.
Values Cloned(Call& call, const Arithmetic& m) { return {m.Scale(call.Tensor(0, "input"), 1)}; }

// Casting rounds to the type of the captured output.
Values Cast(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || call.outputs().size() != 1) {
    return {x};
  }
  const DType to = call.outputs()[0].dtype;
  const std::optional<DType> from = call.DTypeOf(x);
  const std::optional<DType> asked = DTypeArgument(call, 1, "dtype");
  if (asked && *asked != to) {
    return {call.Fail("its output is not of the dtype that was asked for")};
  }
  if (from == to) {
    return {x};
  }
  const bool may_round_twice = DTypeSize(to) < 4 && from && DTypeSize(*from) > 4 &&
                               GetDTypeInfo(*from).kind != DTypeKind::kBool;
  return {m.Map(
      x,
      [=](double value) {
        if (to == DType::kBool) {
          return Term(value != 0 ? 1 : 0);
        }
        if (!IsFloat(to)) {
          return Term(std::trunc(value));
        }
        const double rounded = to == DType::kFloat64 || to == DType::kFloat32 ||
                                       to == DType::kFloat16 || to == DType::kBFloat16
                                   ? tensor::RoundToDType(to, value)
                                   : value;
        return Term(rounded, may_round_twice ? std::fabs(rounded) : 0);
      },
      [](double) { return Term(1); }, 0)};
}

}  // namespace

OperatorList CopyOperators() {
  return {
      {"clone", Cloned},
      {"contiguous detach alias identity copy requires_grad cpu cuda npu", Copied},
      {"to float double half bfloat16 int long short bool type cast type_as", Cast},
  };
}

}  // namespace msprobe::reference
