// The user's own code in a recorded call stack: the one list of what is not his.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msprobe::dump {

// False for frames of the framework, of this tool, of installed packages and of Python's own
// library, and for those that say how a call was made and not where: `_call_impl` and `__call__`
// run hooks around a module's forward.
bool IsUserFrame(std::string_view frame);

// The frames of the user's own code, innermost first; all of them where there are none.
std::vector<std::string> UserFrames(const std::vector<std::string>& frames);

// The innermost of UserFrames as "models.py:43 in forward: return self.fc2(x)"; empty for an empty
// stack.
std::string UserCodeLine(const std::vector<std::string>& frames);

}  // namespace msprobe::dump
