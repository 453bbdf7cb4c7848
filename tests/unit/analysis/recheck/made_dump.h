// Dumps of several ranks or steps, made on the spot.
#pragma once

#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/recheck/recheck.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::recheck {

using test_support::TemporaryFolder;

inline std::string Integer(int64_t value) {
  return R"({"type": "int", "value": )" + std::to_string(value) + "}";
}

// A leaf of float32 as one of a narrower type, whose numbers its own are.
inline std::string As(DType dtype, std::string leaf) {
  const std::string wide = "torch.float32";
  return leaf.replace(leaf.find(wide), wide.size(),
                      fmt::format("torch.{}", GetDTypeInfo(dtype).name));
}

// The dumps of all ranks of a step, or of all steps of one rank, call by call.
class Ranks {
 public:
  explicit Ranks(size_t count, bool as_steps = false) : calls_(count), as_steps_(as_steps) {}

  std::string Leaf(size_t rank, const std::string& file, const std::vector<float>& values) const {
    return Leaf(rank, file, values, {static_cast<int64_t>(values.size())});
  }

  // Of float or double.
  template <typename Element = float>
  std::string Leaf(size_t rank, const std::string& file, const std::vector<Element>& values,
                   const Shape& shape) const {
    TensorView view;
    view.dtype = std::is_same_v<Element, double> ? DType::kFloat64 : DType::kFloat32;
    view.shape = shape;
    view.strides = ContiguousStrides(shape);
    view.data = reinterpret_cast<const std::byte*>(values.data());
    const std::filesystem::path data = Folder(rank) / "dump_tensor_data";
    std::filesystem::create_directories(data);
    EXPECT_TRUE(WriteNpyFile(data / file, view).ok());
    return fmt::format(
        R"({{"type": "torch.Tensor", "dtype": "torch.{}", "shape": [{}], "data_name": "{}"}})",
        GetDTypeInfo(view.dtype).name, fmt::join(shape, ", "), file);
  }

  void Add(size_t rank, const std::string& name, const std::string& arguments,
           const std::string& keywords, const std::string& output) {
    std::string& text = calls_[rank];
    text += (text.empty() ? "" : ", ") + ("\"" + name + "\": {\"input_args\": [" + arguments) +
            "], \"input_kwargs\": {" + keywords + "}, \"output\": [" + output + "]}";
  }

  // The gradients that come into a call, and those that go out.
  void AddBackward(size_t rank, const std::string& name, const std::string& incoming,
                   const std::string& outgoing) {
    calls_[rank] +=
        ", \"" + name + "\": {\"input\": [" + incoming + "], \"output\": [" + outgoing + "]}";
  }

  Answer Check(const Precision& precision = {}) const {
    for (size_t rank = 0; rank < calls_.size(); ++rank) {
      folder_.Write(Place(rank) + "/dump.json",
                    "{\"task\": \"tensor\", \"data\": {" + calls_[rank] + "}}");
    }
    Options options;
    options.dump = folder_.path();
    options.threads = 1;
    options.quiet = true;
    options.precision = precision;
    Result<Answer> answer = Run(options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *std::move(answer) : Answer();
  }

  std::filesystem::path Folder(size_t rank) const { return folder_ / Place(rank); }

 private:
  std::string Place(size_t rank) const {
    return as_steps_ ? "step" + std::to_string(rank) + "/rank"
                     : "step0/rank" + std::to_string(rank);
  }

  TemporaryFolder folder_;
  std::vector<std::string> calls_;
  bool as_steps_ = false;
};

}  // namespace msprobe::analysis::recheck
