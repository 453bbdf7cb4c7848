#include "src/analysis/nan/bad_values.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/json/value_tree.h"
#include "src/json/stream_reader.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::nan {
namespace {

// The largest finite float16.
constexpr double kHalfMax = tensor::FormatOf(DType::kFloat16).largest;

BadValues BadValuesOfNumber(double value, double threshold) {
  if (std::isnan(value)) {
    return kNan;
  }
  if (std::isinf(value)) {
    return value > 0 ? kPositiveInfinity : kNegativeInfinity;
  }
  return std::fabs(value) > threshold ? kTooLarge : BadValues{0};
}

double NumberOf(BadValues bad) {
  return bad == kNan                ? std::numeric_limits<double>::quiet_NaN()
         : bad == kPositiveInfinity ? std::numeric_limits<double>::infinity()
                                    : -std::numeric_limits<double>::infinity();
}

// The lowest finite numbers of float16, bfloat16 and float32, which masks use in place of -inf.
bool IsLowest(double value) { return value == -kHalfMax || value <= -3.38e38; }

enum class EntrySection : uint8_t { kNone, kArguments, kKeywords, kParameters, kOutput };

EntrySection EntrySectionOf(std::string_view key) {
  if (key == "input_args" || key == "input") {
    return EntrySection::kArguments;
  }
  if (key == "input_kwargs") {
    return EntrySection::kKeywords;
  }
  if (key == "parameters") {
    return EntrySection::kParameters;
  }
  return key == "output" ? EntrySection::kOutput : EntrySection::kNone;
}

// Depth counts open containers: 1 is inside the entry, 2 inside a section, 3 inside one of its
// items.
class FactsReader final : public json::Handler {
 public:
  explicit FactsReader(double threshold) : threshold_(threshold) {}

  const EntryFacts& facts() const { return facts_; }

