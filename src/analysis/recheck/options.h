// What is asked of a recheck.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::recheck {

// What steps of calls on 16-bit tensors may be rounded to.
enum class Accumulation : uint8_t {
  kAny,      // float32 or the type itself: both are found in correct implementations
  kFloat32,  // float32, as the matrix units of accelerators do
};

// What products of float32 tensors (matrices, convolutions, attention) may round their factors to.
enum class ProductFactors : uint8_t {
  kAny,      // float32, or TF32 or HF32, which matrix units of accelerators are allowed by default
  kFloat32,  // float32
};

// What an implementation may compute with.
struct Precision {
  Accumulation accumulation = Accumulation::kAny;
  ProductFactors factors = ProductFactors::kAny;
};

struct Options {
  std::filesystem::path dump;
  std::filesystem::path bench;   // empty: one dump alone
  std::filesystem::path output;  // empty: no table is written
  std::vector<std::string> formats = {"csv"};
  std::vector<std::string> calls;  // only calls whose names contain one of these; empty: all
  bool forward = true;
  bool backward = true;
  Precision precision;
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::recheck
