#include "src/dump/communication.h"

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::dump {
namespace {

using ::testing::ElementsAre;

constexpr MatchRules kAllRules[] = {MatchRules::kLibraries, MatchRules::kPythonGraph,
                                    MatchRules::kPythonDifference};
constexpr const char* kTensor = R"({"type": "torch.Tensor", "dtype": "torch.float32", "Max": 1})";

std::string Integer(int64_t value) {
  return R"({"type": "int", "value": )" + std::to_string(value) + "}";
}

std::string Group(const std::string& ranks, const std::string& id = "") {
  return R"("group": {"type": "torch.ProcessGroup", "group_ranks": [)" + ranks +
         R"(], "group_id": ")" + id + "\"}";
}

// A call whose first argument is a tensor.
Communication Read(std::string_view api, const std::string& arguments, const std::string& keywords,
                   MatchRules rules = MatchRules::kLibraries) {
  const Result<EntryTree> tree = ParseEntry(
      "{\"input_args\": [" + std::string(kTensor) + (arguments.empty() ? "" : ", ") + arguments +
      "], \"input_kwargs\": {" + keywords + "}, \"output\": [" + kTensor + "]}");
  EXPECT_TRUE(tree.ok());
  return ReadCommunication(api, *tree, rules);
}

std::string Operation(const std::string& op, int64_t peer, const std::string& more = "") {
  return R"({"op": ")" + op + R"(", "peer": )" + std::to_string(peer) + more + R"(, "tensor": )" +
         kTensor + "}";
}

Communication ReadBatch(const std::string& operations, MatchRules rules = MatchRules::kLibraries) {
  const Result<EntryTree> tree =
      ParseEntry("{\"input_args\": [[" + operations + "]], \"output\": [[" + operations + "]]}");
  EXPECT_TRUE(tree.ok());
  return ReadCommunication("batch_isend_irecv", *tree, rules);
}

// Calls of ranks 0 and up. Events as "<rank>.<call>" of their members, those that are alone too.
std::vector<std::string> Events(const std::vector<std::vector<Communication>>& ranks,
                                MatchRules rules = MatchRules::kLibraries) {
  std::vector<RankCommunications> communications;
  std::vector<const RankCommunications*> pointers;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    communications.emplace_back(static_cast<int64_t>(rank), rules);
    for (const Communication& call : ranks[rank]) {
      communications.back().Add(call);
    }
  }
  for (const RankCommunications& rank : communications) {
    pointers.push_back(&rank);
  }
  const CommunicationMatching matching = MatchCommunications(pointers);
  std::vector<std::string> events;
  for (const CommunicationEvent& event : matching.events) {
    std::string& text = events.emplace_back();
    for (const EventMember& member : matching.MembersOf(event)) {
      const Endpoint& end = communications[member.rank_place].endpoints()[member.endpoint];
      text += (text.empty() ? "" : " ") + std::to_string(member.rank_place) + "." +
              std::to_string(end.call);
    }
  }
  return events;
}

Communication Send(int64_t to, const std::string& more = "") {
  return Read("send", Integer(to), more);
}
Communication Receive(int64_t from, const std::string& more = "") {
  return Read("recv", Integer(from), more);
}

TEST(MovesDataBetweenRanks, FollowsFromTheName) {
  for (const char* name :
       {"Distributed.all_reduce.0.forward", "Distributed.batch_isend_irecv.3.forward",
        "MintDistributed.all_to_all.0.backward", "Mint.distributed.broadcast.0.forward",
        "Distributed.reduce_scatter_tensor.1.forward", "Communication.gather.0.forward"}) {
    EXPECT_TRUE(MovesDataBetweenRanks(name)) << name;
  }
  for (const char* name : {"Distributed.barrier.0.forward", "Torch.gather.0.forward",
                           "Distributed.new_group.0.forward", "Tensor.scatter_.0.forward"}) {
    EXPECT_FALSE(MovesDataBetweenRanks(name)) << name;
  }
}

