// Folders that CreateFolders() made for a result that never came: a command that fails, or has
// nothing to write, must not leave an empty folder behind.
#pragma once

namespace msprobe::base {

// From now on CreateFolders() notes the folders that it makes. For short-lived programs.
void NoteNewFolders();

// Removes those of them that are empty, the innermost first.
void RemoveEmptyNewFolders();

}  // namespace msprobe::base
