#include "src/analysis/response_anomaly/request.h"

#include <limits>
#include <optional>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/stream_reader.h"

namespace msprobe::analysis::response_anomaly {
namespace {

constexpr int kDeepest = 64;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<double> NonFiniteOf(std::string_view text) {
  const std::string word = base::AsciiLower(text);
  if (word == "nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (word == "inf" || word == "infinity" || word == "+inf") {
    return kInfinity;
  }
  if (word == "-inf" || word == "-infinity") {
    return -kInfinity;
  }
  return std::nullopt;
}

class RequestHandler final : public json::Handler {
 public:
  explicit RequestHandler(Request& request) : request_(request) {}

  const std::string& complaint() const { return complaint_; }
  bool has_tokens() const { return has_tokens_; }
  bool has_candidates() const { return has_candidates_; }

  bool OnNull() override {
    if (skipping() || (depth_ == 1 && (field_ == Field::kName || field_ == Field::kModel)) ||
        (depth_ == 2 && field_ == Field::kModel)) {
      return true;
    }
    return Unexpected("null");
  }
  bool OnBool(bool value) override { return skipping() || Unexpected(value ? "true" : "false"); }
  bool OnInt(int64_t value) override {
    if (skipping()) {
      return true;
    }
    if (field_ == Field::kTokens && depth_ == 2) {
      request_.tokens.push_back(value);
      return true;
    }
    if (field_ == Field::kName && depth_ == 1) {
      request_.name = std::to_string(value);
      return true;
    }
    if (in_pair() && pair_size_ == 0) {
      candidate_.id = value;
      ++pair_size_;
      return true;
    }
    return Logprob(static_cast<double>(value), "a number");
  }
  bool OnFloat(double value, std::string_view) override {
    if (skipping()) {
      return true;
    }
    return in_pair() && pair_size_ == 0 ? Unexpected("a number with a fraction, or beyond 64 bits,")
                                        : Logprob(value, "a number");
  }
  bool OnText(std::string_view value) override {
    if (skipping()) {
      return true;
    }
    if (depth_ == 1 && field_ == Field::kName) {
      request_.name = value;
      return true;
    }
    if ((depth_ == 1 && field_ == Field::kModel) || (depth_ == 2 && is_model_name_)) {
      request_.model = value;
      return true;
    }
    if (depth_ == 2 && field_ == Field::kModel) {
      return true;  // what else is known of a model
    }
    if (in_pair() && pair_size_ == 0) {
      return TakeId(value);
    }
    if (const std::optional<double> number = NonFiniteOf(value)) {
      return Logprob(*number, "a text");
    }
    return Unexpected(fmt::format("the text \"{}\"", base::Printable(value.substr(0, 40))));
  }

  bool OnBeginObject() override {
    if (skipping()) {
      ++skipped_depth_;
      return true;
    }
    if (depth_ == 0 || (depth_ == 1 && field_ == Field::kModel) || is_token_place()) {
      ++depth_;
      is_object_token_ = depth_ == 3;
      return true;
    }
    if (depth_ == 2 && field_ == Field::kModel) {
      skipped_depth_ = 1;
      return true;
    }
    return Unexpected("an object");
  }
  bool OnKey(std::string_view key) override {
    if (skipped_depth_ > 0) {
      return true;
    }
    if (depth_ == 1) {
      field_ = key == "name"            ? Field::kName
               : key == "model"         ? Field::kModel
               : key == "tokens"        ? Field::kTokens
               : key == "topk_logprobs" ? Field::kCandidates
                                        : Field::kOther;
      if ((field_ == Field::kTokens && has_tokens_) ||
          (field_ == Field::kCandidates && has_candidates_)) {
        return Fail(fmt::format("the key \"{}\" occurs twice", key));
      }
      return true;
    }
    if (field_ == Field::kModel) {
      is_model_name_ = key == "model_name";
      return true;
    }
    return TakeId(key);
  }
  bool OnEndObject() override {
    if (skipped_depth_ > 0) {
      --skipped_depth_;
      return true;
    }
    --depth_;
    is_model_name_ = false;
    if (field_ == Field::kCandidates && depth_ == 2) {
      request_.EndToken();
      is_object_token_ = false;
    }
    return true;
  }
  bool OnBeginArray() override {
    if (skipping()) {
      ++skipped_depth_;
      return true;
    }
    if (depth_ == 1 && field_ == Field::kTokens) {
      has_tokens_ = true;
    } else if (depth_ == 1 && field_ == Field::kCandidates) {
      has_candidates_ = true;
    } else if (depth_ == 2 && field_ == Field::kModel) {
      skipped_depth_ = 1;
      return true;
    } else if (field_ == Field::kCandidates && depth_ == 3 && !is_object_token_) {
      pair_size_ = 0;
    } else if (!is_token_place()) {
      return Unexpected("a list");
    }
    ++depth_;
    return true;
  }
  bool OnEndArray() override {
    if (skipped_depth_ > 0) {
      --skipped_depth_;
      return true;
    }
    --depth_;
    if (field_ == Field::kCandidates && depth_ == 2) {
      request_.EndToken();
    } else if (field_ == Field::kCandidates && depth_ == 3 && pair_size_ != 2) {
      return Fail(fmt::format("{} is not [id, log-probability]", Place()));
    }
    return true;
  }

