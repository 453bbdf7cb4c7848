// A rank as one process hands it to another (base/shared_run.h): the reduced dump, or why there is
// none, and what its operators show each by itself.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/nonfinite/rank_dump.h"
#include "src/analysis/nonfinite/search.h"
#include "src/base/packed.h"

namespace msprobe::analysis::nonfinite {

struct RankPart {
  Status status;  // not ok: the rank cannot be read
  RankDump dump;
  std::vector<LevelFinding> levels;  // only where they are asked for
  Status levels_status;              // not ok: the rank's calls cannot be judged one by one
};

template <typename Archive>
void PackMembers(Archive& archive, Operator& op) {
  constexpr bool kReads = requires { archive.Fail(); };
  archive(op.text_offset, op.text_bytes, op.index, op.call, op.input, op.output);
  archive.Choice(op.behaviour, static_cast<size_t>(Behaviour::kLowestMask) + 1);
  archive(op.inputs_look_like_masks, op.is_module, op.takes_no_masks, op.has_bad_parameters,
          op.is_recompute);
  if constexpr (kReads) {
    constexpr BadValues kAll = kNan | kPositiveInfinity | kNegativeInfinity | kTooLarge;
    if (op.input > kAll || op.output > kAll) {
      archive.Fail();
    }
  }
}

template <typename Archive>
void PackMembers(Archive& archive, EndpointValues& values) {
  archive(values.operator_place, values.data, values.output);
}

template <typename Archive>
void PackMembers(Archive& archive, LevelFinding& finding) {
  archive(finding.rank, finding.name);
  archive.Choice(finding.level, static_cast<size_t>(Level::kCritical) + 1);
  archive.Choice(finding.scene, static_cast<size_t>(Scene::kMutation) + 1);
  archive(finding.bad_arguments, finding.bad_keywords, finding.bad_outputs);
}

template <typename Archive>
void PackMembers(Archive& archive, RankDump& dump) {
  constexpr bool kReads = requires { archive.Fail(); };
  archive(dump.rank);
  if constexpr (kReads) {
    dump = RankDump(dump.rank);
  }
  archive(dump.folder, dump.is_mindspore, dump.damaged, dump.truncated, dump.warnings,
          dump.operator_count, dump.has_statistics, dump.size_bytes, dump.operators,
          dump.communications, dump.endpoints);
  for (Operator& op : dump.operators) {
    std::string name(op.name);
    archive(name);
    if constexpr (kReads) {
      op.name = dump.names->Keep(name);
    }
  }
  if constexpr (kReads) {
    bool is_whole = dump.endpoints.size() == dump.communications.endpoints().size();
    for (const EndpointValues& values : dump.endpoints) {
      is_whole = is_whole && values.operator_place < dump.operators.size();
    }
    for (const Operator& op : dump.operators) {
      is_whole =
          is_whole && (op.call == Operator::kNoCall || op.call < dump.communications.call_count());
    }
    if (!is_whole) {
      archive.Fail();
    }
  }
}

template <typename Archive>
void PackMembers(Archive& archive, RankPart& part) {
  archive(part.status, part.dump, part.levels, part.levels_status);
}

}  // namespace msprobe::analysis::nonfinite
