#include "help_format.h"

#include <algorithm>
#include <sstream>

namespace kvcal {
namespace {

constexpr size_t kColumns = 80, kNameColumns = 26, kVerbColumns = 13;

// Spaces become line breaks, so that no line is longer than `width`; lines that the text has already stay apart.
std::string wrapped(std::string text, size_t width, const std::string& indent = "") {
  for (size_t begin = 0; text.size() - begin > width;) {
    const std::string_view line = std::string_view(text).substr(begin, width + 1);
    size_t end = line.find('\n');
    const bool is_own = end != line.npos;
    if (!is_own) end = line.rfind(' ');
    if (end == line.npos || line.find_first_not_of(' ') > end) break;
    text.replace(begin + end, 1, "\n" + (is_own ? "" : indent));
    begin += end + 1;
  }
  return text;
}

bool is_text(std::string_view line) { return !line.empty() && !line.starts_with(' '); }

// Not the title of what follows.
bool is_prose(std::string_view line) { return is_text(line) && !line.ends_with(':'); }

// Lines of prose become one. Examples and tables, which are indented, stay as they are.
std::string unwrapped(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  std::string before;
  for (std::string line; std::getline(lines, line); before = line) {
    if (!out.empty()) out += is_prose(before) && is_text(line) ? " " : "\n";
    out += line;
  }
  return out;
}

// Where the second column of "  vllm         a checkpoint ..." begins; 0 of another line.
size_t second_column(std::string_view line) {
  const size_t gap = line.starts_with("  ") ? line.find("  ", 3) : line.npos;
  return gap == line.npos ? 0 : line.find_first_not_of(' ', gap);
}

// Groups of options that most users leave alone.
bool is_rare(const std::string& group) { return group == "Run" || group.starts_with("Assessment limits"); }

}  // namespace

bool has_rare_options(const CLI::App& verb) {
  return std::ranges::any_of(verb.get_options(), [](const CLI::Option* o) { return is_rare(o->get_group()); });
}

HelpFormat::HelpFormat() {
  column_width(kNameColumns);
  label("Positionals", "Arguments");
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "\nUsage: " + name;
  for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_positional(); }))
    usage += " " + make_option_usage(option);
  if (!app->get_subcommands([](const CLI::App*) { return true; }).empty()) usage += " VERB";
  return usage + " [options]\n";
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  // A positional is shown by its name, which says what it is; flags take no value.
  if (option->get_positional() || option->get_type_size() == 0) return "";
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  const std::string value = option->get_type_name();
  return " " + value.substr(0, value.find(':')) + (many ? "..." : "");  // what CLI11 checks stands behind the colon
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (const std::string fallback = option->get_default_str(); !fallback.empty())
    text.insert(std::min(text.find('\n'), text.size()), " [" + fallback + "]");
  return wrapped(text, kColumns - kNameColumns);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
         groups(app, mode == CLI::AppFormatMode::All) + make_subcommands(app, CLI::AppFormatMode::Normal) + "\n" +
         make_footer(app);
}

std::string HelpFormat::groups(const CLI::App* app, bool all) const {
  std::string text, rare;
  for (const std::string& group : app->get_groups()) {
    const auto options =
        app->get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); });
    if (group.empty() || options.empty()) continue;
    if (is_rare(group) && !all)
      for (const CLI::Option* option : options) rare += (rare.empty() ? "" : ", ") + option->get_name();
    else
      text += make_group(group, false, options);
  }
  return rare.empty() ? text : text + "\n" + wrapped("More, with --help-all: " + rare, kColumns) + "\n";
}

std::string HelpFormat::make_subcommand(const CLI::App* verb) const {
  std::string name = "  " + verb->get_name();
  name.resize(kVerbColumns, ' ');
  return wrapped(name + verb->get_description(), kColumns, std::string(kVerbColumns, ' ')) + "\n";
}

std::string HelpFormat::make_footer(const CLI::App* app) const {
  std::string out;
  std::istringstream lines(unwrapped(app->get_footer()));
  for (std::string line; std::getline(lines, line);) {
    const size_t column = second_column(line);
    out += (is_text(line) || column > 0 ? wrapped(line, kColumns, std::string(column, ' ')) : line) + "\n";
  }
  return out;
}

}  // namespace kvcal
