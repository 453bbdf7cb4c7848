// Who communicates with whom, as graph files tell it: by the Python tool's rules.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/graph/rank_groups.h"
#include "tests/unit/analysis/graph/small_dump.h"

namespace msprobe::analysis::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Tensor(double max) {
  return fmt::format(
      R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": {}, "Min": 0.0, "Mean": 0.5, "Norm": 1.5}})",
      max);
}

std::string Integer(int64_t value) {
  return fmt::format(R"({{"type": "int", "value": {}}})", value);
}

std::string Group(std::string_view ranks, std::string_view id = "aa") {
  return fmt::format(
      R"("group": {{"type": "torch.ProcessGroup", "group_ranks": [{}], "group_id": "{}"}})", ranks,
      id);
}

// A call that gives back its first argument.
std::string Made(std::string_view name, std::string_view more_arguments, std::string_view keywords,
                 double max = 1) {
  return fmt::format(R"("{}": {{"input_args": [{}{}], "input_kwargs": {{{}}}, "output": [{}]}})",
                     name, Tensor(max), more_arguments, keywords, Tensor(max));
}

std::string Batch(std::string_view name, std::string_view operations) {
  return fmt::format(R"("{0}": {{"input_args": [[{1}]], "input_kwargs": {{}}, "output": [[{1}]]}})",
                     name, operations);
}

std::string Operation(std::string_view op, int64_t peer, std::string_view group = "aa") {
  return fmt::format(
      R"({{"class_type": "torch.distributed.P2POp", "tensor": {}, "op": "{}", "peer": {}, "tag": 0, "group_id": "{}"}})",
      Tensor(1), op, peer, group);
}

// The calls of each rank, in order; by rank.
class Ranks {
 public:
  Ranks& Add(int64_t rank, const std::string& call) {
    std::string& calls = calls_[rank];
    calls += (calls.empty() ? "" : ", ") + call;
    return *this;
  }

  // "<node>: <kind> <rank>=<node> ..." for each node of `rank` that has partners, by name.
  std::vector<std::string> PartnersOf(int64_t rank, Edition edition = Edition::kV26) const {
    const test_support::TemporaryFolder scratch;
    std::vector<RankDump> dumps;
    std::vector<Graph> graphs;
    std::vector<RankCommunications> communications;
    graphs.reserve(calls_.size());
    for (const auto& [number, calls] : calls_) {
      dumps.push_back(LoadDump(scratch, fmt::format("rank{}", number),
                               R"("Module.m.M.forward.0": null)", calls));
    }
    auto dump = dumps.begin();
    for (const auto& [number, calls] : calls_) {
      Graph& graph = graphs.emplace_back();
      for (uint32_t entry = 0; entry < dump->side().entries.size(); ++entry) {
        graph.nodes[graph.Add(dump->side().entries[entry].name, NodeType::kApi)].entry = entry;
      }
      Result<RankCommunications> read = ReadCommunications(
          number, *dump, graph, std::vector<NodeScore>(graph.nodes.size()), false);
      EXPECT_TRUE(read.ok()) << read.status().message();
      communications.push_back(*std::move(read));
      ++dump;
    }
    const PartnerFinder finder(std::move(communications), edition);
    std::map<std::string, std::string> lines;
    for (const auto& [node, groups] : finder.Of(rank)) {
      std::string& line = lines[std::string(node)];
      for (const Partners& group : groups) {
        line += (line.empty() ? "" : "; ") + std::string(group.kind);
        for (const auto& [other, partner] : group.nodes) {
          line += fmt::format(" {}={}", other, partner->name);
        }
      }
    }
    std::vector<std::string> texts;
    for (const auto& [node, line] : lines) {
      texts.push_back(node + ": " + line);
    }
    return texts;
  }

 private:
  std::map<int64_t, std::string> calls_;
};

