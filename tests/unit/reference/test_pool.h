// The threads that tests compute on.
#pragma once

#include "src/base/threads.h"

namespace msprobe::reference {

inline base::ThreadPool& Pool() {
  static base::ThreadPool pool(3);
  return pool;
}

}  // namespace msprobe::reference
