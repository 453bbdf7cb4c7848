// Rank files as Megatron's torch.save writes them, made by hand so that they can be sharded, named
// and broken as a test wants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "msprobe/tensor_view.h"

#include "tests/unit/io/test_bytes.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::checkpoint::test_support {

struct TestTensor {
  Shape shape;
  std::vector<float> values;  // row-major
  bool is_parameter = false;  // an nn.Parameter that requires grad
  bool lacks_bytes = false;   // its storage declares more than there is
  bool wrong_checksum = false;
  bool expanded = false;  // strides 0: one value stands for all of the shape
};

// None, a number, a switch or a text.
using TestArgument = std::variant<std::monostate, int, bool, std::string, int64_t>;

class RankFileMaker {
 public:
  RankFileMaker& Argument(std::string_view name, TestArgument value) {
    arguments_ += Text(name);
    if (const int* number = std::get_if<int>(&value)) {
      arguments_ += Number(*number);
    } else if (const int64_t* large = std::get_if<int64_t>(&value)) {
      arguments_ += "\x8a\x08";
      io::test_support::PutLittle(arguments_, static_cast<uint64_t>(*large));
    } else if (const bool* flag = std::get_if<bool>(&value)) {
      arguments_ += *flag ? "\x88" : "\x89";
    } else if (const std::string* text = std::get_if<std::string>(&value)) {
      arguments_ += Text(*text);
    } else {
      arguments_ += "N";
    }
    return *this;
  }

  // In the dict `key` of the file; calls for one key come one after the other.
  RankFileMaker& Tensor(std::string_view key, std::string_view name, const TestTensor& tensor) {
    if (dicts_.empty() || dicts_.back().first != key) {
      dicts_.emplace_back(key, "");
    }
    dicts_.back().second += Text(name) + TensorValue(tensor);
    return *this;
  }

  std::string Bytes() const {
    std::string pickle = "\x80\x02}(";
    if (!arguments_.empty()) {
      pickle += Text("args") + "cargparse\nNamespace\n)\x81}(" + arguments_ + "ub";
    }
    for (const auto& [key, items] : dicts_) {
      pickle += Text(key) + "}(" + items + "u";
    }
    std::vector<io::test_support::TestMember> members = {
        {.name = "archive/data.pkl", .content = pickle + "u."}};
    members.insert(members.end(), storages_.begin(), storages_.end());
    return io::test_support::MakeZip(members);
  }

 private:
  static std::string Text(std::string_view text) {
    std::string out = "X";
    io::test_support::PutLittle(out, static_cast<uint32_t>(text.size()));
    return out += text;
  }
  static std::string Number(int64_t value) {
    std::string out = "J";
    io::test_support::PutLittle(out, static_cast<uint32_t>(value));
    return out;
  }
  static std::string Numbers(const Shape& values) {
    std::string out = "(";
    for (const int64_t value : values) {
      out += Number(value);
    }
    return out + "t";
  }

  std::string TensorValue(const TestTensor& tensor) {
    const std::string key = std::to_string(storages_.size());
    std::string content;
    for (const float value : tensor.values) {
      io::test_support::PutLittle(content, std::bit_cast<uint32_t>(value));
    }
    storages_.push_back(
        {.name = "archive/data/" + key, .content = content, .wrong_crc = tensor.wrong_checksum});
    const auto declared =
        static_cast<int64_t>(tensor.values.size() + (tensor.lacks_bytes ? 1000 : 0));
    std::string value =
        "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + "ctorch\nFloatStorage\n" +
        Text(key) + Text("cpu") + Number(declared) + "tQ" + Number(0) + Numbers(tensor.shape) +
        Numbers(tensor.expanded ? Shape(tensor.shape.size(), 0) : ContiguousStrides(tensor.shape)) +
        "\x89"
        "ccollections\nOrderedDict\n)RtR";
    if (tensor.is_parameter) {
      value = "ctorch._utils\n_rebuild_parameter\n(" + value +
              "\x88"
              "ccollections\nOrderedDict\n)RtR";
    }
    return value;
  }

  std::string arguments_;
  std::vector<std::pair<std::string, std::string>> dicts_;
  std::vector<io::test_support::TestMember> storages_;
};

// A tensor of `shape` with first, first + 1, first + 2, ...
inline TestTensor Counting(Shape shape, float first = 0) {
  TestTensor tensor{.shape = std::move(shape), .values = {}};
  tensor.values.resize(static_cast<size_t>(ElementCount(tensor.shape)));
  std::iota(tensor.values.begin(), tensor.values.end(), first);
  return tensor;
}

// Places a rank file; `rank` is a folder such as "mp_rank_00_001".
inline void WriteRank(const msprobe::test_support::TemporaryFolder& folder, const std::string& rank,
                      const RankFileMaker& file) {
  folder.Write(std::filesystem::path(rank) / "model_optim_rng.pt", file.Bytes());
}

}  // namespace msprobe::checkpoint::test_support