TEST(IsReceiveBuffer, OfACommunicationHasAKeywordAndAPosition) {
  const auto is_buffer = [](const char* api, const char* argument) {
    const std::string name = std::string("Distributed.") + api + ".0.forward";
    return IsReceiveBuffer(ParseEntryName(name), argument);
  };
  EXPECT_TRUE(is_buffer("all_gather", "input.0.3"));
  EXPECT_TRUE(is_buffer("all_gather", "input.tensor_list.1"));
  EXPECT_TRUE(is_buffer("gather", "input.1"));
  EXPECT_TRUE(is_buffer("recv", "input.tensor"));
  EXPECT_FALSE(is_buffer("gather", "input.0"));
  EXPECT_FALSE(is_buffer("all_gather", "input.1"));
  EXPECT_FALSE(is_buffer("all_reduce", "input.0"));
  EXPECT_FALSE(is_buffer("send", "input.0"));
}

TEST(CommunicationApis, PairsAreMutual) {
  for (const char* api : {"send", "isend", "send_object_list"}) {
    const CommunicationApi* sends = FindCommunicationApi(api);
    ASSERT_NE(sends, nullptr);
    const CommunicationApi* receives = FindCommunicationApi(sends->pair);
    ASSERT_NE(receives, nullptr);
    EXPECT_EQ(receives->pair, api);
    EXPECT_EQ(receives->kind, CommunicationKind::kReceive);
  }
}

TEST(ReadCommunication, TranslatesARankOfTheGroup) {
  const std::string group = Group("6, 4");
  EXPECT_EQ(Read("broadcast", Integer(1), group).root, 4);
  EXPECT_EQ(Read("broadcast", Integer(6), group).root, 6);
  EXPECT_EQ(Read("reduce", "", group + ", \"group_dst\": " + Integer(0)).root, 6);
  EXPECT_EQ(Read("gather", "null, " + Integer(4), group).root, 4);
  EXPECT_EQ(Read("scatter", "", group).root, 6);  // the first, where nothing is given
  EXPECT_EQ(Read("all_reduce", Integer(1), group).root, std::nullopt);
}

TEST(ReadCommunication, FindsThePeerAndTheTagWhereverTheyAreGiven) {
  const auto peer_and_tag = [](const Communication& call) {
    return std::pair(call.transfers.at(0).peer, call.transfers.at(0).tag);
  };
  EXPECT_EQ(peer_and_tag(Read("send", Integer(3) + ", null, " + Integer(7), "")),
            std::pair(int64_t{3}, int64_t{7}));
  EXPECT_EQ(peer_and_tag(Read("irecv", "", "\"src\": " + Integer(2) + ", \"tag\": " + Integer(5))),
            std::pair(int64_t{2}, int64_t{5}));
  // send(tensor, None, group, 0, group_dst)
  EXPECT_EQ(peer_and_tag(Read(
                "send", "null, {\"group_ranks\": [8, 9]}, " + Integer(0) + ", " + Integer(1), "")),
            std::pair(int64_t{9}, int64_t{0}));
  EXPECT_EQ(peer_and_tag(Read("recv", "", "")), std::pair(int64_t{-1}, int64_t{0}));
  EXPECT_EQ(peer_and_tag(Read("recv_object_list", Integer(1), "")),
            std::pair(int64_t{1}, int64_t{0}));
}

TEST(ReadCommunication, TheGraphLooksWhereThePythonToolDoes) {
  const auto root = [](const char* api, const std::string& arguments, const std::string& keywords) {
    const Communication call =
        Read(api, arguments, Group("0, 1") + keywords, MatchRules::kPythonGraph);
    return call.is_incomplete ? -1 : call.root.value_or(-2);
  };
  EXPECT_EQ(root("broadcast", Integer(1), ""), 1);
  EXPECT_EQ(root("broadcast", "", ", \"src\": " + Integer(1)), -1);
  EXPECT_EQ(root("scatter", "", ", \"src\": " + Integer(1)), 1);
  EXPECT_EQ(root("scatter", "null, " + Integer(1), ""), -1);
  EXPECT_EQ(root("all_reduce", "", ""), -2);
  EXPECT_TRUE(
      Read("all_reduce", R"({"group_ranks": [0]})", "", MatchRules::kPythonGraph).is_incomplete);
  EXPECT_TRUE(Read("send", Integer(1), "", MatchRules::kPythonGraph).is_incomplete);
}

