// Quantised tensors as the numbers they stand for.
#pragma once

#include <string>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/tensor/tensor_buffer.h"

namespace msprobe::io {

// "scale 0.1, zero point 3", "32 scales from 0.01 to 0.2 along axis 0, zero points 0".
std::string QuantizationText(const Quantization& quantization);

// The float32 values of a quantised tensor, row-major, as PyTorch's dequantize() makes them:
// (integer - zero point) * scale, each step rounded to float32. Fails for more than `limit_bytes`
// of them.
Result<tensor::TensorBuffer> Dequantize(const NamedTensor& tensor, size_t limit_bytes);

}  // namespace msprobe::io
