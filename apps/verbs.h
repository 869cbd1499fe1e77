// The verbs of the program. Each is one file, apps/<verb>.cpp, with three parts: the flags as typed, resolve (opens
// files, checks, may throw), and run. To add one: write the file, declare it here, put it into the table of
// command_line.cpp and into apps/CMakeLists.txt.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace kvcal {

/// Exit status of the process; --help and the manual page list the same numbers.
enum class Exit : int {
  Done = 0,
  Findings = 1,       // validate, doctor, diff, drift, inspect, a quality gate: the job was done and found something
  Failure = 2,        // failed, or was not understood
  Undecided = 3,      // evaluate: the prompts do not show whether a limit is kept
  Interrupted = 130,  // SIGINT, SIGTERM
};

/// What a command line asks for, ready to run.
using Job = std::function<Exit()>;

/// Adds the verb to the command line. When the user chooses it, `chosen` becomes its job; nothing is opened before that
/// job runs. Results go to standard output, everything else to standard error; errors are thrown.
void add_apply(CLI::App& app, Job& chosen);
void add_calibrate(CLI::App& app, Job& chosen);
void add_diff(CLI::App& app, Job& chosen);
void add_doctor(CLI::App& app, Job& chosen);
void add_drift(CLI::App& app, Job& chosen);
void add_evaluate(CLI::App& app, Job& chosen);
void add_explain(CLI::App& app, Job& chosen);
void add_export(CLI::App& app, Job& chosen);
void add_fold(CLI::App& app, Job& chosen);
void add_generate(CLI::App& app, Job& chosen);
void add_inspect(CLI::App& app, Job& chosen);
void add_launch(CLI::App& app, Job& chosen);
void add_merge(CLI::App& app, Job& chosen);
void add_plan(CLI::App& app, Job& chosen);
void add_prompts(CLI::App& app, Job& chosen);
void add_report(CLI::App& app, Job& chosen);
void add_solve(CLI::App& app, Job& chosen);
void add_stats(CLI::App& app, Job& chosen);
void add_validate(CLI::App& app, Job& chosen);

}  // namespace kvcal
