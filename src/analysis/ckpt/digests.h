// Comparisons with a digest on either side (docs/design/digest.md): whether values are equal, and
// in which rows they are not.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"
#include "src/base/threads.h"
#include "src/report/document.h"

namespace msprobe::analysis::ckpt {

bool IsOfDigests(const Options& options);

// Pairs, names without partner and facts of both sides; no file is written.
Result<Comparison> CompareDigests(const Options& options, base::ThreadPool& pool);

// What `msprobe digest` is asked.
struct DigestOptions {
  std::filesystem::path path;  // a checkpoint of any kind
  std::filesystem::path output = "digest.json";
  std::string dtype;  // the declared cast; empty: none
  std::optional<int64_t> vocabulary;
  std::optional<int64_t> attention_heads;
  std::optional<int64_t> query_groups;
  checkpoint::Options open;
  size_t threads = 0;
  bool quiet = false;
};

// Digests a checkpoint, writes the file, and says so.
Result<report::Document> WriteDigest(const DigestOptions& options);

}  // namespace msprobe::analysis::ckpt
