#include "src/analysis/response_anomaly/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/document.h"
#include "src/json/stream_reader.h"

namespace msprobe::analysis::response_anomaly {
namespace {

using json::Json;

// Vocabularies in use have a quarter of a million entries.
constexpr int64_t kLargestVocabulary = int64_t{1} << 24U;
constexpr uint64_t kLargestTable = uint64_t{1} << 30U;

std::string PlainName(std::string_view name) {
  std::string plain = base::AsciiLower(name);
  plain.erase(std::remove_if(plain.begin(), plain.end(),
                             [](char c) { return c == '-' || c == '_' || c == '.' || c == ' '; }),
              plain.end());
  return plain;
}

Result<std::vector<int64_t>> EndIds(const json::Config& config, const Json& value) {
  std::vector<int64_t> ids;
  if (value.is_number_integer()) {
    ids.push_back(json::IntOf(value));
    return ids;
  }
  if (value.is_array()) {
    for (const Json& item : value) {
      if (!item.is_number_integer()) {
        return config.ErrorAt(item, "eos", "must hold token ids");
      }
      ids.push_back(json::IntOf(item));
    }
    return ids;
  }
  return config.ErrorAt(value, "eos", "must be a token id, or a list of them");
}

// <name>_<digits>.json: the digits.
std::optional<int64_t> VocabularySize(std::string_view file, std::string_view model) {
  constexpr std::string_view kEnding = ".json";
  if (!file.starts_with(model) || !file.ends_with(kEnding) ||
      file.size() < model.size() + kEnding.size() + 2 || file[model.size()] != '_') {
    return std::nullopt;
  }
  file.remove_prefix(model.size() + 1);
  file.remove_suffix(kEnding.size());
  if (!std::all_of(file.begin(), file.end(), base::IsDigit)) {
    return std::nullopt;
  }
  return base::ParseInt(file);
}

}  // namespace

Result<Categories> Categories::Parse(std::string_view text, int64_t vocabulary_size) {
  if (vocabulary_size > kLargestVocabulary) {
    return BadFormatError(fmt::format("a vocabulary of {} tokens", vocabulary_size));
  }
  MSP_ASSIGN_OR_RETURN(const Json table, json::ParseDocument(text));
  if (!table.is_object()) {
    return BadFormatError("must hold an object, {\"token id\": \"category\"}");
  }
  std::map<std::string, Category, std::less<>> numbers = {{"english_latin", kLatin},
                                                          {"english_latin_space", kLatinSpace},
                                                          {"punctuation", kPunctuation},
                                                          {"whitespace", kWhitespace}};
  Categories categories;
  for (const auto& [key, name] : table.items()) {
    const std::optional<int64_t> id = base::ParseInt(key);
    if (!id || *id < 0 || !name.is_string()) {
      return BadFormatError(fmt::format("\"{}\": must be a token id with the name of a category",
                                        base::Printable(key)));
    }
    if (*id > vocabulary_size) {
      continue;
    }
    const auto next = static_cast<Category>(numbers.size() + 1);
    const auto found = numbers.emplace(json::TextOf(name), next).first;
    if (found->second == std::numeric_limits<Category>::max()) {
      return BadFormatError("more than 65,534 categories");
    }
    const auto index = static_cast<size_t>(*id);
    if (categories.of_id_.size() <= index) {
      categories.of_id_.resize(index + 1, kUnknown);
    }
    categories.of_id_[index] = found->second;
  }
  return categories;
}

Result<ModelTable> ModelTable::Load(const std::filesystem::path& models,
                                    const std::filesystem::path& categories) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(models));
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "must hold an object with a member per model");
  }
  if (config.root().size() > kMostModels) {
    return config.ErrorAt(
        config.root(), "",
        fmt::format("has {} models, more than {}", config.root().size(), kMostModels));
  }
  std::vector<std::string> files;
  if (!categories.empty()) {
    MSP_ASSIGN_OR_RETURN(files, base::ListFolder(categories));
  }
  ModelTable table;
  for (const auto& [name, value] : config.root().items()) {
    const Json* end = value.is_object() ? json::Find(value, "eos") : nullptr;
    if (end == nullptr) {
      return config.ErrorAt(value, name, "must be an object with the key \"eos\"");
    }
    Model model;
    model.name = name;
    MSP_ASSIGN_OR_RETURN(model.end_ids, EndIds(config, *end));
    for (const std::string& file : files) {
      const std::optional<int64_t> size = VocabularySize(file, name);
      if (!size) {
        continue;
      }
      const std::filesystem::path path = categories / file;
      MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestTable));
      MSP_ASSIGN_OR_RETURN(Categories parsed, Categories::Parse(text, *size), path.string());
      table.categories_.push_back(std::make_unique<Categories>(std::move(parsed)));
      model.categories = table.categories_.back().get();
      break;
    }
    table.plain_names_.push_back(PlainName(name));
    table.models_.push_back(std::move(model));
  }
  return table;
}

