// A command-line case: a command and what is expected of it, in files beside each other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvcal::cli {

/// <verb>/<case>.cmd is given to sh. Its last line may be "# exits N"; beside it .stdout and .stderr say what is
/// expected, absent means silence. In an expected line * stands for any text; a line "..." stands for any lines, also
/// none.
struct Case {
  std::string name;            // "prompts/unknown_option"
  std::filesystem::path stem;  // path without extension
};

/// All cases below `folder`, sorted by name.
std::vector<Case> find_cases(const std::filesystem::path& folder);

/// What `kvcal VERB ... --json` printed, also where the case shows only a part of it.
struct JsonOutput {
  std::string verb, text;
};

struct Outcome {
  int exit = 0;  // 128 + number when a signal ended it, as sh reports it
  std::string out, err;
  std::vector<std::string> left_in_tree;  // files that the tree did not have before, and that git does not ignore
  std::vector<JsonOutput> json;           // of each such call
};

/// Names that stand for the places of this machine, in the command and in what is expected.
struct Places {
  std::filesystem::path program;  // $KVCAL, and `kvcal` by PATH
  std::filesystem::path source;   // $SOURCE, top of the tree
  std::filesystem::path build;    // $BUILD
  std::filesystem::path cmake;    // $CMAKE
};

/// Runs the command with no input in an empty folder that is removed afterwards. Longer than two minutes is a failure:
/// everything the command started is ended, and the exit code is 124. In the outputs the paths of the tree, the build
/// and the scratch folder are replaced by $SOURCE, $BUILD and $SCRATCH.
Outcome run(const Case& c, const Places& places);

/// What the files beside the command expect.
Outcome expected(const Case& c);

/// Whether the text has the form of the pattern.
bool matches(const std::string& pattern, const std::string& text);

/// Writes the outcome as the new expectation: only files that do not match already, so that wildcards survive.
void update(const Case& c, const Outcome& outcome);

}  // namespace kvcal::cli
