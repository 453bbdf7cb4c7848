#include "src/analysis/repro/minimise.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/repro/captured_call.h"
#include "src/base/strings.h"
#include "src/dump/names.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::repro {
namespace {

// Steps by which a captured call becomes smaller. Each makes a candidate; whether it shows the same
// fault is for minimise.h to find out.

// Elements [begin, end) of a dim.
struct Cut {
  std::string data_name;
  size_t dim = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

HeldTensor CopyOf(const TensorView& view) {
  auto copy = std::make_shared<tensor::TensorBuffer>(view.dtype, view.shape);
  tensor::CopyElements(view, 0, view.element_count(), copy->mutable_bytes().data());
  return copy;
}

TensorView Part(TensorView view, const Cut& cut) {
  view.data += static_cast<size_t>(cut.begin * view.strides[cut.dim]) * DTypeSize(view.dtype);
  view.extent_bytes -=
      static_cast<size_t>(cut.begin * view.strides[cut.dim]) * DTypeSize(view.dtype);
  view.shape[cut.dim] = cut.end - cut.begin;
  return view;
}

// The records of a tensor follow it.
void Replace(CapturedCall& call, const std::string& data_name, HeldTensor tensor) {
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    if (leaf.data_name == data_name) {
      call.entries[leaf.place]["shape"] = tensor->view().shape;
    }
  }
  call.tensors[data_name] = std::move(tensor);
}

void ReplaceNumbers(Json& value, int64_t old_size, int64_t new_size) {
  if (IsTensorRecord(value)) {
    return;
  }
  if (value.is_number_integer()) {
    if (value.get<int64_t>() == old_size) {
      value = new_size;
    }
  } else if (value.is_structured()) {
    for (auto& item : value) {
      ReplaceNumbers(item, old_size, new_size);
    }
  }
}

// The tensors cut to ranges of their dims, their records with them. With `numbers`, integers among
// the arguments that equal `old_size` become `new_size`, too.
CapturedCall WithCuts(const CapturedCall& call, const std::vector<Cut>& cuts, bool numbers,
                      int64_t old_size, int64_t new_size) {
  CapturedCall smaller = call;
  for (const Cut& cut : cuts) {
    const HeldTensor held = smaller.tensors.at(cut.data_name);
    Replace(smaller, cut.data_name, CopyOf(Part(held->view(), cut)));
  }
  if (numbers) {
    Json& forward = smaller.entries[smaller.forward_name()];
    for (const char* member : {"input_args", "input_kwargs"}) {
      if (forward.contains(member)) {
        ReplaceNumbers(forward[member], old_size, new_size);
      }
    }
  }
  return smaller;
}

// The values of a tensor are not there any more; its record is.
CapturedCall WithoutValues(const CapturedCall& call, const TensorLeaf& leaf) {
  CapturedCall smaller = call;
  smaller.entries[leaf.place]["data_name"] = "-1";
  const std::vector<TensorLeaf> left = LeavesOf(smaller);
  if (std::none_of(left.begin(), left.end(),
                   [&](const TensorLeaf& other) { return other.data_name == leaf.data_name; })) {
    smaller.tensors.erase(leaf.data_name);
  }
  return smaller;
}

// An argument of the forward call that is not given: None, or a keyword that is left out.
CapturedCall WithoutArgument(const CapturedCall& call, const Json::json_pointer& place) {
  CapturedCall smaller = call;
  Json& holder = smaller.entries[place.parent_pointer()];
  if (holder.is_object()) {
    holder.erase(place.back());
  } else if (place == place.parent_pointer() / (holder.size() - 1)) {
    holder.erase(holder.size() - 1);
  } else {
    smaller.entries[place] = Json();
  }
  const std::vector<TensorLeaf> left = LeavesOf(smaller);
  std::erase_if(smaller.tensors, [&](const auto& tensor) {
    return std::none_of(left.begin(), left.end(),
                        [&](const TensorLeaf& leaf) { return leaf.data_name == tensor.first; });
  });
  return smaller;
}

// Elements [begin, end) of a tensor are 0.
CapturedCall WithZeros(const CapturedCall& call, const std::string& data_name, int64_t begin,
                       int64_t end) {
  CapturedCall smaller = call;
  const TensorView view = call.tensors.at(data_name)->view();
  auto copy = std::make_shared<tensor::TensorBuffer>(view.dtype, view.shape);
  tensor::CopyElements(view, 0, view.element_count(), copy->mutable_bytes().data());
  const size_t size = DTypeSize(view.dtype);
  std::memset(copy->mutable_bytes().data() + static_cast<size_t>(begin) * size, 0,
              static_cast<size_t>(end - begin) * size);
  smaller.tensors[data_name] = std::move(copy);
  return smaller;
}

// Every tensor of `rank` dims loses its first one, which has size 1.
CapturedCall WithoutFirstDim(const CapturedCall& call, size_t rank) {
  CapturedCall smaller = call;
  std::vector<std::string> done;
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    if (leaf.data_name.empty() || leaf.shape.size() != rank || leaf.shape[0] != 1 ||
        std::find(done.begin(), done.end(), leaf.data_name) != done.end()) {
      continue;
    }
    done.push_back(leaf.data_name);
    TensorView view = smaller.tensors.at(leaf.data_name)->view();
    view.shape.erase(view.shape.begin());
    view.strides.erase(view.strides.begin());
    Replace(smaller, leaf.data_name, CopyOf(view));
  }
  return smaller;
}

