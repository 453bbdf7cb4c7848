// Which tensors of two dumps of torchair belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/line26/torchair_files.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {

// Where one tensor of a row lies.
struct TensorPlace {
  const kernel_dump::VectorOperator* op = nullptr;  // of GE
  std::filesystem::path array;                      // of FX
  bool is_output = false;
  size_t number = 0;

  // As the report tells it.
  std::string Text() const;
  // As the framework knows it. kNotFound when the file has no such tensor.
  Result<tensor::TensorBuffer> Read() const;
};

struct TorchairRow {
  int64_t token = 0;
  TensorPlace golden;
  TensorPlace mine;
};

// The rows of one rank, in the order of time, by the rules that torchair_compare.h tells. Both
// ranks must outlive them. `without_partner` counts the kernels under test that have no row.
std::vector<TorchairRow> PairTorchairRank(const TorchairSide& mine, const TorchairRank& mine_rank,
                                          const TorchairSide& golden,
                                          const TorchairRank& golden_rank,
                                          uint64_t& without_partner);

}  // namespace msprobe::analysis::compare
