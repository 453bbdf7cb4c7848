#include "src/analysis/compare/containment.h"

#include <functional>

namespace msprobe::analysis::compare {
namespace {

// Of a module path. Each one is hashed whole: a name of nothing but dots would take the square of
// its length.
constexpr int kMostLevels = 1000;

}  // namespace

Containment::Containment(const Side& side, const ExecutionPlan& plan,
                         const dump::ConstructFile* construct)
    : side_(side),
      plan_(plan),
      construct_(construct != nullptr && !construct->empty() ? construct : nullptr) {}

uint64_t Containment::PathPrint(std::string_view path, dump::Direction direction) {
  return std::hash<std::string_view>()(path) * 3 + static_cast<uint64_t>(direction);
}

void Containment::MarkDiverging(uint32_t entry) {
  if (construct_ != nullptr) {
    // Ends at a parent marked before, so every name is walked once, also when the file runs in
    // circles.
    for (std::string_view parent = construct_->ParentOf(side_.entries[entry].name); !parent.empty();
         parent = construct_->ParentOf(parent)) {
      if (!names_.insert(parent).second) {
        return;
      }
    }
    return;
  }
  const dump::EntryName& name = plan_.names[entry];
  if (!name.is_module) {
    return;
  }
  std::string_view path = name.subject;
  int level = 0;
  for (size_t dot = path.rfind('.'); dot != std::string_view::npos && level < kMostLevels;
       dot = path.rfind('.'), ++level) {
    path = path.substr(0, dot);
    if (!paths_.insert(PathPrint(path, name.direction)).second) {
      return;
    }
  }
}

void Containment::NoteError(uint32_t entry, double error) {
  if (construct_ != nullptr) {
    // An error no larger than one noted before is known to all parents: also where the file runs in
    // circles.
    for (std::string_view parent = construct_->ParentOf(side_.entries[entry].name); !parent.empty();
         parent = construct_->ParentOf(parent)) {
      double& largest = name_errors_[parent];
      if (error <= largest) {
        return;
      }
      largest = error;
    }
    return;
  }
  const dump::EntryName& name = plan_.names[entry];
  if (!name.is_module) {
    return;
  }
  std::string_view path = name.subject;
  int level = 0;
  for (size_t dot = path.rfind('.'); dot != std::string_view::npos && level < kMostLevels;
       dot = path.rfind('.'), ++level) {
    path = path.substr(0, dot);
    double& largest = path_errors_[PathPrint(path, name.direction)];
    if (error <= largest) {
      return;
    }
    largest = error;
  }
}

double Containment::InnerError(uint32_t entry) const {
  if (construct_ != nullptr) {
    const auto found = name_errors_.find(side_.entries[entry].name);
    return found == name_errors_.end() ? 0 : found->second;
  }
  const dump::EntryName& name = plan_.names[entry];
  const auto found = name.is_module ? path_errors_.find(PathPrint(name.subject, name.direction))
                                    : path_errors_.end();
  return found == path_errors_.end() ? 0 : found->second;
}

bool Containment::ContainsDiverging(uint32_t entry) const {
  if (construct_ != nullptr) {
    return names_.contains(side_.entries[entry].name);
  }
  const dump::EntryName& name = plan_.names[entry];
  return name.is_module && paths_.contains(PathPrint(name.subject, name.direction));
}

bool Containment::IsInside(uint32_t entry, uint32_t module) const {
  const std::string_view wanted = side_.entries[module].name;
  if (construct_ != nullptr) {
    constexpr int kDeepest = 256;  // a damaged file may run in circles
    int depth = 0;
    for (std::string_view parent = construct_->ParentOf(side_.entries[entry].name);
         !parent.empty() && depth < kDeepest; parent = construct_->ParentOf(parent), ++depth) {
      if (parent == wanted) {
        return true;
      }
    }
    return false;
  }
  const std::string_view path = plan_.names[module].subject;
  const dump::EntryName& inner = plan_.names[entry];
  return inner.is_module && inner.subject.size() > path.size() && inner.subject.starts_with(path) &&
         inner.subject[path.size()] == '.';
}

std::string_view Containment::ParentOf(uint32_t entry) const {
  return construct_ == nullptr ? std::string_view()
                               : construct_->ParentOf(side_.entries[entry].name);
}

std::string Containment::LayerOf(uint32_t entry) const {
  const dump::EntryName& own = plan_.names[entry];
  const dump::EntryName module =
      own.is_module || own.is_parameters_grad ? own : dump::ParseEntryName(ParentOf(entry));
  if (!module.is_module && !module.is_parameters_grad) {
    return {};
  }
  std::string layer(module.subject);
  if (!module.class_name.empty()) {
    layer.append(" (").append(module.class_name).append(")");
  }
  return layer;
}

}  // namespace msprobe::analysis::compare
