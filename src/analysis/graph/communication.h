// Which calls of different ranks are one communication.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/analysis/graph/rank_dump.h"
#include "src/analysis/graph/scores.h"

namespace msprobe::analysis::graph {

// A node at the other end of a communication, as the files tell it.
struct PartnerNode {
  std::string figure;  // its precision, or its level of overflow; "Nan": none
  std::string name;
};

// The other ends of a communication. Of a collective of many ranks they are many, and every rank
// names them: nodes and texts are those of the PartnerFinder.
struct Partners {
  std::string_view kind;                                      // "send", "receive", "send_receive"
  std::vector<std::pair<int64_t, const PartnerNode*>> nodes;  // by rank, rising
};

// Of one rank: by name of the node; several where one call makes several transfers.
using PartnersOfNodes = std::unordered_map<std::string_view, std::vector<Partners>>;

// A transfer or a part of a collective, as one rank tells it. Texts are its own, so that it
// outlives the rank's dump.
struct CommunicationCall {
  std::string key;          // equal for the parts of a collective, and what partner_key names
  std::string partner_key;  // of a point-to-point call: what the other side is called
  PartnerNode node;
  std::string first_output;     // type, shape and statistics
  std::optional<int64_t> peer;  // of a point-to-point call: the other rank
  std::vector<int64_t> group;   // of a collective
  std::optional<int64_t> root;  // of a one-to-many collective
  std::string_view kind;
  bool is_point_to_point = false;
};

struct RankCommunications {
  int64_t rank = 0;
  std::vector<CommunicationCall> calls;  // in the order of the nodes
};

bool IsCommunicationName(std::string_view node_name);

// The calls of one rank. `scores`: by node. With `with_levels` figures are levels of overflow.
Result<RankCommunications> ReadCommunications(int64_t rank, const RankDump& dump,
                                              const Graph& graph,
                                              const std::vector<NodeScore>& scores,
                                              bool with_levels);

// Who communicates with whom, for one rank after the other: of many ranks a collective names all of
// the others at each of them. Calls are told apart by their kind, their group and how often it was
// called before. By the rules of 8.1.1 a send and its receive must also tell the same values.
class PartnerFinder {
 public:
  PartnerFinder(std::vector<RankCommunications> ranks, Edition edition);
  PartnerFinder(PartnerFinder&&) = default;
  PartnerFinder& operator=(PartnerFinder&&) = default;

  // Borrows from the finder. Empty for a rank that is not known.
  PartnersOfNodes Of(int64_t rank) const;

 private:
  // Keys are long, and every rank asks for each of them at every other one: they have numbers.
  using KeyNumber = uint32_t;
  struct RankCalls {
    std::vector<KeyNumber> keys;  // by call
    std::unordered_map<KeyNumber, const CommunicationCall*> by_key;
  };

  const CommunicationCall* Find(int64_t rank, KeyNumber key) const;
  const CommunicationCall* Find(int64_t rank, std::string_view key) const;

  std::vector<RankCommunications> ranks_;
  std::vector<RankCalls> calls_;  // by rank
  std::unordered_map<std::string_view, KeyNumber> numbers_;
  std::unordered_map<int64_t, size_t> place_of_rank_;
  Edition edition_ = Edition::k26;
};

}  // namespace msprobe::analysis::graph
