// Rules of what the tree says about itself: whatever is named is there, and nothing outside is needed.
#pragma once

#include <vector>

#include "rules/rules.h"

namespace kvcal::rules {

/// A file of ours that a comment or a document names exists. Taken for ours: *.md, *.h, *.cuh, *.cpp and *.sh wherever
/// they lie, by name or with folders before it; other kinds when they begin with a folder of the top level. Servers'
/// sources are *.py and *.cu.
Findings cited_files_exist(const std::vector<SourceFile>& tree);

/// A document of docs/ that is named with a section, in quotes behind a comma, has a heading of that name.
Findings cited_sections_exist(const std::vector<SourceFile>& tree);

/// No path leads out of the tree: nobody else has what lies beside it.
Findings paths_stay_inside(const SourceFile& file);

/// A test that may skip is listed in references.cpp with what the machine lacks then. What the tree should hold is no
/// reason.
Findings skips_have_reasons(const SourceFile& file);

/// A class, struct, union or enum of namespace kvcal is defined once in the tree, anonymous namespaces apart: two
/// types of one name in one program are undefined behavior that no compiler reports.
Findings types_are_defined_once(const std::vector<SourceFile>& tree);

}  // namespace kvcal::rules