// Ways in which the dims of other tensors may belong to a dim of the wrong one: the likely ones.
constexpr size_t kMostWays = 32;
constexpr size_t kWaysOfHalves = 4;
constexpr int kMostRounds = 4;
// Blocks of one tensor that are tried to be zero, per round.
constexpr int kMostZeroBlocks = 64;

// Elements that all attempts together recompute: a view of a few bytes may have any number of
// elements. Far more than a call of a model needs.
constexpr uint64_t kMostElements = uint64_t{1} << 38U;

// Arguments that may be missing, or None, in every PyTorch from 1.13 on; a recheck may need less
// than PyTorch does. Settings stay: they are not bytes.
struct OptionalArgument {
  std::string_view function;  // of torch.nn.functional
  std::string_view name;
  size_t position;
};
constexpr OptionalArgument kOptionalArguments[] = {
    {"linear", "bias", 2},
    {"bilinear", "bias", 3},
    {"conv1d", "bias", 2},
    {"conv2d", "bias", 2},
    {"conv3d", "bias", 2},
    {"conv_transpose1d", "bias", 2},
    {"conv_transpose2d", "bias", 2},
    {"conv_transpose3d", "bias", 2},
    {"layer_norm", "weight", 2},
    {"layer_norm", "bias", 3},
    {"group_norm", "weight", 2},
    {"group_norm", "bias", 3},
    {"batch_norm", "weight", 3},
    {"batch_norm", "bias", 4},
    {"instance_norm", "weight", 3},
    {"instance_norm", "bias", 4},
    {"rms_norm", "weight", 2},
    {"scaled_dot_product_attention", "attn_mask", 3},
    {"cross_entropy", "weight", 2},
    {"nll_loss", "weight", 2},
    {"multi_margin_loss", "weight", 4},
    {"multilabel_soft_margin_loss", "weight", 2},
    {"binary_cross_entropy", "weight", 2},
    {"binary_cross_entropy_with_logits", "weight", 2},
    {"binary_cross_entropy_with_logits", "pos_weight", 6},
};

// "[3, 2]" as numbers.
std::vector<int64_t> PlaceOf(const std::string& element) {
  std::vector<int64_t> place;
  for (size_t at = 0; at < element.size();) {
    if (element[at] < '0' || element[at] > '9') {
      ++at;
      continue;
    }
    int64_t number = 0;
    at = static_cast<size_t>(
        std::from_chars(element.data() + at, element.data() + element.size(), number).ptr -
        element.data());
    place.push_back(number);
  }
  return place;
}

bool SameNumber(double a, double b, double slack) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= slack;
}

// For each of the other tensors the dim that belongs to the one that is cut; nullopt: none.
using Way = std::vector<std::optional<size_t>>;

