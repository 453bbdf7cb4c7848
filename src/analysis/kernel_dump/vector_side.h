// One side of a comparison of kernel dumps: operators, and their tensors one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/base/files.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::kernel_dump {

// FFTS+ runs one operator as several threads, each with a dump file of its own: what part of a
// tensor each of them has.

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

// An operator that ran once: a kernel dump, or arrays of its outputs.
struct VectorOperator {
  std::string name;     // as in the name of the file
  std::string op_type;  // empty where there are only arrays
  uint64_t time = 0;
  std::filesystem::path dump;                      // empty: arrays
  std::vector<std::filesystem::path> further;      // of FFTS+: the dumps of its other threads
  std::map<size_t, std::filesystem::path> arrays;  // by the number of the output
};

// In the order of time. kNotFound when there is neither a dump nor an array with such a name.
// Threads of FFTS+ whose files tell how they share their tensors are one operator where
// `join_threads` says so; others are an operator each.
Result<std::vector<VectorOperator>> FindVectorOperators(const std::filesystem::path& path,
                                                        bool join_threads = true);

// The files of an operator, open. Its tensors borrow from it.
class OpenOperator {
 public:
  static Result<OpenOperator> Open(const VectorOperator& op);

  // How many inputs or outputs it has; of arrays, up to the last one.
  size_t count(bool outputs) const;
  bool has(bool outputs, size_t number) const;
  // The existing ones, from `first` on: names of arrays may have any numbers.
  std::vector<size_t> NumbersFrom(bool outputs, size_t first) const;
  bool is_dump() const { return is_dump_; }
  // The tensor of a kernel dump; null of arrays.
  const io::kernel_dump::DumpedTensor* dumped(bool outputs, size_t number) const;

  // Whether it is put together out of the parts that several threads have.
  bool is_joined(bool outputs, size_t number) const;

  // In the layout and shape that the framework knows, where the file tells them; of an
  // array the array.
  Result<tensor::TensorBuffer> AsFrameworkKnows(bool outputs, size_t number) const;
  // Whether the bytes that were read are those of the file: it may have been cut meanwhile.
  Status Check() const;

 private:
  struct Thread {
    base::FileBytes file;
    io::kernel_dump::KernelDump dump;
  };
  Status OpenThread(const std::filesystem::path& path);

  bool is_dump_ = false;
  std::vector<Thread> threads_;  // of a dump: one, or those of FFTS+
  std::optional<ThreadSlices> slices_;
  std::map<size_t, TensorFile> arrays_;
};

}  // namespace msprobe::analysis::kernel_dump
