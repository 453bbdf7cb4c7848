// The line of the user's own code in a recorded call stack.
#pragma once

#include <string>
#include <vector>

namespace msprobe::analysis::compare {

// The innermost frame outside the framework, the tool and installed packages, as "models.py:43 in
// forward: return self.fc2(x)"; the innermost frame at all when every one of them is inside; empty
// for an empty stack.
std::string UserCodeLine(const std::vector<std::string>& frames);

}  // namespace msprobe::analysis::compare