const Model* ModelTable::Find(std::string_view name) const {
  const std::string plain = PlainName(name);
  if (plain.empty()) {
    return nullptr;
  }
  for (size_t i = 0; i < models_.size(); ++i) {
    const std::string& known = plain_names_[i];
    if (!known.empty() &&
        (plain.find(known) != std::string::npos || known.find(plain) != std::string::npos)) {
      return &models_[i];
    }
  }
  return nullptr;
}

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

  // Values of a key that is not needed.
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
      return Fail(fmt::format("{} has the token id \"{}\", which is not an integer", Place(),
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
  int skipped_depth_ = 0;  // containers open inside of a value that is not needed
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

namespace {

// Lags of the autocorrelation that count as a period; up to a third of a window, so that twice and
// three times the lag lie inside.
constexpr size_t kShortestPeriod = 3;
// Pairs of tokens that are compared for each token of a response, because windows overlap: those of
// 1,024 tokens may begin at every token, those of 65,536 at every 4,096th.
constexpr size_t kMostPairsPerToken = size_t{1} << 20U;
constexpr double kLeastDeviation = 1e-12;
// The autocorrelation of a response that repeats itself goes up and down; that of a drift does not.
constexpr double kLeastRoughness = 0.9;

size_t Unsigned(int64_t value) { return static_cast<size_t>(value); }

// Largest first; NaN in front of everything, so that none is cut off.
bool ComesFirst(const Candidate& a, const Candidate& b) {
  if (std::isnan(a.logprob) || std::isnan(b.logprob)) {
    return std::isnan(a.logprob) && !std::isnan(b.logprob);
  }
  return a.logprob > b.logprob;
}

size_t PowerOfTwoFrom(size_t least) {
  size_t power = 1;
  while (power < least) {
    power *= 2;
  }
  return power;
}

}  // namespace

std::string_view IllnessName(Illness illness) {
  constexpr std::array<std::string_view, kIllnessCount> kNames = {
      "none", "rare_characters", "garbled", "repetition", "not_finite"};
  return kNames[static_cast<size_t>(illness)];
}

Status Judge::CheckWork(size_t tokens) const {
  // Sorting n-grams compares each with some others.
  constexpr size_t kComparisons = 16;
  const size_t stride = Unsigned(limits_.stride);
  if (tokens < stride) {
    return {};  // no window is searched for repetition
  }
  const size_t window = std::min(Unsigned(limits_.window_size), tokens);
  const size_t pairs =
      window * std::max(window, std::min(Unsigned(limits_.n), window) * kComparisons) / stride;
  if (pairs > kMostPairsPerToken) {
    return UnsupportedError(fmt::format(
        "{} tokens in windows of {} that begin {} apart: {} comparisons for each token, more than "
        "{}; choose a larger stride or a smaller window_size",
        tokens, limits_.window_size, stride, pairs, kMostPairsPerToken));
  }
  return {};
}

// The rest of a mixture of scripts: more categories than text in one language has.
bool Judge::IsMixture(std::span<const Candidate> candidates, const Categories& categories) {
  mixture_.clear();
  for (const Candidate& candidate : candidates) {
    const Categories::Category category = categories.Of(candidate.id);
    if (category != Categories::kUnknown) {
      mixture_.push_back(category);
    }
  }
  std::sort(mixture_.begin(), mixture_.end());
  mixture_.erase(std::unique(mixture_.begin(), mixture_.end()), mixture_.end());
  const auto has = [&](Categories::Category category) {
    return std::binary_search(mixture_.begin(), mixture_.end(), category);
  };
  int64_t count = static_cast<int64_t>(mixture_.size());
  count -= has(Categories::kLatin) && has(Categories::kLatinSpace) ? 1 : 0;
  count -= has(Categories::kPunctuation) ? 1 : 0;
  count -= has(Categories::kWhitespace) ? 1 : 0;
  return count > limits_.category_thresh;
}

void Judge::ReadTokens(Request& request, Judgement& judgement) {
  size_t kept = SIZE_MAX;
  for (size_t i = 0; i < request.candidate_lists(); ++i) {
    kept = std::min(kept, request.candidates(i).size());
  }
  judgement.candidates = kept;
  tokens_.resize(request.tokens.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::span<Candidate> all = request.candidates(i);
    std::stable_sort(all.begin(), all.end(), ComesFirst);
    const std::span<const Candidate> candidates = all.first(kept);
    Token token;
    const size_t before =
        judgement.nans + judgement.positive_infinities + judgement.negative_infinities;
    for (const Candidate& candidate : candidates) {
      judgement.nans += std::isnan(candidate.logprob) ? 1U : 0U;
      if (std::isinf(candidate.logprob)) {
        ++(candidate.logprob > 0 ? judgement.positive_infinities : judgement.negative_infinities);
      }
      token.probability += std::exp(candidate.logprob);
    }
    if (!judgement.first_token &&
        judgement.nans + judgement.positive_infinities + judgement.negative_infinities > before) {
      judgement.first_token = i;
    }
    token.top = candidates.empty() ? 0 : candidates.front().logprob;
    token.is_rare = categories_ != nullptr ? token.probability < limits_.explogp_sum_thresh &&
                                                 IsMixture(candidates, *categories_)
                                           : token.top < limits_.rare_top1_logp_thresh;
    tokens_[i] = token;
  }
}

bool Judge::IsGarbled(size_t begin, size_t end) const {
  const auto share = [&](auto counts) {
    const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = tokens_.begin() + static_cast<std::ptrdiff_t>(end);
    return static_cast<double>(std::count_if(first, last, counts)) /
           static_cast<double>(end - begin);
  };
  if (categories_ != nullptr) {
    return share([](const Token& token) { return token.is_rare; }) > limits_.window_ratio;
  }
  return share([&](const Token& token) { return token.probability < limits_.explogp_sum_thresh; }) >
             limits_.window_ratio &&
         share([&](const Token& token) { return token.top < limits_.garbled_top1_logp_thresh; }) >
             limits_.window_ratio;
}

// Whether few distinct n-grams make up the window, each said with confidence.
bool Judge::HasFewTrajectories(const std::vector<int64_t>& tokens, size_t begin, size_t end) {
  const size_t n = Unsigned(limits_.n);
  if (end - begin < n) {
    return false;
  }
  const size_t count = end - begin - n + 1;
  places_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    places_[i] = begin + i;
  }
  const auto gram = [&](size_t place) { return std::span(tokens).subspan(place, n); };
  std::sort(places_.begin(), places_.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(gram(a).begin(), gram(a).end(), gram(b).begin(),
                                        gram(b).end());
  });
  size_t distinct = 1;
  for (size_t i = 1; i < count; ++i) {
    distinct += std::equal(gram(places_[i - 1]).begin(), gram(places_[i - 1]).end(),
                           gram(places_[i]).begin())
                    ? 0U
                    : 1U;
  }
  if (static_cast<double>(distinct) / static_cast<double>(count) >= limits_.distinct_n_thresh) {
    return false;
  }
  return std::all_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                     tokens_.begin() + static_cast<std::ptrdiff_t>(end), [&](const Token& token) {
                       return token.top > limits_.trajectory_logp_thresh;
                     });
}