// A search among the group for each transfer would be 10^10 steps.
TEST(ReadCommunication, ABatchMayNameEachRankOfALargeGroup) {
  constexpr int kRanks = 100'000;
  std::string operations;
  std::string ranks;
  for (int i = 0; i < kRanks; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    operations += comma + R"({"op": "isend", "peer": )" + std::to_string(i) + "}";
    ranks += comma + std::to_string(kRanks - 1 - i);
  }
  const Result<EntryTree> tree =
      ParseEntry("{\"input_args\": [[" + operations +
                 "]], \"input_kwargs\": {\"group\": {\"group_ranks\": [" + ranks + "]}}}");
  ASSERT_TRUE(tree.ok());
  const Communication call = ReadCommunication("batch_isend_irecv", *tree, MatchRules::kLibraries);
  ASSERT_EQ(call.transfers.size(), static_cast<size_t>(kRanks));
  EXPECT_EQ(call.transfers.back().peer, kRanks - 1);
}

TEST(MatchCommunications, CountsTransfersBetweenTwoRanksByTag) {
  const std::string tag = "\"tag\": " + Integer(1);
  EXPECT_THAT(Events({{Send(1), Send(1, tag), Send(2)}, {Receive(0, tag), Receive(0)}, {}}),
              ElementsAre("0.0 1.1", "0.1 1.0", "0.2"));
}

TEST(MatchCommunications, ASendMeetsAnyReceiveButForThePythonTool) {
  const auto calls = [](MatchRules rules) {
    const auto read = [rules](const char* api, const char* rank, int64_t peer) {
      return Read(api, "", "\"" + std::string(rank) + "\": " + Integer(peer), rules);
    };
    return std::vector<std::vector<Communication>>{
        {read("send", "dst", 1), read("isend", "dst", 1)},
        {read("irecv", "src", 0), read("recv", "src", 0)}};
  };
  EXPECT_THAT(Events(calls(MatchRules::kLibraries)), ElementsAre("0.0 1.0", "0.1 1.1"));
  for (const MatchRules rules : {MatchRules::kPythonGraph, MatchRules::kPythonDifference}) {
    EXPECT_THAT(Events(calls(rules), rules), ElementsAre("0.0 1.1", "0.1 1.0"));
  }
}

TEST(MatchCommunications, ObjectsMeetObjects) {
  EXPECT_THAT(Events({{Send(1), Read("send_object_list", Integer(1), "")},
                      {Read("recv_object_list", Integer(0), ""), Receive(0)}}),
              ElementsAre("0.0 1.1", "0.1 1.0"));
}

TEST(MatchCommunications, GroupsAreCountedApartWhereBothSidesNameThem) {
  const std::string a = R"(, "group_id": "a")";
  const std::string b = R"(, "group_id": "b")";
  EXPECT_THAT(Events({{ReadBatch(Operation("isend", 1, a) + ", " + Operation("isend", 1, b))},
                      {Receive(0, Group("0, 1", "b")), Receive(0, Group("1, 0", "a"))}}),
              ElementsAre("0.0 1.1", "0.0 1.0"));
  // Only one side names them: their order counts.
  EXPECT_THAT(Events({{ReadBatch(Operation("isend", 1, a) + ", " + Operation("isend", 1, b))},
                      {Receive(0), Receive(0)}}),
              ElementsAre("0.0 1.0", "0.0 1.1"));
  // A single call of all ranks names no group where a batch names one: it is the same group.
  EXPECT_THAT(Events({{ReadBatch(Operation("isend", 1, a)), Send(1)},
                      {Receive(0), ReadBatch(Operation("irecv", 0, a))}}),
              ElementsAre("0.0 1.0", "0.1 1.1"));
  // One dump ends early: those that are there meet in order.
  EXPECT_THAT(Events({{Send(1), Send(1), Send(1)}, {Receive(0), Receive(0)}}),
              ElementsAre("0.0 1.0", "0.1 1.1", "0.2"));
}

TEST(MatchCommunications, ABatchOfThePythonToolsIsOfItsGroupOrACollective) {
  const std::string a = R"(, "group_id": "a")";
  const auto batch = [&](MatchRules rules, const char* op, int64_t peer, const std::string& group) {
    return ReadBatch(Operation(op, peer, group), rules);
  };
  constexpr MatchRules kGraph = MatchRules::kPythonGraph;
  EXPECT_THAT(Events({{batch(kGraph, "isend", 1, a)}, {batch(kGraph, "irecv", 0, a)}}, kGraph),
              ElementsAre("0.0 1.0"));
  EXPECT_THAT(Events({{batch(kGraph, "isend", 1, a)}, {batch(kGraph, "irecv", 0, "")}}, kGraph),
              ElementsAre("0.0", "1.0"));
  constexpr MatchRules kDifference = MatchRules::kPythonDifference;
  Communication described = DescribeCommunication(
      "batch_isend_irecv", {}, [](std::string_view) { return std::nullopt; }, kDifference);
  EXPECT_THAT(Events({{described}, {described}}, kDifference), ElementsAre("0.0 1.0"));
}

