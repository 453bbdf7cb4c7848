#include "src/analysis/perf/idle_time.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/perf/kernel_names.h"
#include "src/analysis/perf/units.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::TextId;
using Kind = HostTree::Kind;

class Causes {
 public:
  explicit Causes(const DeviceWork& work) : work_(work), tree_(work.tree()) { FindLoaders(); }

  void AddGap(Nanoseconds from, Nanoseconds to, const WorkItem& next) {
    if (!next.has_launch) {
      Named("work whose launch is not in the profile", to - from);
      return;
    }
    const Nanoseconds launched = std::clamp(next.launched, from, to);
    if (launched > from) {
      tree_.VisitStretches(next.process, next.thread, from, launched,
                           [this](uint32_t node, Nanoseconds ns) { AddStretch(node, ns); });
      if (to > launched) {
        Named("launch latency", to - launched);
      }
    } else {
      Named("the device itself, between work launched in time", to - from);
    }
  }

  std::map<std::string, Amount> Take() {
    std::map<std::string, Amount> result;
    for (const Sum& sum : sums_) {
      Amount& amount = result[LabelOf(sum.node)];
      amount.ms += static_cast<double>(sum.ns) / kNsPerMs;
      amount.calls += sum.count;
    }
    for (const auto& [label, amount] : named_) {
      Amount& known = result[std::string(label)];
      known.ms += amount.ms;
      known.calls += amount.calls;
    }
    return result;
  }

 private:
  struct Sum {
    uint32_t node = HostTree::kNone;  // the first of its name
    Nanoseconds ns = 0;
    int64_t count = 0;
  };

  std::string_view NameOf(uint32_t node) const { return work_.profile().texts[tree_[node].name]; }

  // Whatever runs inside of a data loader is the data loader's.
  void FindLoaders() {
    const auto nodes = tree_.nodes();
    std::vector<uint8_t> is_loader(work_.profile().texts.size());
    for (TextId name = 0; name < is_loader.size(); ++name) {
      is_loader[name] =
          work_.profile().texts[name].find("DataLoader") != std::string_view::npos ? 1 : 0;
    }
    if (std::find(is_loader.begin(), is_loader.end(), 1) == is_loader.end()) {
      return;
    }
    loaders_.assign(nodes.size(), HostTree::kNone);
    for (uint32_t node = 0; node < nodes.size(); ++node) {
      const uint32_t parent = nodes[node].parent;
      loaders_[node] = parent != HostTree::kNone && loaders_[parent] != HostTree::kNone
                           ? loaders_[parent]
                       : is_loader[nodes[node].name] != 0 ? node
                                                          : HostTree::kNone;
    }
  }

  void AddStretch(uint32_t node, Nanoseconds ns) {
    if (node != HostTree::kNone && !loaders_.empty() && loaders_[node] != HostTree::kNone) {
      node = loaders_[node];
    }
    uint64_t key = UINT64_MAX;
    if (node != HostTree::kNone && tree_[node].kind != Kind::kStep) {
      TextId around = profile::kNoText;
      if (tree_[node].kind == Kind::kRuntime) {
        const uint32_t caller = tree_.OperatorOf(tree_[node].parent);
        around = caller == HostTree::kNone ? profile::kNoText : tree_[caller].name;
      }
      key = uint64_t{tree_[node].name} << 32U | around;
    }
    const auto [place, is_new] = places_.try_emplace(key, sums_.size());
    if (is_new) {
      sums_.push_back({node, 0, 0});
    }
    sums_[place->second].ns += ns;
    ++sums_[place->second].count;
  }

  void Named(std::string_view label, Nanoseconds ns) {
    Amount& amount = named_[label];
    amount.ms += static_cast<double>(ns) / kNsPerMs;
    ++amount.calls;
  }

  std::string LabelOf(uint32_t node) const {
    if (node == HostTree::kNone || tree_[node].kind == Kind::kStep) {
      return "python code outside of operators";
    }
    const std::string name = NeutralName(NameOf(node));
    switch (tree_[node].kind) {
      case Kind::kRuntime: {
        const uint32_t caller = tree_.OperatorOf(tree_[node].parent);
        return caller == HostTree::kNone
                   ? name
                   : name + " in " + base::Shortened(NameOf(caller), kLongestNameAround);
      }
      case Kind::kAnnotation:
        return name.find("DataLoader") != std::string::npos ? name : "python code in " + name;
      case Kind::kModule:
      case Kind::kPython:
        return "python: " + name;
      default:
        return name + " on the host";
    }
  }

  const DeviceWork& work_;
  const HostTree& tree_;
  std::vector<uint32_t> loaders_;  // of each node, the data loader that it runs in
  std::vector<Sum> sums_;
  std::unordered_map<uint64_t, size_t> places_;
  std::map<std::string_view, Amount> named_;
};

}  // namespace

std::map<std::string, Amount> IdleTimeByCause(const DeviceWork& work) {
  Causes causes(work);
  const auto items = work.items();
  const auto busy = work.busy().intervals();
  size_t next = 0;
  for (size_t i = 1; i < busy.size(); ++i) {
    const Nanoseconds from = busy[i - 1].end;
    const Nanoseconds to = busy[i].start;
    while (next < items.size() && items[next].start < to) {
      ++next;
    }
    const WorkItem* first = &items[next];
    for (size_t other = next; other < items.size() && items[other].start == to; ++other) {
      if (items[other].has_launch) {
        first = &items[other];
        break;
      }
    }
    causes.AddGap(from, to, *first);
  }
  return causes.Take();
}

}  // namespace msprobe::analysis::perf
