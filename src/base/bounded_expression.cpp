#include "src/base/bounded_expression.h"

#include <array>
#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "src/base/strings.h"

namespace msprobe::base {
namespace {

constexpr size_t kLongestExpression = 2000;
// Names and call stacks are short: whatever needs more steps from one place on, or more memory, is
// a runaway expression.
constexpr uint32_t kMatchSteps = 200'000;
constexpr uint32_t kMatchDepth = 2'000;
constexpr uint32_t kMatchHeapKibibytes = 1024;

template <auto kFree>
struct Freeing {
  template <typename Handle>
  void operator()(Handle* handle) const {
    kFree(handle);
  }
};

}  // namespace

struct BoundedExpression::Compiled {
  std::unique_ptr<pcre2_code, Freeing<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_data, Freeing<pcre2_match_data_free>> scratch;
  std::unique_ptr<pcre2_match_context, Freeing<pcre2_match_context_free>> limits;
};

BoundedExpression::BoundedExpression(std::string_view text)
    : text_(text), compiled_(std::make_unique<Compiled>()) {}
BoundedExpression::BoundedExpression(BoundedExpression&&) noexcept = default;
BoundedExpression& BoundedExpression::operator=(BoundedExpression&&) noexcept = default;
BoundedExpression::~BoundedExpression() = default;

Result<BoundedExpression> BoundedExpression::Parse(std::string_view expression) {
  if (expression.size() > kLongestExpression) {
    return UsageError(fmt::format("an expression of {} bytes; allowed: at most {}",
                                  expression.size(), kLongestExpression));
  }
  BoundedExpression parsed(expression);
  Compiled& compiled = *parsed.compiled_;
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled.code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_NEVER_BACKSLASH_C | PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF,
                    &error, &offset, nullptr));
  if (compiled.code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return UsageError(fmt::format("the expression \"{}\" is broken at character {}: {}",
                                  Printable(expression), offset + 1,
                                  reinterpret_cast<const char*>(text.data())));
  }
  compiled.scratch.reset(pcre2_match_data_create(1, nullptr));
  compiled.limits.reset(pcre2_match_context_create(nullptr));
  if (compiled.scratch == nullptr || compiled.limits == nullptr) {
    return InternalError("no memory for an expression");
  }
  pcre2_set_match_limit(compiled.limits.get(), kMatchSteps);
  pcre2_set_depth_limit(compiled.limits.get(), kMatchDepth);
  pcre2_set_heap_limit(compiled.limits.get(), kMatchHeapKibibytes);
  return parsed;
}

BoundedExpression::Outcome BoundedExpression::Search(std::string_view text) {
  const int outcome =
      pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                  0, compiled_->scratch.get(), compiled_->limits.get());
  return outcome >= 0                     ? Outcome::kFound
         : outcome == PCRE2_ERROR_NOMATCH ? Outcome::kNotFound
                                          : Outcome::kTakesTooLong;
}

}  // namespace msprobe::base