class Minimiser {
 public:
  Minimiser(CapturedCall& call, const recheck::CallVerdict& verdict, uint64_t attempts,
            base::ThreadPool& pool, uint64_t most_visits)
      : call_(call),
        wrong_(*verdict.worst()),
        most_attempts_(attempts),
        most_visits_(most_visits),
        pool_(pool) {
    place_ = PlaceOf(wrong_.element);
    beyond_ = wrong_.beyond;
  }

  Minimised Run() {
    found_.elements_before = call_.element_count();
    for (int round = 0; round < kMostRounds; ++round) {
      const size_t steps = found_.steps.size();
      ForgetResults();
      CutWrongTensor();
      DropArguments();
      CutOthers();
      DropFirstDims();
      if (found_.steps.size() == steps) {
        break;
      }
    }
    ZeroValues();
    found_.elements_after = call_.element_count();
    for (const TensorLeaf& leaf : Live()) {
      if (ElementCount(leaf.shape) > 1) {
        found_.kept.push_back(fmt::format("{} {}", leaf.name, ShapeText(leaf.shape)));
      }
    }
    return std::move(found_);
  }

 private:
  // Takes a candidate that shows the same fault.
  bool Try(CapturedCall candidate, const std::string& step) {
    if (IsUsedUp()) {
      return false;
    }
    ++found_.attempts;
    visits_ += call_.tensors.size();
    elements_ += candidate.element_count();
    const Result<recheck::CallVerdict> verdict = Recheck(candidate, pool_);
    if (!verdict.ok() || verdict->verdict != recheck::Verdict::kBeyond) {
      return false;
    }
    const recheck::Judgement& worst = *verdict->worst();
    if (!worst.reason.empty() || worst.tensor != wrong_.tensor || worst.beyond > beyond_ ||
        !SameNumber(worst.captured, wrong_.captured, 0) ||
        !SameNumber(worst.exact, wrong_.exact, wrong_.bound / 100)) {
      return false;
    }
    place_ = PlaceOf(worst.element);
    beyond_ = worst.beyond;
    call_ = std::move(candidate);
    if (!step.empty()) {
      found_.steps.push_back(step);
    }
    return true;
  }

  // Asked before a candidate is made, too: it is a copy of tensors.
  bool IsUsedUp() {
    const bool used_up =
        found_.attempts >= most_attempts_ || visits_ >= most_visits_ || elements_ >= kMostElements;
    found_.ran_out = found_.ran_out || used_up;
    return used_up;
  }

  // Leaves whose values are there, one for each tensor.
  std::vector<TensorLeaf> Live() {
    std::vector<TensorLeaf> live;
    std::set<std::string> seen;
    for (TensorLeaf& leaf : LeavesOf(call_)) {
      ++visits_;
      if (!leaf.data_name.empty() && seen.insert(leaf.data_name).second) {
        live.push_back(std::move(leaf));
      }
    }
    return live;
  }

  bool IsWrong(const TensorLeaf& leaf) const {
    return leaf.is_result && leaf.name == wrong_.tensor;
  }

  bool IsArgument(const TensorLeaf& leaf) const {
    return leaf.entry == call_.forward_name() && !leaf.name.starts_with("output");
  }

  void ForgetResults() {
    for (const TensorLeaf& leaf : Live()) {
      const bool is_result = leaf.is_result || leaf.name.starts_with("output");
      if (is_result && !IsWrong(leaf) && !IsUsedUp()) {
        Try(WithoutValues(call_, leaf), fmt::format("{} is left out", leaf.name));
      }
    }
  }

