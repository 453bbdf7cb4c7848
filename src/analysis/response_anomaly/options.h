// What is asked of a search for anomalous responses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

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
  // What the autocorrelation must exceed at two or three times its lag. 0 is what the Python tool
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

}  // namespace msprobe::analysis::response_anomaly
