// What one rank sends to another arrives bit by bit.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/analysis/recheck/made_dump.h"

namespace msprobe::analysis::recheck {
namespace {

using ::testing::HasSubstr;

const CheckedCall& CallOf(const Answer& answer, int64_t rank, const std::string& name) {
  for (const CheckedCall& call : answer.calls) {
    if (call.rank == rank && call.name == name) {
      return call;
    }
  }
  ADD_FAILURE() << "no call " << name << " of rank " << rank;
  return answer.calls.front();
}

// Rank 0 sends `sent`, message by message, and rank 1 gets `received`.
Answer Handed(const std::vector<std::vector<float>>& sent,
              const std::vector<std::vector<float>>& received, const std::string& from) {
  Ranks ranks(2);
  for (size_t i = 0; i < sent.size(); ++i) {
    const std::string tensor = ranks.Leaf(0, "sent" + std::to_string(i) + ".npy", sent[i]);
    ranks.Add(0, "Distributed.send." + std::to_string(i) + ".forward", tensor,
              R"("dst": )" + Integer(1), tensor);
  }
  for (size_t i = 0; i < received.size(); ++i) {
    const std::string number = std::to_string(i);
    ranks.Add(1, "Distributed.recv." + number + ".forward",
              ranks.Leaf(1, "buffer" + number + ".npy", std::vector<float>(received[i].size())) +
                  (from.empty() ? "" : ", " + from),
              "", ranks.Leaf(1, "got" + number + ".npy", received[i]));
  }
  return ranks.Check();
}

TEST(Messages, WhatArrivesIsWhatWasSentInTheSameOrder) {
  const Answer answer = Handed({{1, 2}, {3, 4, 5}}, {{1, 2}, {3, 4, 5}}, Integer(0));
  EXPECT_EQ(answer.within, 4U);
}

TEST(Messages, ABitThatIsNotAsItWasSentIsWrongWhereItArrived) {
  const Answer answer = Handed({{1, 2}, {3, 4, 5}}, {{1, 2}, {3, 4, 5.0000005F}}, Integer(0));
  EXPECT_EQ(answer.within, 3U);
  ASSERT_EQ(answer.beyond, 1U);
  EXPECT_EQ(CallOf(answer, 1, "Distributed.recv.1.forward").verdict(), Verdict::kBeyond);
}

TEST(Messages, OnesThatOvertookEachOtherAreWrong) {
  const Answer answer = Handed({{1, 2}, {3, 4}}, {{3, 4}, {1, 2}}, Integer(0));
  EXPECT_EQ(answer.beyond, 2U);
}

TEST(Messages, NothingIsSaidWhereTheyCannotBePaired) {
  const Answer more = Handed({{1, 2}}, {{1, 2}, {3, 4}}, Integer(0));
  EXPECT_EQ(more.within, 1U);  // what was sent is still as it was
  EXPECT_THAT(CallOf(more, 1, "Distributed.recv.0.forward").checked().reason,
              HasSubstr("rank 0 sent 1 messages to rank 1, which received 2"));
  const Answer anybody = Handed({{1, 2}}, {{1, 2}}, "null");
  EXPECT_THAT(CallOf(anybody, 1, "Distributed.recv.0.forward").checked().reason,
              HasSubstr("does not tell which rank"));
  const Answer nobody = Handed({}, {{1, 2}}, Integer(7));
  EXPECT_THAT(CallOf(nobody, 1, "Distributed.recv.0.forward").checked().reason,
              HasSubstr("rank 7 is not in the dump"));
  const Answer longer = Handed({{1, 2, 3}}, {{1, 2}}, Integer(0));
  EXPECT_THAT(CallOf(longer, 1, "Distributed.recv.0.forward").checked().reason,
              HasSubstr("another number or type of elements"));
}

// Two messages of one sender, received by their tags in the other order.
TEST(Messages, TagsTellThemApart) {
  for (const bool by_position : {false, true}) {
    Ranks ranks(2);
    for (const int tag : {3, 4}) {
      const std::string number = std::to_string(tag);
      const std::string sent =
          ranks.Leaf(0, "sent" + number + ".npy", {1.5F * static_cast<float>(tag)});
      ranks.Add(0, "Distributed.send." + number + ".forward",
                sent + ", " + Integer(1) + (by_position ? ", null, " + Integer(tag) : ""),
                by_position ? "" : "\"tag\": " + Integer(tag), sent);
    }
    for (const int tag : {4, 3}) {
      const std::string number = std::to_string(tag);
      ranks.Add(1, "Distributed.irecv." + number + ".forward",
                ranks.Leaf(1, "buffer" + number + ".npy", {0}) + ", " + Integer(0) + ", null, " +
                    Integer(tag),
                "", ranks.Leaf(1, "got" + number + ".npy", {1.5F * static_cast<float>(tag)}));
    }
    EXPECT_EQ(ranks.Check().within, 4U);
  }
}

// Both ranks exchange a tensor in one batch; `wrong` more arrives at rank 1.
Answer Exchanged(float wrong) {
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const float own = rank == 0 ? 1.5F : 2.5F;
    const float other = rank == 0 ? 2.5F : 1.5F + wrong;
    const auto operation = [&](const char* op, const std::string& tensor) {
      return std::string(R"({"class_type": "torch.distributed.P2POp", "tensor": )") + tensor +
             R"(, "op": ")" + op + R"(", "peer": )" + std::to_string(1 - rank) +
             R"(, "tag": 0, "group_id": "77849d8c"})";
    };
    const std::string sent = operation("isend", ranks.Leaf(rank, "own.npy", {own}));
    ranks.Add(rank, "Distributed.batch_isend_irecv.0.forward",
              "[" + sent + ", " + operation("irecv", ranks.Leaf(rank, "buffer.npy", {0})) + "]", "",
              "[" + sent + ", " + operation("irecv", ranks.Leaf(rank, "got.npy", {other})) + "]");
  }
  return ranks.Check();
}

TEST(Messages, BatchesHandThemOverBothWays) {
  EXPECT_EQ(Exchanged(0).within, 2U);
  const Answer wrong = Exchanged(1e-6F);
  EXPECT_EQ(wrong.beyond, 1U);
  EXPECT_EQ(CallOf(wrong, 1, "Distributed.batch_isend_irecv.0.forward").verdict(),
            Verdict::kBeyond);
}

// A rank and the group of all ranks are named differently by a batch and by a single call.
TEST(Messages, ABatchMeetsASingleReceive) {
  Ranks ranks(2);
  const std::string tensor = ranks.Leaf(0, "own.npy", {4});
  const std::string operation = R"([{"class_type": "torch.distributed.P2POp", "tensor": )" +
                                tensor +
                                R"(, "op": "isend", "peer": 1, "tag": 0, "group_id": "77849d8c"}])";
  ranks.Add(0, "Distributed.batch_isend_irecv.0.forward", operation, "", operation);
  ranks.Add(1, "Distributed.irecv.0.forward", ranks.Leaf(1, "buffer.npy", {0}) + ", " + Integer(0),
            "", ranks.Leaf(1, "got.npy", {4}));
  EXPECT_EQ(ranks.Check().within, 2U);
}

// Each tensor that was sent stands in the sender's one call, which is read once.
TEST(Messages, ABatchMayBeOfAnySize) {
  constexpr size_t kMessages = 3000;
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    std::string operations;
    std::string outputs;
    const std::string tensor = ranks.Leaf(rank, "x.npy", {1});
    for (size_t i = 0; i < kMessages; ++i) {
      const std::string operation = R"({"class_type": "torch.distributed.P2POp", "tensor": )" +
                                    tensor + R"(, "op": ")" + (rank == 0 ? "irecv" : "isend") +
                                    R"(", "peer": )" + std::to_string(1 - rank) +
                                    R"(, "tag": 0, "group_id": "77849d8c"})";
      operations += (operations.empty() ? "" : ", ") + operation;
      outputs += (outputs.empty() ? "" : ", ") + operation;
    }
    ranks.Add(rank, "Distributed.batch_isend_irecv.0.forward", "[" + operations + "]", "",
              "[" + outputs + "]");
  }
  EXPECT_EQ(ranks.Check().within, 2U);
}

}  // namespace
}  // namespace msprobe::analysis::recheck
