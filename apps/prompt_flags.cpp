#include "prompt_flags.h"

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "prompts/default_prompts.h"
#include "prompts/haystack.h"
#include "source_date.h"

namespace kvcal {
namespace {

constexpr const char* kGroup = "Prompts";

}  // namespace

void PromptFlags::add_files_to(CLI::App& verb) {
  verb.add_option("-p,--prompts", files,
                  "Prompt files (.jsonl, .json or .txt, optionally .gz or .zst); - reads standard input (default: the "
                  "shipped set)")
      ->group(kGroup)
      ->type_name("FILE");
  verb.add_option("--max-length", max_length, "Truncate prompts to N tokens; 0: no limit")
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--template-kwargs", template_kwargs, "Variables for the chat template, as a JSON object")
      ->group(kGroup)
      ->type_name("JSON");
  verb.add_option("--date", date, "Date for chat templates that print today's, YYYY-MM-DD")
      ->group(kGroup)
      ->type_name("DATE");
}

void PromptFlags::add_to(CLI::App& verb) {
  add_files_to(verb);
  verb.add_option("--max-prompts", max_prompts, "Use only the first N prompts, in order of their ids")
      ->group(kGroup)
      ->type_name("N");
  verb.add_option("--max-tokens", max_tokens, "Use prompts in order of their ids, up to N tokens")
      ->group(kGroup)
      ->type_name("N");
  verb.add_flag("--skip-bad", skip_bad, "Skip bad prompts with a warning instead of stopping")->group(kGroup);
}

void PromptFlags::add_needles_to(CLI::App& verb) {
  CLI::Option* lengths = verb.add_option("--needles", needles.lengths,
                                         "Hide a number in the prompts' text instead, in prompts of N tokens")
                             ->group(kGroup)
                             ->delimiter(',')
                             ->type_name("N");
  verb.add_option("--needle-depths", needles.depths, "Percent of the text before the needle")
      ->group(kGroup)
      ->delimiter(',')
      ->type_name("N")
      ->default_str("0,25,50,75,100")
      ->needs(lengths);
  for (const char* selecting : {"--max-length", "--max-prompts", "--max-tokens"})
    if (CLI::Option* option = verb.get_option_no_throw(selecting)) lengths->excludes(option);
}

std::vector<std::string> words_of(const PromptFlags& flags) {
  const PromptFlags usual;
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  for (const std::string& file : flags.files) add("--prompts", file);
  if (flags.max_length != usual.max_length) add("--max-length", std::to_string(flags.max_length));
  if (flags.max_prompts != usual.max_prompts) add("--max-prompts", std::to_string(flags.max_prompts));
  if (flags.max_tokens != usual.max_tokens) add("--max-tokens", std::to_string(flags.max_tokens));
  if (!flags.template_kwargs.empty()) add("--template-kwargs", flags.template_kwargs);
  if (!flags.date.empty()) add("--date", flags.date);
  if (flags.skip_bad) words.emplace_back("--skip-bad");
  return words;
}

PromptSet read_prompt_files(const PromptFlags& flags, bool chat) {
  PromptLoadOptions options;
  options.skip_bad = flags.skip_bad;
  // Of others that cannot be fed, or are only text for needles, more may be needed.
  if (!flags.skip_bad && flags.needles.lengths.empty()) options.first = static_cast<size_t>(flags.max_prompts);
  if (!flags.files.empty()) return load_prompts({flags.files.begin(), flags.files.end()}, options);
  // Messages name the file by its place in the source tree, wherever the program lies.
  PromptSet shipped = parse_prompts(default_prompts(), "datasets/default.jsonl", options);
  if (!chat) make_chats_plain(shipped);
  return shipped;
}

PromptOptions PromptFlags::resolve() const {
  if (max_prompts < 0 || max_tokens < 0) fail("--max-prompts and --max-tokens cannot be negative");
  if (max_length < 0) fail("--max-length is " + std::to_string(max_length) + ", expected 0 or more");
  PromptOptions options;
  options.max_length = max_length;
  options.max_prompts = max_prompts;
  options.max_tokens = max_tokens;
  options.skip_bad = skip_bad;
  if (!template_kwargs.empty()) {
    options.template_kwargs =
        while_doing("--template-kwargs", [&] { return parse_json(template_kwargs, {.keep_large_integers = true}); });
    if (!options.template_kwargs.is_object())
      fail("--template-kwargs is not a JSON object, expected one such as {\"x\": true}");
  }
  if (!needles.lengths.empty()) {
    while_doing("--needles", [&] { check(needles); });
    options.needles = needles;
    options.max_length = 0;
  }
  options.unix_seconds = source_date_epoch();
  if (!date.empty()) options.unix_seconds = while_doing("--date", [&] { return parse_date(date); });
  return options;
}

}  // namespace kvcal
