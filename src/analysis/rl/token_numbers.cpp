#include "src/analysis/rl/token_numbers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/kernels/element_pairs.h"

namespace msprobe::analysis::rl {

Result<OpenArray> OpenSavedArray(const std::filesystem::path& path,
                                 std::vector<std::byte>& scratch) {
  TensorFile::Options options;
  options.scratch = &scratch;
  MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, options));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(Status(tensor->status));
  TensorView view = tensor->view;
  return OpenArray{std::move(file), std::move(view)};
}

Result<Shape> CommonShape(const Shape& first, const Shape& second) {
  if (first.size() != second.size()) {
    return MismatchError(fmt::format("shapes {} and {} have different numbers of axes",
                                     ShapeText(first), ShapeText(second)));
  }
  Shape common = first;
  for (size_t axis = 0; axis < common.size(); ++axis) {
    common[axis] = std::min(common[axis], second[axis]);
  }
  if (ElementCount(common) == 0) {
    return MismatchError(
        fmt::format("nothing to compare: shapes {} and {} have no element in "
                    "common",
                    ShapeText(first), ShapeText(second)));
  }
  return common;
}

TensorView Crop(const TensorView& view, const Shape& shape) {
  TensorView part = view;
  part.shape = shape;
  return part;
}

bool IsWorse(const WorstToken& a, const WorstToken& b) {
  if (a.difference != b.difference) {
    return a.difference > b.difference;
  }
  return std::tie(a.pair, a.sequence, a.position) < std::tie(b.pair, b.sequence, b.position);
}

void WorstTokens::Add(const WorstToken& token) {
  if (!Wants(token.difference)) {
    return;
  }
  if (heap_.size() == limit_) {
    if (!IsWorse(token, heap_.front())) {
      return;
    }
    std::pop_heap(heap_.begin(), heap_.end(), IsWorse);
    heap_.pop_back();
  }
  heap_.push_back(token);
  std::push_heap(heap_.begin(), heap_.end(), IsWorse);
}

void WorstTokens::Add(const WorstTokens& others) {
  for (const WorstToken& token : others.heap_) {
    Add(token);
  }
}

std::vector<WorstToken> WorstTokens::Sorted() const {
  std::vector<WorstToken> tokens = heap_;
  std::sort(tokens.begin(), tokens.end(), IsWorse);
  return tokens;
}

namespace {

void AddOddValue(double value, OddValues& odd) {
  odd.nan += std::isnan(value) ? 1 : 0;
  odd.minus_infinity += value == -HUGE_VAL ? 1 : 0;
  odd.too_large += value > kMaxLogProbability ? 1 : 0;
}

// False for NaN, too.
bool IsLogProbability(double value) { return value <= kMaxLogProbability; }

void AddOddValues(const OddValues& others, OddValues& odd) {
  odd.nan += others.nan;
  odd.minus_infinity += others.minus_infinity;
  odd.too_large += others.too_large;
}

class Comparer {
 public:
  Comparer(const Shape& whole, const Shape& common, size_t pair, WorstTokens& worst)
      : whole_(whole), common_(common), pair_(pair), worst_(worst) {}

  // `mask` is empty or as long as the others; `at` is the flat index of their begin.
  void Add(std::span<const double> first, std::span<const double> second,
           std::span<const double> mask, int64_t at) {
    differences_.clear();
    log_differences_.clear();
    for (size_t i = 0; i < first.size(); ++i) {
      if (!mask.empty() && mask[i] == 0) {
        ++numbers_.masked;
      } else {
        AddToken(first[i], second[i], at + static_cast<int64_t>(i));
      }
    }
    numbers_.difference.Add(differences_);
    numbers_.log_difference.Add(log_differences_);
  }

  const TokenNumbers& numbers() const { return numbers_; }

 private:
  void AddToken(double a, double b, int64_t index) {
    AddOddValue(a, numbers_.first);
    AddOddValue(b, numbers_.second);
    numbers_.different += a != b && !(std::isnan(a) && std::isnan(b)) ? 1 : 0;
    if (!IsLogProbability(a) || !IsLogProbability(b)) {
      return;
    }
    ++numbers_.tokens;
    const double difference = a == b ? 0 : std::fabs(std::exp(a) - std::exp(b));
    differences_.push_back(difference);
    if (std::isfinite(a) && std::isfinite(b)) {
      log_differences_.push_back(a - b);
    }
    numbers_.max_difference = std::max(numbers_.max_difference, difference);
    if (difference > 0 && worst_.Wants(difference)) {
      const int64_t length = common_.empty() ? 1 : common_.back();
      worst_.Add({difference, pair_, SequenceOf(index / length), index % length, a, b});
    }
  }

  // The number of a sequence of the common part among those of the whole first array.
  int64_t SequenceOf(int64_t common_sequence) const {
    int64_t sequence = 0;
    int64_t stride = 1;
    for (size_t axis = common_.empty() ? 0 : common_.size() - 1; axis > 0; --axis) {
      sequence += common_sequence % common_[axis - 1] * stride;
      common_sequence /= common_[axis - 1];
      stride *= whole_[axis - 1];
    }
    return sequence;
  }

  const Shape& whole_;
  const Shape& common_;
  const size_t pair_;
  WorstTokens& worst_;
  TokenNumbers numbers_;
  std::vector<double> differences_;
  std::vector<double> log_differences_;
};

}  // namespace

void Moments::Add(std::span<const double> values) {
  if (values.empty()) {
    return;
  }
  Moments block;
  block.count_ = values.size();
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  block.mean_ = sum / static_cast<double>(values.size());
  for (const double value : values) {
    block.squares_ += (value - block.mean_) * (value - block.mean_);
  }
  Add(block);
}

void Moments::Add(const Moments& others) {
  if (others.count_ == 0) {
    return;
  }
  const double before = static_cast<double>(count_);
  const double added = static_cast<double>(others.count_);
  const double distance = others.mean_ - mean_;
  mean_ += distance * (added / (before + added));
  squares_ += others.squares_ + distance * distance * (before * added / (before + added));
  count_ += others.count_;
}

double Moments::standard_deviation() const {
  return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_));
}

void TokenNumbers::Add(const TokenNumbers& others) {
  tokens += others.tokens;
  masked += others.masked;
  different += others.different;
  AddOddValues(others.first, first);
  AddOddValues(others.second, second);
  max_difference = std::max(max_difference, others.max_difference);
  difference.Add(others.difference);
  log_difference.Add(others.log_difference);
}

Result<TokenNumbers> CompareTokens(const TensorView& first, const TensorView& second,
                                   const TensorView* mask, size_t pair, WorstTokens& worst) {
  MSP_ASSIGN_OR_RETURN(const Shape common, CommonShape(first.shape, second.shape));
  if (mask != nullptr && mask->shape != first.shape) {
    return MismatchError(fmt::format("the mask has shape {}, the log-probabilities have {}",
                                     ShapeText(mask->shape), ShapeText(first.shape)));
  }
  std::optional<kernels::NumberReader<double>> masks;
  if (mask != nullptr) {
    masks.emplace(Crop(*mask, common));
  }
  Comparer comparer(first.shape, common, pair, worst);
  using Run = std::span<const double>;
  kernels::ForEachRun<double>(
      Crop(first, common), Crop(second, common), [&](Run a, Run b, size_t at) {
        comparer.Add(a, b, masks ? masks->Read(at, a.size()) : Run(), static_cast<int64_t>(at));
      });
  return comparer.numbers();
}

}  // namespace msprobe::analysis::rl
