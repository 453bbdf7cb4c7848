#include "src/analysis/nonfinite/search.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::analysis::nonfinite {
namespace {

// A message to or from another rank.
struct Message {
  bool sends = false;
  int64_t peer = 0;
  BadValues data = 0;
  BadValues output = 0;
};

// Ranks written down operator by operator.
class Ranks {
 public:
  explicit Ranks(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      ranks_.emplace_back(static_cast<int64_t>(i));
    }
  }

  Operator& Compute(size_t rank, std::string_view name, BadValues input, BadValues output) {
    Operator item;
    item.name = ranks_[rank].names->Keep(name);
    item.index = static_cast<uint32_t>(ranks_[rank].operator_count++);
    item.input = input;
    item.output = output;
    ranks_[rank].operators.push_back(item);
    return ranks_[rank].operators.back();
  }

  // Good operators leave no trace but the time they take.
  void Good(size_t rank, uint64_t count) { ranks_[rank].operator_count += count; }

  void Collective(size_t rank, std::string_view api, BadValues data, BadValues output,
                  int64_t root = -1) {
    dump::Communication call;
    call.api = api;
    call.root = root;
    Add(rank, "Distributed." + std::string(api), call, {{0, data, output}});
  }

  void Transfers(size_t rank, const std::vector<Message>& messages) {
    dump::Communication call;
    call.is_point_to_point = true;
    std::vector<EndpointValues> values;
    for (const Message& message : messages) {
      dump::Transfer& transfer = call.transfers.emplace_back();
      transfer.sends = message.sends;
      transfer.peer = message.peer;
      values.push_back({0, message.data, message.output});
    }
    Add(rank, "Distributed.p2p", call, values);
  }

  SearchResult Search(bool mask_aware = true) { return nonfinite::Search(ranks_, {mask_aware}); }

  std::string Name(const Origin& origin) const {
    return std::to_string(origin.rank_place) + " " +
           std::string(ranks_[origin.rank_place].operators[origin.operator_place].name);
  }
  const std::vector<RankDump>& ranks() const { return ranks_; }

 private:
  void Add(size_t rank, std::string_view name, const dump::Communication& call,
           const std::vector<EndpointValues>& values) {
    RankDump& dump = ranks_[rank];
    Operator& item = Compute(rank, name, 0, 0);
    item.call = dump.communications.Add(call);
    for (EndpointValues end : values) {
      end.operator_place = static_cast<uint32_t>(dump.operators.size() - 1);
      item.input |= end.data;
      item.output |= end.output;
      dump.endpoints.push_back(end);
    }
  }

  std::vector<RankDump> ranks_;
};

Message Send(int64_t to, BadValues data) { return {true, to, data, data}; }
Message Receive(int64_t from, BadValues output) { return {false, from, 0, output}; }

TEST(Search, AnOperatorWithGoodInputsAndBadOutputsIsTheOrigin) {
  Ranks ranks(1);
  ranks.Compute(0, "Torch.log.0.forward", 0, kNan);
  ranks.Compute(0, "Torch.mul.0.forward", kNan, kNan);
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 1u);
  EXPECT_EQ(ranks.Name(result.origins[0]), "0 Torch.log.0.forward");
  EXPECT_TRUE(result.weak.empty());
}

TEST(Search, AReceiverIsNotBlamedForWhatItWasSent) {
  Ranks ranks(2);
  ranks.Compute(0, "Torch.exp.0.forward", 0, kPositiveInfinity);
  ranks.Transfers(0, {Send(1, kPositiveInfinity)});
  ranks.Transfers(1, {Receive(0, kPositiveInfinity)});
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 1u);
  EXPECT_EQ(ranks.Name(result.origins[0]), "0 Torch.exp.0.forward");
  ASSERT_EQ(result.arrivals.size(), 1u);
  EXPECT_EQ(result.arrivals[0].to_rank, 1u);
}

TEST(Search, ACommunicationIsTheOriginWhenNothingBadWentIn) {
  Ranks ranks(2);
  ranks.Collective(0, "all_reduce", 0, kNan);
  ranks.Collective(1, "all_reduce", 0, kNan);
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 1u);
  EXPECT_EQ(result.origins[0].kind, OriginKind::kCommunication);
}

