// A tensor that is stored as codes and stands for other numbers: quantised weights, blocks of GGUF,
// a base weight with its adapter. Its values are never built as a whole: a run of elements is
// decoded where it is compared, shown or summed, each with the bound that rounding to this format
// has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/kernels/codes.h"

namespace msprobe::io {

class CodedTensor {
 public:
  // The same bytes read as somebody would who makes a known mistake: `cause` names it.
  struct Reading {
    std::string cause;
    std::shared_ptr<const CodedTensor> tensor;
  };

  virtual ~CodedTensor() = default;
  CodedTensor(const CodedTensor&) = default;
  CodedTensor& operator=(const CodedTensor&) = default;

  const Shape& shape() const { return shape_; }
  // "fp8_e4m3 block 128x128", "q4_k", "bf16": see docs/formats/quantised.md.
  const std::string& format() const { return format_; }

  // Elements [first, first + count) in row-major order. `bounds`, which may be null, takes how far
  // a number that was rounded to this format may lie from each value: derived from the codes and
  // their scales, not a tolerance. `partner` is the dtype of what they are compared with, for
  // values that are computed and have no format of their own. Thread-safe.
  void Decode(int64_t first, size_t count, DType partner, float* values, float* bounds) const {
    DecodeFrom(nullptr, first, count, partner, values, bounds);
  }

  // Bytes of codes that were read from their file.
  struct ReadCodes {
    std::vector<std::byte> scratch;
    std::span<const std::byte> bytes;  // empty: nothing was read
    size_t first = 0;                  // byte of all codes that they begin with
  };
  // Reads the codes of elements at once that are then decoded in runs. Reads nothing where codes do
  // not lie in the order of the elements.
  virtual void Read(int64_t first, size_t count, ReadCodes& read) const;
  // Decode of elements among those that were read.
  virtual void DecodeFrom(const ReadCodes* read, int64_t first, size_t count, DType partner,
                          float* values, float* bounds) const = 0;

  // Elements among those that were read as a description that kernels decode themselves. False
  // where there is none.
  virtual bool DescribeRun(const ReadCodes& /*read*/, int64_t /*first*/, size_t /*count*/,
                           kernels::CodedRun& /*run*/) const {
    return false;
  }

  // For the search for causes.
  virtual std::vector<Reading> OtherReadings() const { return {}; }
  // Runs of one scale along a row: what a wrong scale shows by. 0: not known.
  virtual int64_t group_columns() const { return 0; }
  // Scales of one all over, or a level of them that is one.
  virtual bool is_unscaled() const { return false; }
  // The magnitudes of its scales, of all levels together; nullopt where it has none.
  struct ScaleRange {
    float least = 0;
    float most = 0;
  };
  virtual std::optional<ScaleRange> Scales() const { return std::nullopt; }
  // The bytes of codes that hold it, for limits and for progress.
  virtual uint64_t stored_bytes() const = 0;

  // What its description contradicts, found when it was opened: a cause, and a sentence for people.
  const std::string& contradiction() const { return contradiction_; }
  const std::string& contradiction_text() const { return contradiction_text_; }
  void Contradict(std::string cause, std::string text) {
    contradiction_ = std::move(cause);
    contradiction_text_ = std::move(text);
  }

 protected:
  CodedTensor(Shape shape, std::string format)
      : shape_(std::move(shape)), format_(std::move(format)) {}
  static void Widen(float scale, std::optional<ScaleRange>& range) {
    range = range ? ScaleRange{std::min(range->least, scale), std::max(range->most, scale)}
                  : ScaleRange{scale, scale};
  }
  void set_format(std::string format) { format_ = std::move(format); }

 private:
  Shape shape_;
  std::string format_;
  std::string contradiction_;
  std::string contradiction_text_;
};

// The short name of a dtype in formats: "bf16", "fp8_e4m3"; others as everywhere ("int64").
std::string_view ShortDTypeName(DType dtype);

}  // namespace msprobe::io
