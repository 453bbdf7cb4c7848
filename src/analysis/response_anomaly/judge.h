// The rules of msprobe response_anomaly (explained in docs/commands/response_anomaly.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::response_anomaly {

// Windows over the tokens of a response, and when what is found in one counts. The defaults are
// those of the Python tool, which writes them to a YAML file of the same keys.
struct Limits {
  int64_t window_size = 128;  // tokens
  int64_t stride = 64;        // tokens; shorter responses are searched for rare characters alone

  // Probability that the candidates of a token share; below it the model did not know what to say.
  double explogp_sum_thresh = 0.4;
  int64_t category_thresh = 2;  // more categories than these among the candidates are a mixture
  double rare_top1_logp_thresh = -6;  // without a table of categories

  double garbled_top1_logp_thresh = -5;  // without a table of categories
  double window_ratio = 0.2;             // share of the tokens of a window
  int64_t window_thresh = 0;             // more garbled windows than these

  int64_t n = 3;                         // tokens of an n-gram
  double distinct_n_thresh = 0.2;        // distinct n-grams by n-grams
  double trajectory_logp_thresh = -0.2;  // every token at least as sure as this
  double acf_threshold = 0.65;           // highest value of the autocorrelation
  double acf_logp_thresh = -0.2;
  // The limit of the autocorrelation at two or three times its lag. 0 is what the Python tool
  // computes with; half of acf_threshold is stricter.
  double harmonic_thresh = 0;
  int64_t single_window_thresh = 14;  // more windows in which one of both detectors fires
  int64_t multi_window_thresh = 2;    // more windows in which both do
};

struct Options {
  std::filesystem::path input;       // a file of lines; "-" is the standard input
  std::filesystem::path config;      // of limits, YAML; empty: the defaults
  std::filesystem::path models;      // {"name": {"eos": id or list of ids}}; empty: none
  std::filesystem::path categories;  // a folder of <name>_<size>.json; empty: none
  std::vector<std::filesystem::path> row_files;  // a row per request each, .csv or .jsonl
};

// The models that are known by name: the ids that end a response, and what kind of text each token
// of the vocabulary is.

// From <name>_<size>.json, {"token id": category}.
class Categories {
 public:
  using Category = uint16_t;
  // For a token that is not in the table, or beyond the vocabulary.
  static constexpr Category kUnknown = 0;
  static constexpr Category kLatin = 1;       // english_latin
  static constexpr Category kLatinSpace = 2;  // english_latin_space
  static constexpr Category kPunctuation = 3;
  static constexpr Category kWhitespace = 4;

  // `vocabulary_size` as in the name of the file; larger ids are not tokens of the model.
  static Result<Categories> Parse(std::string_view text, int64_t vocabulary_size);

  Category Of(int64_t id) const {
    return id >= 0 && static_cast<uint64_t>(id) < of_id_.size() ? of_id_[static_cast<size_t>(id)]
                                                                : kUnknown;
  }

 private:
  std::vector<Category> of_id_;
};

struct Model {
  std::string name;  // as the table spells it
  std::vector<int64_t> end_ids;
  const Categories* categories = nullptr;  // null: there is no file for it
};

class ModelTable {
 public:
  // Every request looks its model up among all of them.
  static constexpr size_t kMostModels = 4096;

  // No models at all.
  ModelTable() = default;
  // `categories` may be empty: models are then judged without.
  static Result<ModelTable> Load(const std::filesystem::path& models,
                                 const std::filesystem::path& categories);

  // Upper and lower case, '-', '_', '.' and blanks make no difference, and one name may be part of
  // the other; the first in the order of the file counts. Null: not known.
  const Model* Find(std::string_view name) const;
  size_t size() const { return models_.size(); }
  size_t with_categories() const { return categories_.size(); }

 private:
  std::vector<Model> models_;
  std::vector<std::string> plain_names_;
  std::vector<std::unique_ptr<Categories>> categories_;
};

// One request as a line of JSON:
//   {"name": text, "model": text or {"model_name": text} or null, "tokens": [id, ...],
//    "topk_logprobs": [token, ...]}
// with a token as [[id, logprob], ...] or {"id": logprob}. A log-probability is a number, NaN,
// Infinity, or a text that says so: "nan", "inf", "-inf". Other keys are passed over.

struct Candidate {
  int64_t id = 0;
  double logprob = 0;
};

class Request {
 public:
  std::string name;
  std::string model;  // empty: not known
  std::vector<int64_t> tokens;

  // One list of candidates per token, in the order given.
  size_t candidate_lists() const { return ends_.size(); }
  std::span<Candidate> candidates(size_t token) {
    const size_t begin = token == 0 ? 0 : ends_[token - 1];
    return std::span(candidates_).subspan(begin, ends_[token] - begin);
  }

  void Clear();
  void AddCandidate(Candidate candidate) { candidates_.push_back(candidate); }
  void EndToken() { ends_.push_back(candidates_.size()); }

 private:
  std::vector<Candidate> candidates_;
  std::vector<size_t> ends_;
};

// Fills `request`, whose memory is used again. kBadFormat says what is wrong, and where.
Status ParseRequest(std::string_view line, Request& request);

// The numbers are the Python tool's.
enum class Illness : uint8_t {
  kNone = 0,
  kRareCharacters = 1,
  kGarbled = 2,
  kRepetition = 3,
  kNotFinite = 4,
};
inline constexpr size_t kIllnessCount = 5;
// "rare_characters", ...; "none".
std::string_view IllnessName(Illness illness);

struct Judgement {
  Illness illness = Illness::kNone;
  size_t tokens = 0;
  size_t candidates = 0;  // per token, of those that are looked at
  bool by_categories = false;
  // Values that are not numbers, among the candidates that are looked at. A server that fills up
  // with -inf has these alone.
  size_t nans = 0;
  size_t positive_infinities = 0;
  size_t negative_infinities = 0;
  size_t windows = 0;
  size_t rare_tokens = 0;
  size_t garbled_windows = 0;
  // Windows in which the detectors of repetition fire; those of `both` are not counted in the
  // others. They count below the thresholds too: a short response can repeat itself and be normal.
  size_t repeats_both = 0;
  size_t repeats_trajectory = 0;
  size_t repeats_period = 0;
  std::optional<size_t> first_token;  // of what made it ill; begins with 0
};

class Judge {
 public:
  Judge(const Limits& limits, const ModelTable& models) : limits_(limits), models_(models) {}

  // Fails where windows overlap so much that judging a response of so many tokens has no end.
  Status CheckWork(size_t tokens) const;
  // Sorts the candidates of `request`. A request by itself: no other one changes its answer.
  Judgement Examine(Request& request);

 private:
  struct Token {
    double top = 0;          // largest log-probability
    double probability = 0;  // of all candidates together
    bool is_rare = false;
  };

  void ReadTokens(Request& request, Judgement& judgement);
  bool IsMixture(std::span<const Candidate> candidates, const Categories& categories);
  bool IsGarbled(size_t begin, size_t end) const;
  bool HasFewTrajectories(const std::vector<int64_t>& tokens, size_t begin, size_t end);
  bool IsPeriodic(size_t begin, size_t end);

  const Limits limits_;
  const ModelTable& models_;
  const Categories* categories_ = nullptr;  // of the request under examination
  // Memory that is used again.
  std::vector<Token> tokens_;
  std::vector<Categories::Category> mixture_;
  std::vector<size_t> places_;
  std::vector<double> centred_;
  std::vector<double> correlation_;
};

}  // namespace msprobe::analysis::response_anomaly