TEST(Search, OnlyTheRootOfABroadcastContributes) {
  Ranks ranks(2);
  ranks.Collective(0, "broadcast", 0, 0, 0);
  ranks.Collective(1, "broadcast", kNan, 0, 0);  // its buffer held garbage
  const SearchResult result = ranks.Search();
  EXPECT_TRUE(result.origins.empty());
  EXPECT_TRUE(result.weak.empty());
}

TEST(Search, ClocksOfRanksMeetInCommunication) {
  Ranks ranks(2);
  ranks.Good(0, 50);
  ranks.Collective(0, "all_reduce", 0, 0);
  ranks.Compute(0, "Torch.log.0.forward", 0, kNan);
  ranks.Collective(1, "all_reduce", 0, 0);
  ranks.Good(1, 5);
  ranks.Compute(1, "Torch.exp.0.forward", 0, kNan);
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 2u);
  EXPECT_EQ(ranks.Name(result.origins[0]), "0 Torch.log.0.forward");
  EXPECT_GT(result.origins[1].clock, 50);
}

TEST(Search, ReceivesThatWerePostedFirstDoNotBlock) {
  Ranks ranks(2);
  for (const size_t rank : {0U, 1U}) {
    const auto peer = static_cast<int64_t>(1 - rank);
    ranks.Transfers(rank, {Receive(peer, rank == 0 ? BadValues{0} : kNan)});
    if (rank == 0) {
      ranks.Compute(0, "Torch.log.0.forward", 0, kNan);
    }
    ranks.Transfers(rank, {Send(peer, rank == 0 ? kNan : BadValues{0})});
    ranks.Compute(rank, "Torch.mul.0.forward", kNan, kNan);
  }
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 1u);
  EXPECT_EQ(ranks.Name(result.origins[0]), "0 Torch.log.0.forward");
  EXPECT_TRUE(result.weak.empty());
}

TEST(Search, AMissingPartnerIsSaid) {
  Ranks ranks(1);
  ranks.Transfers(0, {Receive(7, kNan)});
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 1u);
  EXPECT_EQ(result.origins[0].kind, OriginKind::kMissingPartner);
  EXPECT_EQ(result.unmatched_calls, 1u);
}

TEST(Search, BadInputsFromNowhereAreAWeakAnswer) {
  Ranks ranks(1);
  ranks.Compute(0, "Torch.cat.0.forward", kNan, kNan);
  ranks.Compute(0, "Torch.mul.0.forward", kNan, kNan);
  const SearchResult result = ranks.Search();
  EXPECT_TRUE(result.origins.empty());
  ASSERT_EQ(result.weak.size(), 1u);
  EXPECT_EQ(result.weak[0].kind, OriginKind::kExternalInput);
}

TEST(Search, AMaskIsNoOriginUnlessAskedFor) {
  Ranks ranks(1);
  ranks.Compute(0, "Tensor.masked_fill.0.forward", 0, kNegativeInfinity).behaviour =
      Behaviour::kFill;
  ranks.Compute(0, "Functional.softmax.0.forward", kNegativeInfinity, 0);
  EXPECT_TRUE(ranks.Search().origins.empty());
  EXPECT_TRUE(ranks.Search().weak.empty());
  EXPECT_EQ(ranks.Search(false).origins.size(), 1u);
}

TEST(Search, ARowThatIsMaskedAsAWholeIsAnOrigin) {
  Ranks ranks(1);
  ranks.Compute(0, "Tensor.masked_fill.0.forward", 0, kNegativeInfinity).behaviour =
      Behaviour::kFill;
  ranks.Compute(0, "Functional.softmax.0.forward", kNegativeInfinity, kNan);
  const SearchResult result = ranks.Search();
  ASSERT_EQ(result.origins.size(), 1u);
  EXPECT_EQ(result.origins[0].kind, OriginKind::kMaskedRow);
}