// Whether the log-probabilities of the window go up and down in step. Their autocorrelation is what
// a Fourier transform of twice the window gives whose highest frequency is left out, as the Python
// tool does; the part of that frequency is subtracted from the plain sums.
bool Judge::IsPeriodic(size_t begin, size_t end) {
  const size_t length = end - begin;
  const size_t most_lag = Unsigned(limits_.window_size) / 3;
  if (most_lag < kShortestPeriod || length < 2) {
    return false;
  }
  double mean = 0;
  double least = tokens_[begin].top;
  for (size_t i = begin; i < end; ++i) {
    mean += tokens_[i].top;
    least = std::min(least, tokens_[i].top);
  }
  if (least <= limits_.acf_logp_thresh) {
    return false;
  }
  mean /= static_cast<double>(length);
  double squares = 0;
  centred_.resize(length);
  for (size_t i = 0; i < length; ++i) {
    centred_[i] = tokens_[begin + i].top - mean;
    squares += centred_[i] * centred_[i];
  }
  const double deviation = std::sqrt(squares / static_cast<double>(length));
  if (!(deviation >= kLeastDeviation)) {
    return false;
  }
  double alternating = 0;
  for (size_t i = 0; i < length; ++i) {
    centred_[i] /= deviation;
    alternating += i % 2 == 0 ? centred_[i] : -centred_[i];
  }
  const size_t points = 2 * PowerOfTwoFrom(Unsigned(limits_.window_size));
  const double highest = alternating * alternating / static_cast<double>(points);
  correlation_.assign(points / 2, 0);
  // Sums of all lags side by side: each has its terms in the order of the window, and none waits
  // for the one before it.
  for (size_t i = 0; i < length; ++i) {
    const size_t lags = std::min(i + 1, correlation_.size());
    for (size_t lag = 0; lag < lags; ++lag) {
      correlation_[lag] += centred_[i] * centred_[i - lag];
    }
  }
  for (size_t lag = 0; lag < correlation_.size(); ++lag) {
    correlation_[lag] -= lag % 2 == 0 ? highest : -highest;
  }
  const double whole = correlation_[0];
  if (!(whole > 0)) {
    return false;
  }
  double roughness = 0;
  for (size_t lag = 0; lag < correlation_.size(); ++lag) {
    correlation_[lag] /= whole;
    if (lag > 0) {
      const double step = correlation_[lag] - correlation_[lag - 1];
      roughness += step * step;
    }
  }
  const auto first = correlation_.begin() + static_cast<std::ptrdiff_t>(kShortestPeriod);
  const auto last = correlation_.begin() +
                    static_cast<std::ptrdiff_t>(std::min(most_lag + 1, correlation_.size()));
  const auto peak = std::max_element(first, last);
  if (*peak <= limits_.acf_threshold || std::sqrt(roughness) <= kLeastRoughness) {
    return false;
  }
  const auto lag = static_cast<size_t>(peak - correlation_.begin());
  for (const size_t times : {size_t{2}, size_t{3}}) {
    if (times * lag < std::min(length, correlation_.size()) &&
        correlation_[times * lag] > limits_.harmonic_thresh) {
      return true;
    }
  }
  return false;
}

