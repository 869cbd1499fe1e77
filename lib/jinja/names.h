// Which names a template calls undefined although somebody gave them.
#pragma once

#include "jinja/ast.h"

namespace kvcal::jinja {

/// The reference knows before a block runs which names it assigns: one that is assigned before it is read, going by the
/// text of the block itself, counts as undefined from the beginning of the block. Loops, macros and other inner blocks
/// in front of the assignment see that, and not a variable of the caller. Puts a Hide statement in front of every block
/// with such names. Throws Error for a name that the reference cannot resolve.
void hide_names_assigned_later(Block& body);

}  // namespace kvcal::jinja
