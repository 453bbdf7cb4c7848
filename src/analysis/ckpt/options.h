// What is asked of a comparison of two checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// When two elements count as agreeing although they are not equal: |a - b| <= atol + rtol * |b|,
// the second checkpoint being b.
struct Tolerance {
  double relative = 0;
  double absolute = 0;

  bool given() const { return relative > 0 || absolute > 0; }
};

struct Options {
  std::filesystem::path path_a;  // checkpoints of any kind
  std::filesystem::path path_b;
  std::filesystem::path output = "ckpt_similarity.json";
  bool strict_json = false;  // null instead of the bare words NaN and Infinity
  // Everything that is known of each parameter, in files beside the output:
  // <stem>_details.<format>.
  bool write_json = false;
  bool write_xlsx = false;
  bool write_csv = false;
  bool write_html = false;               // for browsers
  std::filesystem::path unmatched_file;  // empty: none
  std::filesystem::path draft_file;      // a mapping made from equal elements; empty: none
  checkpoint::Options open;
  std::filesystem::path mapping_file;      // rules for names; empty: built-in ones only
  std::optional<int64_t> vocabulary;       // rows of embeddings to compare, without padding
  std::optional<int64_t> attention_heads;  // for checkpoints that do not record them
  std::optional<int64_t> query_groups;
  Tolerance tolerance;
  // Figures as the Python tool's float32 arithmetic gives them, see PairSettings.
  bool float32_figures = false;
  size_t threads = 0;  // 0: all cores
  bool quiet = false;  // no progress
};

}  // namespace msprobe::analysis::ckpt
