// What 'kvcal' alone says: the next command, by what lies in the current folder.
#pragma once

#include <string>

#include "base/lines.h"

namespace kvcal {

/// Lines for a new user; "" where nothing is recognized. Runs nothing and writes nothing.
Lines first_step();

}  // namespace kvcal
