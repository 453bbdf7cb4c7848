// Results under temporary names carry a lock while somebody works on them. A killed process leaves
// its names and loses its locks: the next one that writes into the folder removes what nobody
// holds.
#pragma once

#include <cstdint>
#include <functional>

#include "src/base/files.h"

namespace msprobe::base {

// Marks a file or folder that this process has just made as being worked on, until its descriptor
// and all copies of it are closed. False when somebody who looks for leftovers was faster and has
// removed it: make another one. True where there are no locks, too.
bool MarkUnfinished(int descriptor);

// A marked file or folder. `make` makes it under a name that must not exist and gives its
// descriptor, or -1 with errno. It is called again when somebody who looks for leftovers was
// faster. The caller closes the descriptor. -1 with errno when it cannot be made.
int MakeUnfinished(const std::function<int()>& make);

enum class Leftovers : uint8_t {
  kOfResults,   // in a folder for results
  kOfLaunchers  // in the folder for temporary files, those of workers as well
};

// Removes what killed processes of this user left in `folder`, which is looked through once per
// process. Only on file systems of this machine, whose locks are seen by all who could write there.
// What cannot be looked at or removed stays.
void RemoveAbandoned(const Path& folder, Leftovers kind = Leftovers::kOfResults) noexcept;
// The same for an open folder; O_PATH will do.
void RemoveAbandonedIn(int folder, Leftovers kind = Leftovers::kOfResults) noexcept;

}  // namespace msprobe::base