  bool OnNull() override {
    Start();
    role_ = Role::kOther;
    return true;
  }
  bool OnBool(bool value) override {
    Start();
    if (depth_ == 1 && role_ == Role::kRecompute) {
      facts_.is_recompute = value;
    }
    role_ = Role::kOther;
    return true;
  }
  // Shapes, means and norms are not decoded: half of the numbers.
  bool OnNumber(std::string_view digits) override {
    if (role_ == Role::kOther) {
      Start();
      return true;
    }
    double value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [behind, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && behind == end ? Number(value) : json::Handler::OnNumber(digits);
  }
  bool OnInt(int64_t value) override { return Number(static_cast<double>(value)); }
  bool OnFloat(double value, std::string_view /*digits*/) override { return Number(value); }
  bool OnText(std::string_view value) override {
    if (role_ == Role::kMax || role_ == Role::kMin) {
      const BadValues bad = BadValuesOfText(value);
      return Number(bad != 0 ? NumberOf(bad) : 0);
    }
    Start();
    role_ = Role::kOther;
    return true;
  }
  bool OnBeginObject() override { return Begin(); }
  bool OnBeginArray() override { return Begin(); }
  bool OnEndObject() override {
    if (depth_ == tensor_depth_) {
      FinishTensor();
    }
    --depth_;
    return true;
  }
  bool OnEndArray() override {
    --depth_;
    return true;
  }
  bool OnKey(std::string_view key) override {
    role_ = Role::kOther;
    if (depth_ == 1) {
      section_ = EntrySectionOf(key);
      item_ = 0;
      is_buffer_ = false;
      if (key == "is_recompute") {
        role_ = Role::kRecompute;
      } else if (key == "is_nan") {
        role_ = Role::kIsNan;
      }
      return true;
    }
    if (depth_ == 2) {
      is_buffer_ = section_ == EntrySection::kKeywords && key == "out";
    }
    if (key == dump::KeyOf(dump::kMax)) {
      role_ = Role::kMax;
    } else if (key == dump::KeyOf(dump::kMin)) {
      role_ = Role::kMin;
    } else if (key == "value") {
      role_ = Role::kConstant;
    }
    return true;
  }

 private:
  enum class Role : uint8_t { kOther, kMax, kMin, kConstant, kRecompute, kIsNan };

  // In front of every value.
  void Start() {
    if (depth_ == 2) {
      ++item_;
    }
  }

  bool Begin() {
    Start();
    if (depth_ == 0) {
      facts_.is_object = true;
    }
    ++depth_;
    role_ = Role::kOther;
    return true;
  }

  bool Number(double value) {
    Start();
    if (role_ == Role::kIsNan) {
      // A dump of nan_check has no statistics; which kind of value it was is not told.
      facts_.output |= depth_ == 1 && value != 0 ? kNan : BadValues{0};
    } else if (depth_ >= 2 && (role_ == Role::kMax || role_ == Role::kMin)) {
      tensor_depth_ = depth_;
      (role_ == Role::kMax ? maximum_ : minimum_) = value;
    } else if (role_ == Role::kConstant &&
               (section_ == EntrySection::kArguments || section_ == EntrySection::kKeywords)) {
      facts_.constants |= BadValuesOfNumber(value, std::numeric_limits<double>::infinity());
      facts_.has_huge_constant = facts_.has_huge_constant || std::fabs(value) > kHalfMax;
    }
    role_ = Role::kOther;
    return true;
  }

  void FinishTensor() {
    BadValues bad = 0;
    bad |= maximum_ ? BadValuesOfNumber(*maximum_, threshold_) : BadValues{0};
    bad |= minimum_ ? BadValuesOfNumber(*minimum_, threshold_) : BadValues{0};
    const bool looks_like_mask =
        bad == kNegativeInfinity && maximum_ && (*maximum_ == 0 || std::isinf(*maximum_));
    const bool has_lowest = minimum_ && IsLowest(*minimum_);
    maximum_.reset();
    minimum_.reset();
    tensor_depth_ = 0;
    if (section_ == EntrySection::kOutput) {
      facts_.output |= bad;
      return;
    }
    if (section_ == EntrySection::kNone || is_buffer_) {
      return;
    }
    facts_.has_bad_parameters =
        facts_.has_bad_parameters || (section_ == EntrySection::kParameters && bad != 0);
    // item_ was counted up in front of the item that this tensor is or lies in.
    const bool first = section_ == EntrySection::kArguments && item_ == 1;
    (first ? facts_.first_input : facts_.other_inputs) |= bad;
    facts_.inputs_look_like_masks = facts_.inputs_look_like_masks && (bad == 0 || looks_like_mask);
    facts_.has_lowest_input = facts_.has_lowest_input || has_lowest;
  }

  const double threshold_;
  EntryFacts facts_;
  EntrySection section_ = EntrySection::kNone;
  Role role_ = Role::kOther;
  bool is_buffer_ = false;
  uint64_t depth_ = 0;
  uint64_t item_ = 0;
  uint64_t tensor_depth_ = 0;  // of the map whose Max or Min was seen; 0: none
  std::optional<double> maximum_;
  std::optional<double> minimum_;
};

}  // namespace

std::string BadValuesText(BadValues bad) {
  std::string text;
  const auto add = [&](BadValues kind, std::string_view name) {
    if ((bad & kind) != 0) {
      text += text.empty() ? "" : ", ";
      text += name;
    }
  };
  add(kNan, "NaN");
  add(kPositiveInfinity, "+inf");
  add(kNegativeInfinity, "-inf");
  add(kTooLarge, "beyond the threshold");
  return text.empty() ? "good" : text;
}

BadValues BadValuesOfText(std::string_view text) {
  const std::string word = base::AsciiLower(base::Trim(text));
  if (word == "nan") {
    return kNan;
  }
  if (word == "inf") {
    return kPositiveInfinity;
  }
  return word == "-inf" ? kNegativeInfinity : BadValues{0};
}

Result<EntryFacts> ReadEntryFacts(std::string_view text, double threshold) {
  if (FactsReader quick(threshold); json::WalkPlainObject(text, quick)) {
    return quick.facts();
  }
  FactsReader reader(threshold);
  MSP_RETURN_IF_ERROR(json::ParseStream(text, reader));
  return reader.facts();
}

}  // namespace msprobe::analysis::nan
