#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/accuracy/check/arguments.h"

namespace msprobe::analysis::accuracy {
namespace {

using ::testing::HasSubstr;
using Kind = OutputValue::Kind;

// The payload of an answer whose four values are `values`, and none where there are fewer.
std::string AnswerOf(const std::vector<FrameWriter>& values) {
  FrameWriter writer(FrameKind::kAnswer);
  writer.Byte(0);
  writer.Text("a message");
  for (const FrameWriter& value : values) {
    writer.Append(value);
  }
  for (size_t i = values.size(); i < 4; ++i) {
    writer.Tag(frame_tag::kNone);
  }
  return writer.Finish().substr(kFrameHeaderBytes);
}

FrameWriter TensorValue(std::string_view dtype, const Shape& shape, uint64_t offset) {
  FrameWriter value;
  value.Tensor(dtype, shape, offset, false);
  return value;
}

TEST(Frames, ValuesArriveAsTheyWere) {
  FrameWriter list;
  list.Tag(frame_tag::kTuple);
  list.Count(4);
  list.Tag(frame_tag::kInteger);
  list.Integer(-3);
  list.Tag(frame_tag::kFloat);
  list.Float(0.5);
  list.Tag(frame_tag::kText);
  list.Text("word");
  list.Tag(frame_tag::kTrue);
  const std::vector<std::byte> shared(64);
  const Result<WorkerAnswer> answer =
      ReadAnswer(AnswerOf({list, TensorValue("float32", {2, 3}, 16)}), shared);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->message, "a message");
  ASSERT_EQ(answer->bench.items.size(), 4U);
  EXPECT_EQ(answer->bench.items[0].text, "-3");
  EXPECT_EQ(answer->bench.items[1].text, "0.5");
  EXPECT_EQ(answer->bench.items[2].text, "word");
  EXPECT_EQ(answer->bench.items[3].type, "bool");
  EXPECT_EQ(answer->device.tensor.shape, (Shape{2, 3}));
  EXPECT_EQ(answer->device.tensor.data, shared.data() + 16);
  EXPECT_FALSE(answer->has_gradients);
}

TEST(Frames, TensorsLieInsideOfTheSharedMemory) {
  const std::vector<std::byte> shared(64);
  const auto reads = [&](std::string_view dtype, const Shape& shape, uint64_t offset) {
    return ReadAnswer(AnswerOf({TensorValue(dtype, shape, offset)}), shared).ok();
  };
  EXPECT_TRUE(reads("float32", {16}, 0));
  EXPECT_TRUE(reads("float32", {0, 16}, 64));
  EXPECT_FALSE(reads("float32", {17}, 0));
  EXPECT_FALSE(reads("float32", {1}, 61));
  EXPECT_FALSE(reads("float32", {1}, UINT64_MAX));
  EXPECT_FALSE(reads("float32", {-1}, 0));
  EXPECT_FALSE(reads("float32", {INT64_MAX, INT64_MAX}, 0));
  EXPECT_FALSE(reads("float32", {0, INT64_MAX, INT64_MAX}, 0));
  EXPECT_FALSE(reads("strange", {1}, 0));
}

TEST(Frames, EveryCutOfAnAnswerIsAnError) {
  FrameWriter dict;
  dict.Tag(frame_tag::kDict);
  dict.Count(1);
  dict.Text("key");
  dict.Append(TensorValue("int8", {4}, 0));
  const std::vector<std::byte> shared(64);
  const std::string whole = AnswerOf({dict, dict});
  EXPECT_TRUE(ReadAnswer(whole, shared).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadAnswer(std::string_view(whole).substr(0, size), shared).ok()) << size;
  }
  EXPECT_FALSE(ReadAnswer(whole + "x", shared).ok());
}

TEST(Frames, DoesNotFollowLists) {
  FrameWriter deep;
  for (int i = 0; i < 100'000; ++i) {
    deep.Tag(frame_tag::kList);
    deep.Count(1);
  }
  const Result<WorkerAnswer> answer = ReadAnswer(AnswerOf({deep}), {});
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.status().message(), HasSubstr("too deeply"));
  FrameWriter many;
  many.Tag(frame_tag::kList);
  many.Count(UINT32_MAX);
  EXPECT_FALSE(ReadAnswer(AnswerOf({many}), {}).ok());
}

TEST(Frames, RefusesWhatIsNoHeader) {
  FrameWriter writer(FrameKind::kAnswer);
  writer.Byte(0);
  const std::string frame = writer.Finish();
  const auto header = [](std::string bytes) {
    return ReadFrameHeader(std::span<const char>(bytes.data(), kFrameHeaderBytes));
  };
  ASSERT_TRUE(header(frame).ok());
  EXPECT_EQ(header(frame)->payload_bytes, 1U);
  std::string other = frame;
  other[0] = 'x';
  EXPECT_FALSE(header(other).ok());
  other = frame;
  other[15] = '\x7f';
  EXPECT_FALSE(header(other).ok());
  other = frame;
  other[4] = 9;
  EXPECT_FALSE(header(other).ok());
}

}  // namespace
}  // namespace msprobe::analysis::accuracy
