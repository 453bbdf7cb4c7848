// Writes the tensors of dumps as files of their own.
#pragma once

#include <filesystem>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/kernel_dump/options.h"
#include "src/io/kernel_dump/layout.h"

namespace msprobe::analysis::kernel_dump {

// "npy", "pt", "bin"
std::string_view SuffixOf(ArrayFile kind);

// As it lies. Where NumPy has no such type: bfloat16 becomes float32; 8-bit floats float64, as the
// Python tool writes them.
Status WriteArray(const std::filesystem::path& path, ArrayFile kind, const TensorView& view);

// Of a device array in `layout`; `device` is plain. .npy and .bin are written piece by piece.
Status WriteConverted(const std::filesystem::path& path, ArrayFile kind, const TensorView& device,
                      const io::kernel_dump::Layout& layout);

}  // namespace msprobe::analysis::kernel_dump
