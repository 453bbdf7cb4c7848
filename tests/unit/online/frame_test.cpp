#include "src/online/frame.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/online/call_maker.h"

namespace msprobe::online {
namespace {

using test_support::CallOf;
using test_support::ValuesOf;

std::vector<std::byte> BytesOf(const Frame& frame) {
  const auto head = std::as_bytes(std::span(frame.head));
  std::vector<std::byte> bytes(head.begin(), head.end());
  for (const std::span<const std::byte> part : frame.data) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  EXPECT_EQ(bytes.size(), frame.size_bytes());
  return bytes;
}

struct Received {
  FrameHeader header;
  std::span<const std::byte> payload;
};
Received Split(const std::vector<std::byte>& bytes) {
  const auto header = ReadFrameHeader(std::span(bytes).first(kFrameHeaderBytes));
  EXPECT_TRUE(header.ok()) << header.status().message();
  const auto payload = std::span(bytes).subspan(kFrameHeaderBytes);
  EXPECT_TRUE(CheckPayload(*header, payload).ok());
  return {*header, payload};
}

std::vector<std::byte> CallBytes() {
  Call call = CallOf("Functional.linear.7", {1.5F, -2.0F, 3.25F}, 3, 12);
  call.tensors.push_back({"empty.pt", DType::kBFloat16, {0, 4}, {}});
  call.tensors.push_back({"scalar.pt", DType::kFloat32, {}, call.tensors[0].bytes.first(4)});
  return BytesOf(*CallFrame(77, 5, call));
}

TEST(OnlineFrame, ACallIsReadAsItWasSent) {
  const std::vector<std::byte> bytes = CallBytes();
  const Received received = Split(bytes);
  EXPECT_EQ(received.header.kind, FrameKind::kCall);
  EXPECT_EQ(received.header.session, 77U);
  EXPECT_EQ(received.header.sequence, 5U);
  const Result<Call> call = ReadCall(received.payload);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->rank, 3);
  EXPECT_EQ(call->step, 12);
  EXPECT_EQ(call->name, "Functional.linear.7");
  EXPECT_EQ(call->record, "{\"input_args\":[],\"input_kwargs\":{},\"output\":[]}");
  ASSERT_EQ(call->tensors.size(), 3U);
  EXPECT_EQ(ValuesOf(*call), (std::vector<float>{1.5F, -2.0F, 3.25F}));
  EXPECT_EQ(call->tensors[1].shape, (Shape{0, 4}));
  EXPECT_EQ(call->tensors[1].dtype, DType::kBFloat16);
  EXPECT_TRUE(call->tensors[2].shape.empty());
  EXPECT_EQ(call->tensors[2].bytes.size(), 4U);
}

TEST(OnlineFrame, TheOtherFramesAreReadAsTheyWereSent) {
  const std::vector<std::byte> hello = BytesOf(HelloFrame(1, 9, {4, "pytorch"}));
  EXPECT_EQ(ReadHello(Split(hello).payload)->rank, 4);
  EXPECT_EQ(ReadHello(Split(hello).payload)->framework, "pytorch");
  EXPECT_EQ(Split(hello).header.sequence, 9U);
  const std::vector<std::byte> end = BytesOf(EndFrame(1, 2, {10, 3, 999}));
  EXPECT_EQ(ReadEnd(Split(end).payload)->sent_calls, 10U);
  EXPECT_EQ(ReadEnd(Split(end).payload)->dropped_calls, 3U);
  EXPECT_EQ(ReadEnd(Split(end).payload)->dropped_bytes, 999U);
  const std::vector<std::byte> taken = BytesOf(TakenFrame(1, 12));
  EXPECT_EQ(Split(taken).header.kind, FrameKind::kTaken);
  EXPECT_EQ(Split(taken).header.sequence, 12U);
  const std::vector<std::byte> refused = BytesOf(RefusedFrame(1, "no room for rank 3"));
  EXPECT_EQ(*ReadRefused(Split(refused).payload), "no room for rank 3");
}

TEST(OnlineFrame, EveryCutOfACallIsAnError) {
  const std::vector<std::byte> bytes = CallBytes();
  for (size_t size = kFrameHeaderBytes; size < bytes.size(); ++size) {
    const auto payload = std::span(bytes).subspan(kFrameHeaderBytes, size - kFrameHeaderBytes);
    EXPECT_FALSE(ReadCall(payload).ok()) << size;
  }
}

TEST(OnlineFrame, EveryChangedByteOfAPayloadIsNoticed) {
  std::vector<std::byte> bytes = CallBytes();
  const FrameHeader header = Split(bytes).header;
  for (size_t at = kFrameHeaderBytes; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_FALSE(CheckPayload(header, std::span(bytes).subspan(kFrameHeaderBytes)).ok()) << at;
    bytes[at] ^= std::byte{0x10};
  }
}

TEST(OnlineFrame, HeadersThatCannotBeAreRefused) {
  const std::vector<std::byte> good = CallBytes();
  const auto with = [&](size_t at, uint64_t value, size_t size) {
    std::vector<std::byte> bytes(good.begin(), good.begin() + kFrameHeaderBytes);
    std::memcpy(bytes.data() + at, &value, size);
    return ReadFrameHeader(bytes);
  };
  EXPECT_FALSE(with(0, 0x46464646, 4).ok());              // another magic
  EXPECT_FALSE(with(4, kFrameVersion + 1, 2).ok());       // another version
  EXPECT_FALSE(with(6, 0, 2).ok());                       // no kind
  EXPECT_FALSE(with(6, 9, 2).ok());                       // a later kind
  EXPECT_FALSE(with(24, kMostPayloadBytes + 1, 8).ok());  // too large
  EXPECT_FALSE(with(36, 1, 4).ok());                      // reserved
  EXPECT_TRUE(with(24, kMostPayloadBytes, 8).ok());
  std::vector<std::byte> hello = BytesOf(HelloFrame(1, 0, {0, "pytorch"}));
  const uint64_t large = kMostPlainPayloadBytes + 1;
  std::memcpy(hello.data() + 24, &large, sizeof(large));
  EXPECT_FALSE(ReadFrameHeader(std::span(hello).first(kFrameHeaderBytes)).ok());
  EXPECT_FALSE(ReadFrameHeader(std::span(good).first(kFrameHeaderBytes - 1)).ok());
}

// The payload of a call with one tensor whose head says what the arguments say.
std::vector<std::byte> PayloadOf(const std::string& dtype, const std::vector<int64_t>& shape,
                                 uint64_t bytes, uint32_t count = 1, int64_t rank = 0) {
  std::vector<std::byte> payload;
  const auto put = [&payload](const auto& value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    payload.insert(payload.end(), raw.begin(), raw.end());
  };
  const auto text = [&](const std::string& value) {
    put(static_cast<uint32_t>(value.size()));
    const auto raw = std::as_bytes(std::span(value));
    payload.insert(payload.end(), raw.begin(), raw.end());
  };
  put(rank);
  put(int64_t{0});
  text("Torch.abs.0");
  text("{}");
  put(count);
  text("a.pt");
  text(dtype);
  put(static_cast<uint8_t>(shape.size()));
  for (const int64_t size : shape) {
    put(size);
  }
  put(bytes);
  payload.resize((payload.size() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment +
                 16);
  return payload;
}

TEST(OnlineFrame, TensorsThatCannotBeAreRefused) {
  EXPECT_TRUE(ReadCall(PayloadOf("float32", {4}, 16)).ok());
  EXPECT_FALSE(ReadCall(PayloadOf("float32", {5}, 16)).ok());   // not the bytes of the shape
  EXPECT_FALSE(ReadCall(PayloadOf("float32", {8}, 32)).ok());   // beyond the end
  EXPECT_FALSE(ReadCall(PayloadOf("float33", {4}, 16)).ok());   // no dtype
  EXPECT_FALSE(ReadCall(PayloadOf("float32", {-4}, 16)).ok());  // below 0
  EXPECT_FALSE(
      ReadCall(PayloadOf("float32", {int64_t{1} << 40, int64_t{1} << 40}, 16)).ok());  // overflow
  EXPECT_FALSE(ReadCall(PayloadOf("float32", {int64_t{1} << 62, 0}, 0)).ok());
  EXPECT_FALSE(ReadCall(PayloadOf("float32", std::vector<int64_t>(65, 1), 4)).ok());
  EXPECT_FALSE(ReadCall(PayloadOf("float32", {4}, 16, kMostCallTensors + 1)).ok());
  EXPECT_FALSE(ReadCall(PayloadOf("float32", {4}, 16, 1, -1)).ok());  // rank
}

TEST(OnlineFrame, WhatAFrameMayNotHoldIsNotSent) {
  Call call = CallOf("x", {1.0F});
  call.name.assign(kMostCallNameBytes + 1, 'n');
  EXPECT_FALSE(CallFrame(1, 1, call).ok());
  call = CallOf("x", {1.0F});
  call.tensors[0].shape.assign(kMostTensorAxes + 1, 1);
  EXPECT_FALSE(CallFrame(1, 1, call).ok());
}

TEST(OnlineFolderNames, ANameIsReadAsItWasWritten) {
  const FolderFile files[] = {{3, 0x5f3a9c0112345678, 0, FrameKind::kHello},
                              {0, 1, 17, FrameKind::kCall},
                              {0, 1, 1234567890, FrameKind::kCall},
                              {12, UINT64_MAX, 0, FrameKind::kEnd}};
  for (const FolderFile& file : files) {
    const std::string name = FolderFileName(file);
    const std::optional<FolderFile> read = ParseFolderFileName(name);
    ASSERT_TRUE(read.has_value()) << name;
    EXPECT_EQ(read->rank, file.rank);
    EXPECT_EQ(read->session, file.session);
    EXPECT_EQ(read->sequence, file.sequence);
    EXPECT_EQ(read->kind, file.kind);
  }
  EXPECT_EQ(FolderFileName(files[1]), "rank0.0000000000000001.00000017.call");
  for (const std::string_view other :
       {"", "rank0", "rank0.call", "rank0.1.call", "rank0.0000000000000001.17.call",
        "rank-1.0000000000000001.start", "rank0.0000000000000001.start.refused",
        "rank0.000000000000000g.start", "rank00.0000000000000001.end", "start_1700000000",
        ".msprobe-1.tmp", "rank0.0000000000000001.00000017.call.pt"}) {
    EXPECT_FALSE(ParseFolderFileName(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace msprobe::online
