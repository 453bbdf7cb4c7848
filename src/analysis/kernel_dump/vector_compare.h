// Two folders of kernel dumps operator by operator, as the vendor's comparison tool holds them
// against each other: a table with ten measures per tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/kernel_dump/fusion_rules.h"
#include "src/analysis/kernel_dump/vector_measures.h"

namespace msprobe::analysis::kernel_dump {

struct VectorOptions {
  std::filesystem::path mine;    // kernel dumps, read to the bottom, or one of them
  std::filesystem::path golden;  // the same, or arrays called {op_name}.{output}.{time}.npy
  std::filesystem::path output;  // folder, made when missing
  FusionRuleFiles fusion_rules = {};
  std::vector<Measure> measures = {};  // columns, in this order; none: all
  bool thread_by_thread = false;       // of FFTS+: threads are not put together
  bool overflow = false;  // a column that tells float16 tensors at the end of their range
  size_t threads = 0;     // 0: all cores
};

// A row: a pair of tensors, or an operator of which nothing could be compared.
struct VectorRow {
  struct Side {
    std::string op_name;              // "*": this side has no such operator
    std::string dtype;                // empty: not known
    std::optional<uint64_t> address;  // in the memory of the device
  };
  size_t index = 0;  // of the operator, in the order of time; those of the golden side alone follow
  std::string op_type;
  Side mine;
  Side golden;
  std::string tensor;  // "op:input:0"; empty: the operator as a whole
  Shape shape;         // of the tensor under test, on the device
  std::optional<VectorMeasures> measures;
  std::optional<bool> overflow;  // nothing for what is no float16
  std::vector<std::string> reasons;
  Status status;  // why there are no measures
};

struct VectorFindings {
  std::vector<VectorRow> rows;
  std::filesystem::path table;  // <output>/result_<time>.csv
  size_t operators = 0;         // on both sides

  size_t compared() const;
  size_t failed() const;
  const VectorRow* FirstBad() const;  // null: all are within IsGood
};

// Operators of one name pair in the order in which they ran, their tensors by direction and number;
// tensors of fused operators with the output that they are in the model before.
// Tensors are compared as the framework knows them, without padding. kNotFound when a side has
// nothing to compare.
Result<VectorFindings> CompareVectors(const VectorOptions& options);

}  // namespace msprobe::analysis::kernel_dump
