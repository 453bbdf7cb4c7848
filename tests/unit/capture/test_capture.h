// A capture as hooks use it, through the C interface, into a folder of the test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "msprobe/capture.h"

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {

inline msprobe_text Text(std::string_view text) { return {text.data(), text.size()}; }

inline msprobe_tensor FloatTensor(const float* data, const std::vector<int64_t>& shape) {
  msprobe_tensor tensor{};
  tensor.type = Text("torch.Tensor");
  tensor.dtype = Text("torch.float32");
  tensor.shape = shape.data();
  tensor.dimensions = static_cast<int32_t>(shape.size());
  tensor.data = data;
  tensor.dtype_code = MSPROBE_FLOAT32;
  tensor.requires_grad = 0;
  return tensor;
}

// Opened with dump_path and the members given, such as R"("task": "tensor")".
class TestCapture {
 public:
  explicit TestCapture(const std::filesystem::path& dump_path, std::string_view members = "",
                       std::string_view framework = "pytorch") {
    const std::string overrides = fmt::format(R"({{"dump_path": "{}"{}{}}})", dump_path.string(),
                                              members.empty() ? "" : ", ", members);
    EXPECT_EQ(msprobe_capture_open(Text(""), Text(overrides), Text(framework), &capture_),
              MSPROBE_OK)
        << msprobe_last_error();
  }
  TestCapture(const TestCapture&) = delete;
  TestCapture& operator=(const TestCapture&) = delete;
  ~TestCapture() { Close(); }

  void Close() { msprobe_capture_close(std::exchange(capture_, nullptr)); }
  msprobe_capture* get() const { return capture_; }

  int Start(int64_t rank = -1) {
    int outcome = -1;
    EXPECT_EQ(msprobe_capture_start(capture_, rank, &outcome), MSPROBE_OK) << msprobe_last_error();
    return outcome;
  }
  void Step() { EXPECT_EQ(msprobe_capture_step(capture_), MSPROBE_OK) << msprobe_last_error(); }
  msprobe_entry* Begin(std::string_view name) const {
    return msprobe_entry_begin(capture_, Text(name));
  }
  msprobe_capture_totals Totals() const {
    msprobe_capture_totals totals;
    msprobe_capture_get_totals(capture_, &totals);
    return totals;
  }

  // An entry with the tensor as its one output.
  int Record(std::string_view name, const msprobe_tensor& tensor) const {
    msprobe_entry* const entry = Begin(name);
    msprobe_put_member(entry, Text("output"), Text("output"));
    msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
    msprobe_put_tensor(entry, &tensor);
    msprobe_close(entry);
    return msprobe_entry_commit(entry);
  }

 private:
  msprobe_capture* capture_ = nullptr;
};

inline void Commit(msprobe_entry* entry) {
  EXPECT_EQ(msprobe_entry_commit(entry), MSPROBE_OK) << msprobe_last_error();
}

// What stands below "data" of a dump.json.
inline std::string DataOf(const std::filesystem::path& dump_json) {
  const std::string text = test_support::Slurp(dump_json);
  constexpr std::string_view kBegin = " \"data\": ";
  const size_t begin = text.find(kBegin);
  if (begin == std::string::npos) {
    return "no data in " + text;
  }
  return text.substr(begin + kBegin.size(), text.size() - begin - kBegin.size() - 2);
}

}  // namespace msprobe::capture
