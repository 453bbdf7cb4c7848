#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/nan/propagation.h"
#include "src/base/strings.h"
#include "src/json/writer.h"

namespace msprobe::analysis::nan {
namespace {

struct Edge {
  size_t from = 0;
  size_t to = 0;
  bool is_communication = false;
};

struct GraphNode {
  uint32_t rank_place = 0;
  uint32_t operator_place = 0;
  bool is_origin = false;
};

// The operators that the propagation names, joined on each rank in the order in which they ran.
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<Edge> edges;
};

Graph MakeGraph(std::span<const Origin> origins, const Propagation& propagation) {
  std::map<std::pair<uint32_t, uint32_t>, bool> places;  // rank and operator: is it an origin?
  for (const Arrival& arrival : propagation.chain) {
    places[{arrival.from_rank, arrival.from_operator}] = false;
    places[{arrival.to_rank, arrival.to_operator}] = false;
  }
  for (const auto* list : {&propagation.consequences, &propagation.backward}) {
    for (const Consequence& consequence : *list) {
      places[{consequence.rank_place, consequence.operator_place}] = false;
    }
  }
  for (const Origin& origin : origins) {
    places[{origin.rank_place, origin.operator_place}] = true;
  }
  Graph graph;
  std::map<std::pair<uint32_t, uint32_t>, size_t> numbers;
  for (const auto& [place, is_origin] : places) {
    numbers[place] = graph.nodes.size();
    if (!graph.nodes.empty() && graph.nodes.back().rank_place == place.first) {
      graph.edges.push_back({graph.nodes.size() - 1, graph.nodes.size(), false});
    }
    graph.nodes.push_back({place.first, place.second, is_origin});
  }
  for (const Arrival& arrival : propagation.chain) {
    graph.edges.push_back({numbers[{arrival.from_rank, arrival.from_operator}],
                           numbers[{arrival.to_rank, arrival.to_operator}], true});
  }
  return graph;
}

}  // namespace

std::string GraphJson(std::span<const RankDump> ranks, std::span<const Origin> origins,
                      const Propagation& propagation) {
  const Graph graph = MakeGraph(origins, propagation);
  std::string text;
  json::Writer json(text, 2);
  json.BeginObject();
  json.Key("nodes");
  json.BeginArray();
  for (const GraphNode& node : graph.nodes) {
    const Operator& op = ranks[node.rank_place].operators[node.operator_place];
    json.BeginObject();
    json.Member("id", fmt::format("{}.{}", ranks[node.rank_place].rank, op.name));
    json.Member("rank", ranks[node.rank_place].rank);
    json.Member("op_name", op.name);
    json.Member("index", uint64_t{op.index});
    json.Member("is_origin", node.is_origin);
    json.Member("input", BadValuesText(op.input));
    json.Member("output", BadValuesText(op.output));
    json.EndObject();
  }
  json.EndArray();
  json.Key("edges");
  json.BeginArray();
  for (const Edge& edge : graph.edges) {
    const auto id = [&](size_t number) {
      const GraphNode& node = graph.nodes[number];
      return fmt::format("{}.{}", ranks[node.rank_place].rank,
                         ranks[node.rank_place].operators[node.operator_place].name);
    };
    json.BeginObject();
    json.Member("from", id(edge.from));
    json.Member("to", id(edge.to));
    json.Member("kind", edge.is_communication ? "communication" : "order");
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  text += '\n';
  return text;
}

std::string GraphMermaid(std::span<const RankDump> ranks, std::span<const Origin> origins,
                         const Propagation& propagation) {
  const Graph graph = MakeGraph(origins, propagation);
  std::string text = "flowchart TD\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const RankDump& rank = ranks[node.rank_place];
    if (i == 0 || graph.nodes[i - 1].rank_place != node.rank_place) {
      text += fmt::format("  subgraph rank{}\n", rank.rank);
    }
    const std::string name =
        base::ReplaceAll(base::Printable(rank.operators[node.operator_place].name), "\"", "'");
    text += fmt::format("    n{}[\"{}\"]{}\n", i, name, node.is_origin ? ":::origin" : "");
    if (i + 1 == graph.nodes.size() || graph.nodes[i + 1].rank_place != node.rank_place) {
      text += "  end\n";
    }
  }
  for (const Edge& edge : graph.edges) {
    text +=
        fmt::format("  n{} {} n{}\n", edge.from, edge.is_communication ? "==>" : "-->", edge.to);
  }
  text += "  classDef origin fill:#f88,stroke:#900\n";
  return text;
}

}  // namespace msprobe::analysis::nan
