// Which run a dump belongs to, so that no run replaces or mixes with the dump of another.
#pragma once

#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/capture/step_folder.h"

namespace msprobe::capture {

// The run that this process is part of, the same for all processes of it where something tells:
// MSPROBE_RUN_ID (msprobe dump sets it), torchrun's id, else this process. Stands in manifest.json
// and in the log of a step.
const std::string& RunIdentity();

// Whether `run` is this one: the same identity, or a process that this one descends from. An empty
// `run` is an unknown one.
bool IsThisRun(std::string_view run);

// Whether `run` is a process that lives: a sibling that writes beside this one, perhaps.
bool IsLivingProcess(std::string_view run);

// The run that left its dump, or the records of one, in a rank folder. Empty: a dump that does not
// tell. kNotFound: there is none.
Result<std::string> RunOfDump(const base::Path& rank_folder);

// An error when another run's dump of this rank, of whatever step, is in place.dump_path. Other
// ranks of this run write beside it, and what is being written by a living process is theirs.
Status CheckOtherRuns(const StepPlace& place);

// The error that tells of another run's dump in `folder`, and the ways out.
Status OtherRunError(const base::Path& folder);

}  // namespace msprobe::capture
