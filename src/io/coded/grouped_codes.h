// Codes of 2 to 8 bits with a scale for each group: value = (number of the code - zero point) *
// scale. One description covers the quantised formats of Hugging Face's world: fp8 and int8 by
// tensor, channel or block, packed int4 (compressed-tensors, GPTQ, AWQ), nvfp4, mxfp4, mxfp8, nf4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/io/coded/coded_tensor.h"

namespace msprobe::io {

// What a code stands for before it is scaled.
enum class CodeKind : uint8_t {
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat8E4M3Fnuz,
  kFloat4E2M1,
  kSigned,    // two's complement
  kUnsigned,  // less a zero point
  kTable,     // entries of a table that the file brings along (nf4, fp4)
};

// Where the code of row r, column c is.
enum class CodePacking : uint8_t {
  kBytes,           // one byte each, row by row
  kLowNibbleFirst,  // two in a byte, row by row
  kHighNibbleFirst,
  kWordsByRow,     // int32 words, row by row: the lowest bits are the first code
  kWordsByColumn,  // GPTQ: words go down the columns, [columns * bits / 32, rows]
  kInterleaved,    // AWQ: words hold eight rows in the order 0 2 4 6 1 3 5 7, [columns, rows / 8]
  kWordsDown,      // words hold rows below each other: [rows * bits / 32, columns]
  kWordsAcross,    // GPTQ's zero points: [columns, rows * bits / 32]
};

// Numbers that lie beside the codes.
struct SideNumbers {
  std::span<const std::byte> bytes;
  DType dtype = DType::kFloat32;
  bool is_exponent = false;  // UE8M0: a byte e stands for 2^(e - 127)
  int64_t row_stride = 0;    // in elements, from one group of rows to the next
  int64_t column_stride = 0;
};

struct CodeLayout {
  Shape shape;          // of the values
  int64_t columns = 1;  // of a row of codes: the last size, or all elements where groups cross rows
  CodeKind kind = CodeKind::kSigned;
  unsigned bits = 8;
  CodePacking packing = CodePacking::kBytes;
  std::span<const std::byte> codes;
  std::vector<float> table;  // of kTable

  SideNumbers scales;  // empty: 1
  int64_t group_rows = 1;
  int64_t group_columns = 1;
  // Rows of one matrix where several are stacked: groups of rows begin anew with each.
  int64_t matrix_rows = 0;
  int64_t matrix_scale_rows = 0;
  double factor = 1;  // of all scales
  // The group of each column where the columns were quantised in another order.
  std::shared_ptr<const std::vector<int32_t>> column_groups;

  // Zero points of kUnsigned: a constant, or codes with as many bits, by group of rows and of
  // columns.
  double zero = 0;
  unsigned flipped_bits = 0;  // of codes, before they are looked at: 128 for signed bytes
  std::optional<CodePacking> zero_packing;
  std::span<const std::byte> zero_codes;
  int64_t zero_rows = 0;     // groups of rows
  int64_t zero_columns = 0;  // groups
  double zero_added = 0;     // GPTQ stores one less
  bool zero_is_signed = false;

  // Scales that are codes themselves: entries of a table times a scale of their own, plus an
  // offset.
  std::vector<float> nested_table;
  SideNumbers nested_scales;
  int64_t nested_group = 1;
  double nested_offset = 0;

  bool power_of_two_scales = false;  // its end codes may be off by two gaps
};

// Fails where arrays are shorter than the layout needs, or an index leads out of them: everything
// that Decode reads is checked here, once.
Result<std::shared_ptr<io::CodedTensor>> MakeGroupedCodes(CodeLayout layout, std::string format);

// The element and the grouping in words: "int4 group 128 asymmetric".
std::string GroupText(int64_t group_rows, int64_t group_columns, int64_t rows, int64_t columns);

}  // namespace msprobe::io
