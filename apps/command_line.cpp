#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "build_info.h"
#include "first_step.h"
#include "help_format.h"
#include "hub_cache.h"
#include "paint.h"
#include "project_file.h"
#include "terminal.h"

namespace kvcal {
namespace {

// In the order of --help: the order in which a new user needs them.
constexpr void (*kVerbs[])(CLI::App&, Job&) = {
    add_inspect, add_plan,    add_prompts,  add_generate, add_calibrate, add_launch, add_stats,
    add_merge,   add_solve,   add_evaluate, add_export,   add_apply,     add_fold,   add_validate,
    add_doctor,  add_explain, add_report,   add_diff,     add_drift,
};

constexpr const char* kFooter =
    "Examples:\n"
    "  kvcal inspect ./Qwen3-0.6B                    what it caches, and how much\n"
    "  kvcal prompts ./Qwen3-0.6B -p chats.jsonl     what tokens it is fed\n"
    "  kvcal calibrate ./Qwen3-0.6B -p chats.jsonl   measure, and write the scales\n"
    "\n"
    "'kvcal VERB --help' lists a verb's options and shows examples.\n"
    "\n"
    "Exit codes: 0 success; 1 findings; 2 failure; 3 undecided; 130 interrupted.";

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string command_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? "kvcal" : "kvcal " + app.get_name();
}

// A required argument is missing.
class ArgumentMissing final : public Error {
  using Error::Error;
};

std::string usage_message(const CLI::App& app, const std::string& what) {
  const std::string verb = app.get_parent() == nullptr ? "" : app.get_name() + ": ";
  return verb + what + "; see '" + command_of(app) + " --help'";
}

[[noreturn]] void fail_usage(const CLI::App& app, const std::string& what) { fail(usage_message(app, what)); }

// The first argument that nothing wanted; the rest is usually a consequence of it.
[[noreturn]] void fail_extra(const CLI::App& app, const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') fail_usage(app, "unexpected argument " + quoted(argument));
  const std::string name = argument.substr(0, argument.find('='));
  const std::string nearest = nearest_match(name, option_names(app));
  fail_usage(app, "unknown option " + quoted(name) + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

// CLI11's "Could not convert: --threads = x" and "--out: 1 required FILE missing".
std::string in_our_words(std::string what) {
  std::replace(what.begin(), what.end(), '\n', ' ');
  static const std::regex not_converted("Could not convert: (\\S+) = (.*)"),
      missing("(\\S+): 1 required (\\S+) missing");
  std::smatch match;
  if (std::regex_match(what, match, not_converted)) return match[1].str() + ": invalid value " + quoted(match[2].str());
  if (std::regex_match(what, match, missing)) return match[1].str() + " needs a value, " + match[2].str();
  return what;
}

[[noreturn]] void fail_parse(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> verbs = const_cast<CLI::App&>(app).get_subcommands();
  const CLI::App& innermost = verbs.empty() ? app : *verbs.front();
  for (const CLI::App* level : {&app, &innermost})
    for (const std::string& argument : level->remaining(false))
      if (argument.size() > 1 && argument[0] == '-') fail_extra(*level, argument);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    throw ArgumentMissing(usage_message(innermost, in_our_words(error.what())));
  for (const CLI::App* level : {&app, &innermost})
    if (const auto rest = level->remaining(false); !rest.empty()) fail_extra(*level, rest.front());
  fail_usage(innermost, in_our_words(error.what()));
}

// What CLI11 calls by its type alone.
void name_value(CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type == "INT" || type == "UINT") option.type_name("N");
  if (type == "FLOAT") option.type_name("NUMBER");
}

CLI::Option& add_color(CLI::App& app) {
  return *app.add_option_function<std::string>(
                 "--color", choose_color,
                 "Color of answers and errors: auto (on a terminal, without NO_COLOR), always, never")
              ->type_name("WHEN");
}

Job print(std::string text) {
  return [text = std::move(text)] {
    write_lines(Lines::of_text(text));
    return Exit::Done;
  };
}

// "help", "help VERB" and "version", which other programs have for verbs.
std::vector<std::string> as_options(std::vector<std::string> arguments) {
  if (arguments.front() == "version") arguments.front() = "--version";
  if (arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.insert(arguments.begin() + std::min<std::ptrdiff_t>(1, std::ssize(arguments)), "--help");
  return arguments;
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& a) { return a == "-h" || a.starts_with("--help"); });
}

Job parse(std::vector<std::string> arguments);

/// Alone in a project: what is stale, and what follows.
Job project_step() {
  return [check = parse({"calibrate", "--check"})] {
    const Exit exit = check();
    if (exit == Exit::Findings) write_lines(Lines("next: calibrate:") + Lines("  kvcal calibrate --if-changed"));
    return exit;
  };
}

void add_verbs(CLI::App& app, Job& chosen) {
  for (const auto add : kVerbs) add(app, chosen);
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    verb->group("Verbs");
    for (CLI::Option* option : verb->get_options()) name_value(*option);
    add_color(*verb).group("");
    CLI::Option* const all = verb->set_help_all_flag("--help-all", "Print this help with all options");
    if (!has_rare_options(*verb)) all->group("");
  }
}

