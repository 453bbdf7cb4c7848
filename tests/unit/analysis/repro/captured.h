// Calls of the folder recheck of `data`, whose wrong one is a GELU of shape [4, 8].
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "src/analysis/repro/captured_call.h"

namespace msprobe::analysis::repro::test_support {

inline CapturedCall CallOf(const std::string& data, const std::string& name,
                           const std::string& side = "bench") {
  const Result<recheck::DumpEntries> entries =
      recheck::DumpEntries::Open(data + "/recheck/" + side + "/step0/rank/dump.json");
  EXPECT_TRUE(entries.ok()) << entries.status().message();
  Result<CapturedCall> call = ReadCall(*entries, name);
  EXPECT_TRUE(call.ok()) << call.status().message();
  return *std::move(call);
}

// A float32 tensor with one element changed.
inline void Spoil(CapturedCall& call, const std::string& data_name, size_t element, float value) {
  const TensorView view = call.tensors.at(data_name)->view();
  auto spoiled = std::make_shared<tensor::TensorBuffer>(view.dtype, view.shape);
  tensor::CopyElements(view, 0, view.element_count(), spoiled->mutable_bytes().data());
  std::memcpy(spoiled->mutable_bytes().data() + element * sizeof value, &value, sizeof value);
  call.tensors[data_name] = std::move(spoiled);
}

inline Shape ShapeOf(const CapturedCall& call, const std::string& data_name) {
  return call.tensors.at(data_name)->view().shape;
}

}  // namespace msprobe::analysis::repro::test_support
