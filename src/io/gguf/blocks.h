// The blocks that GGUF files keep weights in: 32 or 256 codes with their scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

#include "src/io/coded/coded_tensor.h"

namespace msprobe::io {

// A type of a GGUF file by its number.
struct GgufType {
  uint32_t number;
  std::string_view name;  // as formats spell it
  int64_t block_elements;
  int64_t block_bytes;
  std::optional<DType> dtype;  // of a type without blocks
  bool is_read;                // its values are known here
};

// nullptr for an unknown number.
const GgufType* FindGgufType(uint32_t number);

// `bytes` holds the blocks of all rows; the last size of the shape is a multiple of a block.
Result<std::shared_ptr<const CodedTensor>> MakeGgufBlocks(const GgufType& type, Shape shape,
                                                          std::span<const std::byte> bytes);

}  // namespace msprobe::io
