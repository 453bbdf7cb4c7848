// The tensors of tests/data/accuracy: members of one .npz.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::accuracy::testing_support {

inline dump::EntryTree ReadJson(const std::filesystem::path& path) {
  const Result<std::string> text = base::ReadTextFile(path, uint64_t{1} << 26U);
  EXPECT_TRUE(text.ok()) << text.status().message();
  Result<dump::EntryTree> tree = dump::ParseEntry(text.ok() ? *text : "null");
  EXPECT_TRUE(tree.ok()) << tree.status().message();
  return *std::move(tree);
}

inline std::string TextAt(const dump::EntryTree& tree, uint32_t object, std::string_view key) {
  const uint32_t place = tree.Find(object, key);
  return place == dump::EntryTree::kNone ? std::string() : std::string(tree[place].text);
}

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::filesystem::path& path) : file_(Open(path)) {}

  // "000.fwd.bench.npy"; "*.bf16.npy" holds the bits of bfloat16.
  TensorView Get(std::string_view name) const {
    std::string stem(name);
    stem.resize(stem.size() - std::string_view(".npy").size());
    for (const NamedTensor& tensor : file_.tensors()) {
      if (tensor.name() == stem || tensor.name() == name) {
        EXPECT_TRUE(tensor.status.ok()) << tensor.status.message();
        TensorView view = tensor.view;
        if (name.ends_with(".bf16.npy")) {
          view.dtype = DType::kBFloat16;
        }
        return view;
      }
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

 private:
  static TensorFile Open(const std::filesystem::path& path) {
    Result<TensorFile> file = TensorFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return *std::move(file);
  }

  TensorFile file_;
};

}  // namespace msprobe::analysis::accuracy::testing_support
