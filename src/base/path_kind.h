// What a path leads to, where "nothing" and "the system does not tell" are not the same.
//
// A program that takes an unreadable folder for a missing one gives an answer about less than it
// was asked. So these say no as std::filesystem does, but remember that a look failed.
#pragma once

#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::base {

// A link counts as what it leads to.
bool Exists(const Path& path);
bool IsFolder(const Path& path);
bool IsRegularFile(const Path& path);

// Sorted names of a folder's entries; none of a folder that is not there or cannot be listed.
std::vector<std::string> NamesIn(const Path& folder);

// For those who go on without a file that is there and could not be read. Missing is no reason.
void NoteUnseen(const Status& status);

// An error that names the first path that could not be looked at (an I/O error, no permission)
// since the program began; asked before it ends. Thread-safe, as all here.
Status CheckUnseenPaths();

}  // namespace msprobe::base