 private:
  enum class Field : uint8_t { kNone, kName, kModel, kTokens, kCandidates, kOther };

  // Values of a key that nobody asked for.
  bool skipping() const { return skipped_depth_ > 0 || (depth_ == 1 && field_ == Field::kOther); }
  bool is_token_place() const { return field_ == Field::kCandidates && depth_ == 2; }
  bool in_pair() const { return field_ == Field::kCandidates && depth_ == 4; }

  std::string Place() const {
    switch (field_) {
      case Field::kTokens:
        return fmt::format("tokens[{}]", request_.tokens.size());
      case Field::kCandidates:
        return depth_ < 2 ? "topk_logprobs"
                          : fmt::format("topk_logprobs[{}]", request_.candidate_lists());
      case Field::kName:
        return "name";
      case Field::kModel:
        return "model";
      default:
        return "the line";
    }
  }
  bool Fail(std::string complaint) {
    complaint_ = std::move(complaint);
    return false;
  }
  bool Unexpected(std::string_view what) {
    const char* expected = "an object with tokens and topk_logprobs";
    switch (field_) {
      case Field::kTokens:
        expected = depth_ == 1 ? "a list of token ids" : "a token id";
        break;
      case Field::kCandidates:
        expected = depth_ == 1   ? "a list with the candidates of every token"
                   : depth_ == 2 ? "a list of [id, log-probability], or an object"
                                 : "[id, log-probability]";
        break;
      case Field::kName:
        expected = "text";
        break;
      case Field::kModel:
        expected = "text, or an object with model_name";
        break;
      default:
        break;
    }
    return Fail(fmt::format("{} is {}, not {}", Place(), what, expected));
  }
  bool TakeId(std::string_view text) {
    const std::optional<int64_t> id = base::ParseInt(text);
    if (!id) {
      return Fail(fmt::format("{} has the token id \"{}\", which is no integer", Place(),
                              base::Printable(text.substr(0, 40))));
    }
    candidate_.id = *id;
    pair_size_ = 1;
    return true;
  }
  bool Logprob(double value, std::string_view what) {
    const bool is_member = field_ == Field::kCandidates && depth_ == 3 && is_object_token_;
    if (!is_member && !(in_pair() && pair_size_ == 1)) {
      return Unexpected(what);
    }
    candidate_.logprob = value;
    request_.AddCandidate(candidate_);
    pair_size_ = 2;
    return true;
  }

  Request& request_;
  std::string complaint_;
  Field field_ = Field::kNone;
  int depth_ = 0;          // containers open, without those that are skipped
  int skipped_depth_ = 0;  // containers open inside of a value that nobody asked for
  int pair_size_ = 0;
  bool is_object_token_ = false;
  bool is_model_name_ = false;
  bool has_tokens_ = false;
  bool has_candidates_ = false;
  Candidate candidate_;
};

}  // namespace

void Request::Clear() {
  name.clear();
  model.clear();
  tokens.clear();
  candidates_.clear();
  ends_.clear();
}

Status ParseRequest(std::string_view line, Request& request) {
  request.Clear();
  RequestHandler handler(request);
  json::ParseOutcome outcome;
  const Status parsed = json::ParseStream(line, handler, &outcome, kDeepest);
  if (!handler.complaint().empty()) {
    return BadFormatError(handler.complaint());
  }
  MSP_RETURN_IF_ERROR(parsed);
  if (outcome.truncated) {
    return BadFormatError("the line ends inside of its JSON object");
  }
  if (!handler.has_tokens() || !handler.has_candidates()) {
    return BadFormatError(fmt::format("the key \"{}\" is missing",
                                      handler.has_tokens() ? "topk_logprobs" : "tokens"));
  }
  if (request.tokens.size() != request.candidate_lists()) {
    return BadFormatError(fmt::format("{} tokens, but topk_logprobs of {}", request.tokens.size(),
                                      request.candidate_lists()));
  }
  return {};
}

}  // namespace msprobe::analysis::response_anomaly