  std::vector<Way> WaysFor(const TensorLeaf& wrong, size_t dim,
                           const std::vector<TensorLeaf>& others) const {
    const int64_t size = wrong.shape[dim];
    std::vector<Way> ways = {{}};
    for (const TensorLeaf& other : others) {
      std::vector<std::optional<size_t>> fitting;
      for (size_t e = 0; e < other.shape.size(); ++e) {
        if (other.shape[e] == size) {
          fitting.emplace_back(e);
        }
      }
      // Aligned from the right as in broadcasting, from the left as batches are, otherwise.
      const auto rank = [&](const std::optional<size_t>& e) {
        return other.shape.size() - *e == wrong.shape.size() - dim ? 0 : *e == dim ? 1 : 2;
      };
      std::stable_sort(fitting.begin(), fitting.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
      fitting.emplace_back(std::nullopt);
      std::vector<Way> longer;
      for (const std::optional<size_t>& choice : fitting) {
        for (const Way& way : ways) {
          longer.push_back(way);
          longer.back().push_back(choice);
        }
      }
      ways = std::move(longer);
      if (ways.size() > kMostWays * kMostWays) {
        ways.resize(kMostWays * kMostWays);
      }
    }
    ways.resize(std::min(ways.size(), kMostWays));
    return ways;
  }

  bool TryCut(const TensorLeaf& wrong, size_t dim, const std::vector<TensorLeaf>& others,
              const Way& way, int64_t begin, int64_t end) {
    if (IsUsedUp()) {
      return false;
    }
    std::vector<Cut> cuts = {{wrong.data_name, dim, begin, end}};
    std::string with;
    for (size_t i = 0; i < way.size(); ++i) {
      if (way[i]) {
        cuts.push_back({others[i].data_name, *way[i], begin, end});
        with += fmt::format(", {} dim {}", others[i].name, *way[i]);
      }
    }
    const int64_t size = wrong.shape[dim];
    const std::string step =
        fmt::format("{} dim {}{}: {} to {}", wrong.name, dim, with, size, end - begin);
    if (Try(WithCuts(call_, cuts, false, size, end - begin), step)) {
      return true;
    }
    return size != 1 && HasNumber(size) && !IsUsedUp() &&
           Try(WithCuts(call_, cuts, true, size, end - begin), step + ", and in the arguments");
  }

  // Whether an argument is this integer, or holds it.
  bool HasNumber(int64_t number) const {
    for (const char* member : {"input_args", "input_kwargs"}) {
      if (call_.forward().contains(member)) {
        const Json flat = call_.forward()[member].flatten();
        for (const auto& [place, value] : flat.items()) {
          if (value.is_number_integer() && value.get<int64_t>() == number &&
              place.find("/shape/") == std::string::npos) {
            return true;
          }
        }
      }
    }
    return false;
  }

  void CutWrongTensor() {
    for (size_t dim = 0; dim < place_.size(); ++dim) {
      while (CutDim(dim)) {
      }
    }
  }

  // The wrong element alone, or the half of the dim that it is in.
  bool CutDim(size_t dim) {
    std::vector<TensorLeaf> others = Live();
    const auto at = std::find_if(others.begin(), others.end(),
                                 [&](const TensorLeaf& leaf) { return IsWrong(leaf); });
    if (at == others.end() || dim >= at->shape.size() || at->shape.size() != place_.size() ||
        at->shape[dim] < 2) {
      return false;
    }
    const TensorLeaf wrong = *at;
    others.erase(at);
    const int64_t size = wrong.shape[dim];
    const int64_t index = place_[dim];
    const std::vector<Way> ways = WaysFor(wrong, dim, others);
    for (const Way& way : ways) {
      if (TryCut(wrong, dim, others, way, index, index + 1)) {
        return true;
      }
    }
    const int64_t middle = size / 2;
    for (size_t i = 0; i < std::min(ways.size(), kWaysOfHalves) && size > 2; ++i) {
      if (index < middle ? TryCut(wrong, dim, others, ways[i], 0, middle)
                         : TryCut(wrong, dim, others, ways[i], middle, size)) {
        return true;
      }
    }
    return false;
  }

  void DropArguments() {
    const std::string forward_name = call_.forward_name();  // `name` refers to it
    const dump::EntryName name = dump::ParseEntryName(forward_name);
    const Json::json_pointer root = Json::json_pointer() / forward_name;
    for (const OptionalArgument& optional : kOptionalArguments) {
      if (name.kind != "Functional" || name.subject != optional.function) {
        continue;
      }
      for (const Json::json_pointer& place : {root / "input_kwargs" / std::string(optional.name),
                                              root / "input_args" / optional.position}) {
        if (call_.entries.contains(place) && IsTensorRecord(call_.entries[place]) && !IsUsedUp()) {
          Try(WithoutArgument(call_, place), fmt::format("{} is left out", optional.name));
        }
      }
    }
  }

  // Dims of inputs that the wrong element does not reach: rows of a table that is looked up.
  void CutOthers() {
    for (const TensorLeaf& first : Live()) {
      for (size_t dim = 0; dim < first.shape.size() && IsArgument(first) && !IsUsedUp(); ++dim) {
        while (HalveInput(first.data_name, dim)) {
        }
      }
    }
  }

  bool HalveInput(const std::string& data_name, size_t dim) {
    for (const TensorLeaf& leaf : Live()) {
      if (leaf.data_name == data_name && dim < leaf.shape.size() && leaf.shape[dim] > 1) {
        const int64_t size = leaf.shape[dim];
        const int64_t middle = size / 2;
        return TryCut(leaf, dim, {}, {}, 0, middle) || TryCut(leaf, dim, {}, {}, middle, size);
      }
    }
    return false;
  }

  // Where all tensors have the same shape, so that no dim means something of its own.
  bool HaveOneShape() {
    const std::vector<TensorLeaf> live = Live();
    return std::all_of(live.begin(), live.end(), [&](const TensorLeaf& leaf) {
      return leaf.shape == live[0].shape && !leaf.shape.empty() && leaf.shape[0] == 1;
    });
  }

  void DropFirstDims() {
    while (place_.size() > 1 && HaveOneShape() &&
           Try(WithoutFirstDim(call_, place_.size()), "first dims of size 1 are left out")) {
    }
  }

  void ZeroValues() {
    for (const TensorLeaf& leaf : Live()) {
      int blocks = kMostZeroBlocks;
      if (!leaf.is_result) {
        const int64_t zeroed = Zero(leaf.data_name, 0, ElementCount(leaf.shape), blocks);
        if (zeroed > 0) {
          found_.steps.push_back(fmt::format("{} of {} set to 0",
                                             base::Plural(static_cast<uint64_t>(zeroed), "value"),
                                             leaf.name));
        }
      }
    }
  }

  // How many of them became 0.
  int64_t Zero(const std::string& data_name, int64_t begin, int64_t end, int& blocks) {
    if (begin >= end || blocks-- <= 0 || AreZero(data_name, begin, end) || IsUsedUp()) {
      return 0;
    }
    if (Try(WithZeros(call_, data_name, begin, end), "")) {
      return end - begin;
    }
    const int64_t middle = begin + (end - begin) / 2;
    return middle == begin
               ? 0
               : Zero(data_name, begin, middle, blocks) + Zero(data_name, middle, end, blocks);
  }

  bool AreZero(const std::string& data_name, int64_t begin, int64_t end) const {
    const TensorView view = call_.tensors.at(data_name)->view();
    const size_t size = DTypeSize(view.dtype);
    const auto bytes = view.bytes().subspan(static_cast<size_t>(begin) * size,
                                            static_cast<size_t>(end - begin) * size);
    return std::all_of(bytes.begin(), bytes.end(),
                       [](std::byte byte) { return byte == std::byte{0}; });
  }

  CapturedCall& call_;
  const recheck::Judgement wrong_;  // the element that stays wrong
  const uint64_t most_attempts_;
  const uint64_t most_visits_;
  base::ThreadPool& pool_;
  std::vector<int64_t> place_;  // where it is now
  uint64_t beyond_ = 0;         // elements that are beyond their bounds now
  uint64_t visits_ = 0;
  uint64_t elements_ = 0;
  Minimised found_;
};

}  // namespace

std::string ReasonAgainst(const recheck::CallVerdict& verdict) {
  switch (verdict.verdict) {
    case recheck::Verdict::kWithin:
      return "the call is within its error bound: there is no fault to keep";
    case recheck::Verdict::kNotCheckable:
      return "the call cannot be rechecked: " + verdict.reason;
    case recheck::Verdict::kBeyond:
      break;
  }
  return verdict.worst()->reason.empty() ? ""
                                         : "what is wrong is not an element: " + verdict.reason;
}

Minimised Minimise(CapturedCall& call, const recheck::CallVerdict& verdict, uint64_t attempts,
                   base::ThreadPool& pool, uint64_t most_visits) {
  return Minimiser(call, verdict, attempts, pool, most_visits).Run();
}

}  // namespace msprobe::analysis::repro
