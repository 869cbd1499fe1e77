// The prompts of a command line: the options that `prompts`, `calibrate` and `generate` share.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fed_prompts.h"

namespace CLI {
class App;
}

namespace kvcal {

struct PromptFlags {
  std::vector<std::string> files;  // empty: the prompt set that comes with the program
  bool skip_bad = false;
  std::string template_kwargs;  // JSON object
  std::string date;             // for templates that print today's date
  int64_t max_length = 2048;
  int64_t max_prompts = 0, max_tokens = 0;  // 0 = all
  NeedleOptions needles;                    // without lengths: none

  void add_to(CLI::App& verb);

  /// Files and tokenization only, without the options that select prompts.
  void add_files_to(CLI::App& verb);

  /// After the others: needles replace what those select.
  void add_needles_to(CLI::App& verb);

  /// Throws Error naming the invalid option.
  PromptOptions resolve() const;
};

/// The flags as words of another command line; without needles.
std::vector<std::string> words_of(const PromptFlags& flags);

/// Reads the files of the flags. Without files: the shipped prompts, as raw text where `chat` says that the model has
/// no chat template.
PromptSet read_prompt_files(const PromptFlags& flags, bool chat);

}  // namespace kvcal