Judgement Judge::Examine(Request& request) {
  Judgement judgement;
  const size_t count = request.tokens.size();
  judgement.tokens = count;
  if (count == 0) {
    return judgement;
  }
  const Model* model = models_.Find(request.model);
  const bool ended = model != nullptr && std::find(model->end_ids.begin(), model->end_ids.end(),
                                                   request.tokens.back()) != model->end_ids.end();
  categories_ = ended ? model->categories : nullptr;
  judgement.by_categories = categories_ != nullptr;
  ReadTokens(request, judgement);
  if (judgement.first_token) {
    judgement.illness = Illness::kNotFinite;
    return judgement;
  }
  if (judgement.candidates == 0) {
    return judgement;  // nothing is known of a token: there is nothing to judge
  }
  std::optional<size_t> first_rare;
  for (size_t i = 0; i < count; ++i) {
    if (tokens_[i].is_rare) {
      first_rare = first_rare.value_or(i);
      ++judgement.rare_tokens;
    }
  }
  const size_t stride = Unsigned(limits_.stride);
  const auto decide = [&](Illness illness, size_t token) {
    if (judgement.illness == Illness::kNone) {
      judgement.illness = illness;
      judgement.first_token = token;
    }
  };
  const auto exceeds = [](size_t windows, int64_t limit) {
    return static_cast<int64_t>(windows) > limit;
  };
  for (size_t begin = 0; begin < count && count >= stride; begin += stride) {
    const size_t end = std::min(count, begin + Unsigned(limits_.window_size));
    ++judgement.windows;
    if (IsGarbled(begin, end) && exceeds(++judgement.garbled_windows, limits_.window_thresh)) {
      decide(Illness::kGarbled, begin);
    }
    if (end - begin < stride) {
      continue;
    }
    const bool trajectory = HasFewTrajectories(request.tokens, begin, end);
    const bool period = IsPeriodic(begin, end);
    judgement.repeats_both += trajectory && period ? 1U : 0U;
    judgement.repeats_trajectory += trajectory && !period ? 1U : 0U;
    judgement.repeats_period += !trajectory && period ? 1U : 0U;
    if (exceeds(judgement.repeats_both, limits_.multi_window_thresh) ||
        exceeds(judgement.repeats_trajectory, limits_.single_window_thresh) ||
        exceeds(judgement.repeats_period, limits_.single_window_thresh)) {
      decide(Illness::kRepetition, begin);
    }
  }
  if (first_rare) {
    decide(Illness::kRareCharacters, *first_rare);
  }
  return judgement;
}

}  // namespace msprobe::analysis::response_anomaly
