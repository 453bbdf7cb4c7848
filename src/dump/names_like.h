// What somebody may mean who asks for a call that is not there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::dump {

// Up to five of `names`, of which none is `word`: those of the same subject first, then those with
// the word in them; where there are none, those whose subject is a slip of the finger away. Sorted,
// each once.
std::vector<std::string> NamesLike(std::string_view word, std::span<const std::string> names);

// For a message: "it has <names>"; without names near, how `json` shows what it has.
std::string NamesLikeHint(std::string_view word, std::span<const std::string> names,
                          const std::string& json);

}  // namespace msprobe::dump
