// Which run a dump belongs to, so that no run replaces or mixes with the dump of another.
#pragma once

#include <cstdint>
#include <optional>
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

// This process, as IsLivingProcess reads it: another one that is given the same number later has
// another name. Stands in manifest.json.
std::string ProcessIdentity();

// Whether a process of this name lives on this host. One that has ended and is not waited for yet
// does not.
bool IsLivingProcess(std::string_view process);

// The run that left its dump, or the records of one, in a rank folder. Empty: a dump that does not
// tell. kNotFound: there is none.
Result<std::string> RunOfDump(const base::Path& rank_folder);

// An error when a dump of this rank, of whatever step, is in place.dump_path that belongs to
// another run, or to a living process of this one. Other ranks of this run write beside it.
Status CheckOtherRuns(const StepPlace& place);

// What is known before a run: an error when a dump that has been finished on this host, or long
// ago, is in dump_path and belongs to another run, which this one would neither replace nor add to.
// `rank`: the only one that will be written, if that is known. Not an error: what may be another
// node's part of this run, which nobody here can see the processes of.
Status CheckBeforeRun(const std::string& dump_path, std::optional<int64_t> rank);

// An error (kUsage) when a living process of this run other than this one left its dump in a rank
// folder: a script that started this process, say, and is between two steps of its own.
Status CheckLivingOwner(const base::Path& rank_folder);

// The error that tells of a folder that another process has.
Status BusyError(const base::Path& folder);

// Whether the dump of another run may be replaced: MSPROBE_REPLACE_DUMP is set and not empty.
bool ReplacesOtherRuns();

// The error that tells of another run's dump in `folder`, and the ways out.
Status OtherRunError(const base::Path& folder);

}  // namespace msprobe::capture