// 'kvcal' alone.
Job step_to_take(const CLI::App& app) {
  if (has_project_file()) return project_step();
  return [help = app.help()] {
    if (const Lines step = first_step(); !step.empty()) {
      write_lines(step);
      return Exit::Done;
    }
    say_lines(Lines::of_text(help));
    return Exit::Failure;
  };
}

Job parse(std::vector<std::string> arguments) {
  CLI::App app("Measures what a language model caches, and computes the scales of an FP8 cache.", "kvcal");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("-h,--help", "Print this help");
  bool version = false;
  app.add_flag("-V,--version", version, "Print version, commit, compiler and the backends built and found");
  add_color(app);
  app.set_help_all_flag("--help-all", "Print this help")->group("");
  app.footer(kFooter);

  Job chosen;
  add_verbs(app, chosen);
  if (arguments.empty()) return step_to_take(app);

  // Before CLI11 sees it: it would read on after an unknown verb and complain about something later.
  const std::vector<std::string> names = verb_names(app);
  arguments = as_options(std::move(arguments));
  const std::string first = arguments.front();
  if (!first.starts_with("-") && std::find(names.begin(), names.end(), first) == names.end())
    fail_unknown("verb", first, names);
  if (arguments.size() == 2 && (arguments[1] == "--version" || arguments[1] == "-V")) return print(version_text());

  const auto verb = std::ranges::find_first_of(arguments, names);
  if (verb != arguments.end() && has_project_file() && !asks_for_help(arguments))
    take_project_defaults(*app.get_subcommand(*verb));
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return print(app.help());
  } catch (const CLI::CallForAllHelp&) {
    return print(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::ParseError& error) {
    fail_parse(app, error);
  }
  if (version) return print(version_text());
  if (!chosen) fail_usage(app, "no verb given");
  return chosen;
}

// "--prompts a.jsonl MODEL -o out": the option took MODEL as a second file. The last model among the values that an
// option did not have to take is put first, where it is an argument.
std::optional<std::vector<std::string>> with_model_first(std::vector<std::string> arguments) {
  for (size_t i = arguments.size(); i-- > 2;) {
    if (arguments[i].starts_with("-") || arguments[i - 1].starts_with("-")) continue;
    if (!names_model(arguments[i])) continue;
    std::rotate(arguments.begin() + 1, arguments.begin() + static_cast<std::ptrdiff_t>(i),
                arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return arguments;
  }
  return std::nullopt;
}

}  // namespace

Job parse_command_line(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  // A project's model lets no argument of these be missing: --prompts would keep the folder.
  const bool reads_prompts = arguments.size() > 1 && (arguments[0] == "calibrate" || arguments[0] == "evaluate");
  if (reads_prompts && has_project_file() && !names_model(arguments[1]))
    arguments = with_model_first(arguments).value_or(arguments);
  try {
    return parse(arguments);
  } catch (const ArgumentMissing&) {
    const std::optional<std::vector<std::string>> better = with_model_first(arguments);
    if (!better) throw;
    return parse(*better);
  }
}

}  // namespace kvcal
