// FFTS+ runs one operator as several threads, each with a dump file of its own: what part of a
// tensor each of them has.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/io/kernel_dump/dump_file.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::kernel_dump {

// Operators of more threads, or with more inputs or outputs, stay apart.
inline constexpr size_t kMostThreads = 256;
inline constexpr size_t kMostSlicedTensors = 1024;

// The part of a tensor that one thread has.
struct TensorPart {
  Shape lower;  // where it begins
  Shape size;
};
struct TensorSlices {
  bool is_cut = false;            // else every thread has the whole tensor
  Shape whole;                    // of a tensor that is cut
  std::vector<TensorPart> parts;  // by thread
};
struct ThreadSlices {
  std::vector<TensorSlices> inputs;
  std::vector<TensorSlices> outputs;

  const TensorSlices& of(bool is_output, size_t number) const {
    return (is_output ? outputs : inputs)[number];
  }
};

// Out of the text that the first attribute of a file holds, JSON with the keys
//   slice_instance_num, inputCutList, outputCutList (a number that is not 0 per tensor that is
//   cut), input_tensor_slice, output_tensor_slice: [thread][tensor][axis]{"lower", "higher"}
// Nothing where a file has no such text, or where the parts do not make up a tensor: they are as
// large as the tensors in the files, each lies in the whole, none overlaps another, and together
// they fill it. Only tensors in plain layouts are put together, and none of bits, whose shape in
// the file counts bytes.
std::optional<ThreadSlices> FindThreadSlices(
    std::span<const io::kernel_dump::KernelDump* const> threads);

// One tensor out of the parts, in the order of the threads. kMismatch for parts of another size or
// of several dtypes.
Result<tensor::TensorBuffer> PutTogether(const TensorSlices& slices,
                                         std::span<const TensorView> parts);

}  // namespace msprobe::analysis::kernel_dump
