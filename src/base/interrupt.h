// Ctrl-C and termination leave nothing half-written: files under temporary names are removed before
// the process ends.
#pragma once

#include <string>

namespace msprobe::base {

// Installs handlers for SIGINT, SIGTERM and SIGHUP that remove registered files and then let the
// signal end the process. An exception that cannot be caught (libraries throw for lack of memory
// where they promised not to) removes them too and ends the process with exit code 3 and a message.
void InstallInterruptCleanup();

// Ends a process that an exception leaves which nobody catches as above. Part of
// InstallInterruptCleanup(); alone for what runs before main().
void InstallTerminateCleanup();

// Registers a file, or a folder that is removed with all that is in it; returns a slot for
// ForgetOnInterrupt, or -1 when the table is full or the path too long (the file would then survive
// an interrupt under its temporary name, nothing worse).
int RemoveOnInterrupt(const std::string& path);
void ForgetOnInterrupt(int slot);

}  // namespace msprobe::base