TEST(Partners, TheNthSendToARankMeetsItsNthReceive) {
  Ranks ranks;
  for (int i = 0; i < 2; ++i) {
    ranks.Add(0, Made(fmt::format("Distributed.send.{}.forward", i), "", "\"dst\": " + Integer(1)));
    ranks.Add(1, Made(fmt::format("Distributed.recv.{}.forward", i), "", "\"src\": " + Integer(0)));
  }
  EXPECT_THAT(ranks.PartnersOf(0),
              ElementsAre("Distributed.send.0.forward: send 1=Distributed.recv.0.forward",
                          "Distributed.send.1.forward: send 1=Distributed.recv.1.forward"));
  EXPECT_THAT(ranks.PartnersOf(1),
              ElementsAre("Distributed.recv.0.forward: receive 0=Distributed.send.0.forward",
                          "Distributed.recv.1.forward: receive 0=Distributed.send.1.forward"));
}

TEST(Partners, ByTheRulesOf8AMessageHasTheSameValuesAtBothEnds) {
  for (const double received : {1.0, 2.0}) {
    Ranks ranks;
    ranks.Add(0, Made("Distributed.isend.0.forward", "", "\"dst\": " + Integer(1)));
    ranks.Add(1, Made("Distributed.irecv.0.forward", "", "\"src\": " + Integer(0), received));
    EXPECT_EQ(ranks.PartnersOf(0, Edition::kV8).size(), received == 1.0 ? 1U : 0U);
    EXPECT_EQ(ranks.PartnersOf(0, Edition::kV26).size(), 1U);
  }
}

// The Python tool pairs APIs of one style, and looks for ranks among the keywords only.
TEST(Partners, NobodyMeetsAnAPIOfAnotherStyleOrARankByItsPosition) {
  Ranks styles;
  styles.Add(0, Made("Distributed.send.0.forward", "", "\"dst\": " + Integer(1)));
  styles.Add(1, Made("Distributed.irecv.0.forward", "", "\"src\": " + Integer(0)));
  EXPECT_THAT(styles.PartnersOf(0), IsEmpty());
  Ranks positions;
  positions.Add(0, Made("Distributed.send.0.forward", ", " + Integer(1), ""));
  positions.Add(1, Made("Distributed.recv.0.forward", ", " + Integer(0), ""));
  EXPECT_THAT(positions.PartnersOf(0), IsEmpty());
  Ranks batches;
  batches.Add(0, Batch("Distributed.batch_isend_irecv.0.forward", Operation("isend", 1)));
  batches.Add(1, Made("Distributed.irecv.0.forward", "", "\"src\": " + Integer(0)));
  EXPECT_THAT(batches.PartnersOf(0), IsEmpty());
}

TEST(Partners, ABatchHasThemMessageByMessageWithinAGroup) {
  Ranks ranks;
  ranks.Add(0, Batch("Distributed.batch_isend_irecv.0.forward", Operation("isend", 1, "bb") + ", " +
                                                                    Operation("isend", 1) + ", " +
                                                                    Operation("irecv", 1)));
  ranks.Add(1, Batch("Distributed.batch_isend_irecv.0.forward",
                     Operation("irecv", 0) + ", " + Operation("isend", 0)));
  EXPECT_THAT(ranks.PartnersOf(0),
              ElementsAre("Distributed.batch_isend_irecv.0.forward: "
                          "send 1=Distributed.batch_isend_irecv.0.forward; "
                          "receive 1=Distributed.batch_isend_irecv.0.forward"));
}

TEST(Partners, ACollectiveNamesAllOthersOfItsGroup) {
  Ranks ranks;
  for (const int64_t rank : {0, 2, 3}) {
    ranks.Add(rank, Made("Distributed.all_reduce.0.forward", "", Group("3, 0, 0, 1")));
  }
  EXPECT_THAT(ranks.PartnersOf(0), ElementsAre("Distributed.all_reduce.0.forward: send_receive "
                                               "3=Distributed.all_reduce.0.forward"));
  // Whoever is not in the list, but called with its id, has partners, and is none.
  EXPECT_THAT(ranks.PartnersOf(2), ElementsAre("Distributed.all_reduce.0.forward: send_receive "
                                               "0=Distributed.all_reduce.0.forward "
                                               "3=Distributed.all_reduce.0.forward"));
}

