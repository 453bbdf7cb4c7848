#include "src/analysis/ckpt/layers.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/kernels/convert.h"

namespace msprobe::analysis::ckpt {
namespace {

struct Layer {
  std::string name;
  double difference = 0;  // lengths: their squares may leave the range of double
  double length = 0;
  bool non_finite = false;
};

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

void Merge(Layer& into, const Layer& next) {
  into.difference = kernels::Hypotenuse(into.difference, next.difference);
  into.length = kernels::Hypotenuse(into.length, next.length);
  into.non_finite = into.non_finite || next.non_finite;
}

std::string_view StemOf(std::string_view layer) {
  const size_t dot = layer.rfind('.');
  return dot != std::string_view::npos && IsNumber(layer.substr(dot + 1)) ? layer.substr(0, dot)
                                                                          : std::string_view();
}

// Joins `run` neighbours of one stack.
std::vector<Layer> Joined(const std::vector<Layer>& layers, size_t run) {
  std::vector<Layer> joined;
  for (size_t i = 0; i < layers.size();) {
    const std::string_view stem = StemOf(layers[i].name);
    Layer group = layers[i];
    size_t end = i + 1;
    while (!stem.empty() && end < layers.size() && end - i < run &&
           StemOf(layers[end].name) == stem) {
      Merge(group, layers[end++]);
    }
    if (end - i > 1) {
      group.name += fmt::format("-{}", layers[end - 1].name.substr(stem.size() + 1));
    }
    joined.push_back(std::move(group));
    i = end;
  }
  return joined;
}

}  // namespace

std::string_view LayerOf(std::string_view parameter) {
  size_t begin = 0;
  while (begin <= parameter.size()) {
    const size_t dot = std::min(parameter.find('.', begin), parameter.size());
    if (begin > 0 && IsNumber(parameter.substr(begin, dot - begin))) {
      return parameter.substr(0, dot);
    }
    begin = dot + 1;
  }
  const size_t last = parameter.rfind('.');
  return last == std::string_view::npos ? parameter : parameter.substr(0, last);
}

std::vector<LayerDifference> LayerDifferences(std::span<const PairResult> pairs, size_t limit) {
  std::vector<Layer> layers;
  std::unordered_map<std::string_view, size_t> places;
  for (const PairResult& pair : pairs) {
    if (!pair.computed()) {
      continue;
    }
    const std::string_view name = LayerOf(pair.name);
    const auto [place, added] = places.emplace(name, layers.size());
    if (added) {
      layers.push_back({std::string(name)});
    }
    const bool non_finite = pair.has_non_finite();
    Merge(layers[place->second], {{},
                                  non_finite ? 0 : pair.metrics.l2.value_or(0),
                                  non_finite ? 0 : pair.metrics.norm_b,
                                  non_finite && pair.outcome > Outcome::kEqual});
  }
  std::vector<Layer> shown = layers;
  for (size_t run = 2; shown.size() > limit && run <= layers.size(); run *= 2) {
    shown = Joined(layers, run);
  }
  std::vector<LayerDifference> differences;
  for (const Layer& layer : shown) {
    const double relative = layer.non_finite        ? std::numeric_limits<double>::quiet_NaN()
                            : layer.difference == 0 ? 0
                                                    : layer.difference / layer.length;
    differences.push_back({layer.name, relative});
  }
  return differences;
}

}  // namespace msprobe::analysis::ckpt
