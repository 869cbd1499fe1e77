// The rules of the tree, each a function from a file to what is wrong with it. They look at text, not at what a
// compiler makes of it: good enough for code that is not trying to hide.
#pragma once

#include <string>
#include <vector>

#include "rules/source_text.h"

namespace kvcal::rules {

using Findings = std::vector<std::string>;  // "path:line: what", empty when all is well

/// Who may include whom (the table is in rules.cpp), and which libraries may appear where.
Findings includes(const SourceFile& file);

/// An architecture file cannot name a device.
Findings architecture_names_no_device(const SourceFile& file);

/// lib/ never prints, exits, aborts or reads the environment.
Findings library_is_silent(const SourceFile& file);

/// Outside the tests only apps/terminal.cpp writes to standard output and standard error: by lines, which
/// lib/base/lines.h makes harmless whoever wrote their parts, and each in one write. Text of several lines
/// (Lines::of_text) comes in only where rules.cpp says what it is.
Findings one_way_to_print(const SourceFile& file);

/// No shell, no other program, no network, no locale; the environment is read for SOURCE_DATE_EPOCH and TERM, each
/// in its file; a shared library is opened in apps/device.cpp only.
Findings no_surprises(const SourceFile& file);

/// Only apps/device.cpp asks whether CUDA was built; the compiler is asked only in kernels/device and kernels/runtime.
Findings conditional_compilation(const SourceFile& file);

/// What clang 14 does not compile over libstdc++ 12: views and what returns them.
Findings no_views(const SourceFile& file);

/// At most 600 lines; above 400 only files that rules.cpp lists with a reason.
Findings length(const SourceFile& file);

/// A header says what it is for before anything else, then "#pragma once".
Findings header_opening(const SourceFile& file);

/// No folder of one particular machine.
Findings machine_paths(const SourceFile& file);

/// Tests that tests/gpu builds for a real device include nothing of the emulator.
Findings device_tests_name_no_emulator(const SourceFile& file);

/// Every entry of tests/arch/golden is named by a test source, or is a case (it has a golden.json) and a test is
/// instantiated over golden_cases().
Findings goldens_are_used(const std::vector<SourceFile>& tree);

/// README.md names every verb that apps/verbs.h declares, as "kvcal VERB", and the manual page describes it.
Findings verbs_are_documented(const std::vector<SourceFile>& tree);

/// "kvcal VERB" in sources, documents and the manual page names a verb of the table in apps/command_line.cpp.
Findings named_verbs_exist(const std::vector<SourceFile>& tree);

/// The top level has its known files and no others: what a test leaves in the folder that it was started in shows here.
Findings top_level_is_known(const std::vector<SourceFile>& tree);

}  // namespace kvcal::rules
