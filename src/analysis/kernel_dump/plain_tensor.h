// A tensor of a kernel dump as the framework knows it.
#pragma once

#include <cstdint>

#include "msprobe/status.h"

#include "src/io/kernel_dump/dump_file.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::kernel_dump {

// Beyond this many bytes an unpacked tensor is refused.
inline constexpr uint64_t kMostPlainBytes = uint64_t{4} << 30U;

// Out of the blocks of the device and without padding, where the file tells how; else as it lies.
// kUnsupported for elements of a type that cannot be read.
Result<tensor::TensorBuffer> ReadPlainTensor(const io::kernel_dump::DumpedTensor& dumped);

}  // namespace msprobe::analysis::kernel_dump