TEST(Partners, GroupsAreToldApartByTheirIdsAndOtherCallsDoNotCount) {
  Ranks ranks;
  ranks.Add(0, Made("Distributed.all_gather.0.forward", "", Group("0, 1", "bb")));
  ranks.Add(0, Made("Distributed.all_gather.1.forward", "", ""));  // of no group: it has no partner
  ranks.Add(0, Made("Distributed.all_gather.2.forward", "", Group("0, 1")));
  ranks.Add(1, Made("Distributed.all_gather.0.forward", "", Group("0, 1")));
  EXPECT_THAT(ranks.PartnersOf(0), ElementsAre("Distributed.all_gather.2.forward: send_receive "
                                               "1=Distributed.all_gather.0.forward"));
}

TEST(Partners, OfARootEveryOtherRankHasOnlyTheRoot) {
  const auto made = [](int64_t rank, std::string_view api, std::string_view arguments,
                       std::string_view keywords) {
    return std::pair(
        rank, Made(fmt::format("Distributed.{}.0.forward", api), arguments, std::string(keywords)));
  };
  for (const auto& [api, arguments, keywords, kind] :
       {std::tuple("broadcast", ", " + Integer(1), std::string(), std::pair("send", "receive")),
        std::tuple("reduce", ", " + Integer(1), std::string(), std::pair("receive", "send")),
        std::tuple("scatter", std::string(), ", \"src\": " + Integer(1),
                   std::pair("send", "receive")),
        std::tuple("gather", std::string(), ", \"dst\": " + Integer(1),
                   std::pair("receive", "send"))}) {
    Ranks ranks;
    for (const int64_t rank : {0, 1, 2}) {
      const auto [number, call] = made(rank, api, arguments, Group("0, 1, 2") + keywords);
      ranks.Add(number, call);
    }
    const std::string name = fmt::format("Distributed.{}.0.forward", api);
    EXPECT_THAT(ranks.PartnersOf(1),
                ElementsAre(fmt::format("{0}: {1} 0={0} 2={0}", name, kind.first)));
    EXPECT_THAT(ranks.PartnersOf(2), ElementsAre(fmt::format("{0}: {1} 1={0}", name, kind.second)));
  }
  // Where the tool does not look for a root there is no partner.
  Ranks keyword;
  for (const int64_t rank : {0, 1}) {
    keyword.Add(rank, Made("Distributed.broadcast.0.forward", "",
                           Group("0, 1") + ", \"src\": " + Integer(0)));
  }
  EXPECT_THAT(keyword.PartnersOf(0), IsEmpty());
}

// What the Python tool has in no table is a collective of its group to it.
TEST(Partners, ObjectsAreACollectiveOfTheirGroup) {
  Ranks ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.Add(rank, Made("Distributed.send_object_list.0.forward", "",
                         Group("0, 1") + ", \"dst\": " + Integer(1)));
  }
  EXPECT_THAT(ranks.PartnersOf(1),
              ElementsAre("Distributed.send_object_list.0.forward: send_receive "
                          "0=Distributed.send_object_list.0.forward"));
}

TEST(Partners, OneRankAloneHasNone) {
  Ranks ranks;
  ranks.Add(0, Made("Distributed.all_reduce.0.forward", "", Group("0, 1")));
  EXPECT_THAT(ranks.PartnersOf(0), IsEmpty());
  EXPECT_THAT(ranks.PartnersOf(5), IsEmpty());
}

}  // namespace
}  // namespace msprobe::analysis::graph
