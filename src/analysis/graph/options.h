// Options of `graph`: one dump as a tree of modules and calls, or two that are compared.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "src/analysis/compare/options.h"

namespace msprobe::analysis::graph {

using compare::Edition;

// How the ranks of one side share the model; 1 everywhere: they do not.
struct Parallelism {
  uint64_t rank_count = 1;
  uint64_t tensor = 1;
  uint64_t pipeline = 1;
  uint64_t virtual_pipeline = 1;         // parts of the model on each rank of a pipeline
  std::optional<uint64_t> context;       // ranks that share a sequence; none: what the calls tell
  std::string order = "tp-cp-ep-dp-pp";  // which ranks are neighbours, innermost first
};

struct Options {
  std::filesystem::path npu_path;
  std::filesystem::path bench_path;  // empty: build only
  std::filesystem::path output = "./output";
  compare::MappingFlag layer_mapping;
  // The ranks of a side are parts of one model and are merged first; a comparison is fuzzy then,
  // and shapes do not count. Both or neither in a comparison.
  std::optional<Parallelism> npu_parallelism;
  std::optional<Parallelism> bench_parallelism;
  bool export_merged = false;  // write the merged dump instead of its graph
  bool overflow_check = false;
  bool fuzzy = false;
  // 8.1.1's file holds one line of each stack without it; that of the 26.x line all of them.
  bool complete_stacks = false;
  bool write_vis = true;        // <name>.vis, JSON as 8.1.1 writes it: a file per step and rank
  bool write_database = true;   // <name>.vis.db, SQLite as the 26.x line writes it: one file
  bool write_explorer = false;  // <name>.explorer.json for Model Explorer, a file as of .vis
  bool write_trace = false;     // <name>.trace.json for Perfetto, likewise
  bool write_page = false;      // <name>.html for browsers: one file
  size_t threads = 0;
  bool quiet = false;

  // Whether there is something to merge; both sides become merged dumps then.
  bool merges() const {
    return npu_parallelism && (npu_parallelism->rank_count > 1 ||
                               (bench_parallelism && bench_parallelism->rank_count > 1));
  }
};

}  // namespace msprobe::analysis::graph