TEST(Search, UninitialisedMemoryIsNoOriginUntilItIsRead) {
  Ranks ranks(1);
  ranks.Compute(0, "Torch.empty.0.forward", 0, kNan).behaviour = Behaviour::kUninitialised;
  EXPECT_TRUE(ranks.Search().origins.empty());
  EXPECT_TRUE(ranks.Search().weak.empty());
  ranks.Compute(0, "Torch.add.0.forward", kNan, kNan);
  ASSERT_EQ(ranks.Search().weak.size(), 1u);
  EXPECT_EQ(ranks.Search().weak[0].kind, OriginKind::kUninitialised);
}

TEST(Search, InFrontOfAllCommunicationEveryRankReportsItsOwn) {
  Ranks ranks(3);
  ranks.Compute(1, "Torch.log.0.forward", 0, kNan);
  ranks.Good(2, 3);
  ranks.Compute(2, "Torch.sqrt.0.forward", 0, kNan);
  for (size_t rank = 0; rank < 3; ++rank) {
    ranks.Collective(rank, "all_reduce", rank == 0 ? BadValues{0} : kNan, kNan);
  }
  const SearchResult result = ranks.Search();
  EXPECT_EQ(ReportedOrigins(ranks.ranks(), result.origins).size(), 2u);
}

TEST(Search, CollectivesInAnotherOrderEndNeverthelessAndAreTold) {
  Ranks ranks(2);
  ranks.Collective(0, "all_reduce", 0, 0);
  ranks.Collective(0, "all_gather", 0, 0);
  ranks.Collective(1, "all_gather", 0, 0);
  ranks.Collective(1, "all_reduce", 0, 0);
  const SearchResult result = ranks.Search();
  EXPECT_EQ(result.matched_events, 2u);
  EXPECT_EQ(result.warnings.size(), 1u);
}

TEST(Search, ABufferOfNanThatIsOverwrittenIsNothing) {
  for (const bool in_parts : {false, true}) {
    Ranks ranks(1);
    ranks.Compute(0, "Torch.full.0.forward", 0, kNan).behaviour = Behaviour::kFill;
    ranks.Compute(0, "Tensor.__setitem__.0.forward", in_parts ? kNan : BadValues{0}, 0);
    ranks.Good(0, 5);
    EXPECT_TRUE(ranks.Search().weak.empty());
    // Of what else is bad it is not the cause where it was overwritten as a whole.
    ranks.Compute(0, "Torch.log.0.forward", kNan, kNan);
    const SearchResult later = ranks.Search();
    ASSERT_EQ(later.weak.size(), 1U);
    EXPECT_EQ(later.weak[0].kind, in_parts ? OriginKind::kConstant : OriginKind::kExternalInput);
  }
}

TEST(Search, AConstantIsToldWhereItGoesOn) {
  for (const bool in_module : {false, true}) {
    Ranks ranks(1);
    ranks.Compute(0, "Tensor.__setitem__.0.forward", 0, kPositiveInfinity).behaviour =
        Behaviour::kFill;
    ranks.Good(0, 3);
    ranks
        .Compute(0, "Module.f.F.forward.0", in_module ? BadValues{0} : kPositiveInfinity,
                 kNan | kPositiveInfinity)
        .is_module = in_module;
    const SearchResult result = ranks.Search();
    ASSERT_EQ(result.weak.size(), 1U);
    EXPECT_EQ(result.weak[0].kind, OriginKind::kConstant);
    EXPECT_EQ(ranks.Name(result.weak[0]), "0 Tensor.__setitem__.0.forward");
    EXPECT_EQ(result.weak[0].made, kPositiveInfinity);
  }
}

TEST(Search, AConstantThatNothingRecordedMetIsTold) {
  Ranks ranks(1);
  ranks.Compute(0, "Tensor.fill_.0.forward", 0, kNan).behaviour = Behaviour::kFill;
  ranks.Good(0, 3);
  EXPECT_EQ(ranks.Search().weak.size(), 1U);
  // A least distance starts as infinity.
  Ranks least(1);
  least.Compute(0, "Torch.full.0.forward", 0, kPositiveInfinity).behaviour = Behaviour::kFill;
  least.Compute(0, "Torch.minimum.0.forward", kPositiveInfinity, 0);
  EXPECT_TRUE(least.Search().weak.empty());
}

}  // namespace
}  // namespace msprobe::analysis::nonfinite