TEST(MatchCommunications, AGroupOfAllRanksIsTheSameAsNone) {
  EXPECT_THAT(Events({{Read("all_reduce", "", Group("1, 0"))}, {Read("all_reduce", "", "")}}),
              ElementsAre("0.0 1.0"));
  EXPECT_THAT(Events({{Read("all_reduce", "", Group("1, 0"))}, {Read("all_reduce", "", "")}, {}}),
              ElementsAre("0.0", "1.0"));
}

TEST(MatchCommunications, TellsCollectivesApartByApiGroupAndRoot) {
  const auto made = [](int64_t root, const std::string& group) {
    return Read("broadcast", Integer(root), group);
  };
  EXPECT_THAT(Events({{made(0, Group("0, 1")), made(0, Group("0, 2")), made(1, Group("0, 1"))},
                      {made(1, Group("0, 1")), made(0, Group("1, 0"))},
                      {made(0, Group("2, 0")), Read("all_reduce", "", Group("0, 2"))}}),
              ElementsAre("0.0 1.1", "0.1 2.0", "0.2 1.0", "2.1"));
  // To the graph a root is no part of what a call is known by, nor are the ranks: their id is.
  const auto known = [](int64_t root, const std::string& ranks) {
    return Read("broadcast", Integer(root), Group(ranks, "x"), MatchRules::kPythonGraph);
  };
  EXPECT_THAT(Events({{known(0, "0, 1")}, {known(1, "0")}}, MatchRules::kPythonGraph),
              ElementsAre("0.0 1.0"));
}

TEST(MatchCommunications, TellsWhoContributesAndHowManyAreExpected) {
  std::vector<RankCommunications> ranks;
  for (const int64_t number : {0, 1}) {
    ranks.emplace_back(number, MatchRules::kLibraries);
    ranks.back().Add(Read("broadcast", Integer(1), Group("0, 1, 2")));
    ranks.back().Add(number == 0 ? Send(1) : Receive(0));
    ranks.back().Add(Read("reduce", Integer(1), "\"group\": \"a name\""));
  }
  const RankCommunications* pointers[] = {&ranks[0], &ranks[1]};
  const CommunicationMatching matching = MatchCommunications(pointers);
  const std::vector<std::tuple<uint32_t, bool, bool, bool>> expected = {
      {3, false, false, true}, {2, true, true, false}, {0, false, true, true}};
  ASSERT_EQ(matching.events.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto members = matching.MembersOf(matching.events[i]);
    ASSERT_EQ(members.size(), 2u);
    EXPECT_EQ(std::tuple(matching.events[i].expected_members, matching.events[i].is_transfer,
                         members[0].contributes, members[1].contributes),
              expected[i]);
  }
}

TEST(MatchCommunications, NoTwoCallsOfARankAreInOneCollective) {
  for (const MatchRules rules : kAllRules) {
    const Communication call = Read("all_gather", "", Group("0, 1", "x"), rules);
    EXPECT_THAT(Events({{call, call}, {call, call, call}}, rules),
                ElementsAre("0.0 1.0", "0.1 1.1", "1.2"));
  }
}

TEST(CommunicationIndex, FindsTheOtherEndOfEachTransfer) {
  RankCommunications sender(0, MatchRules::kLibraries);
  RankCommunications receiver(1, MatchRules::kLibraries);
  for (int i = 0; i < 3; ++i) {
    sender.Add(Send(1));
    receiver.Add(Receive(0));
  }
  const int64_t all[] = {0, 1};
  const CommunicationIndex own(receiver, all);
  const CommunicationIndex peer(sender, all);
  const CommunicationIndex::Identity identity = own.IdentityOf(2, &peer);
  EXPECT_EQ(peer.Find(*identity.channel, true, identity.number), 2u);
  EXPECT_EQ(peer.Count(*identity.channel, true), 3u);
  EXPECT_EQ(peer.Find(*identity.channel, true, 3), std::nullopt);
  EXPECT_EQ(peer.Count(*identity.channel, false), 0u);
}

}  // namespace
}  // namespace msprobe::dump
