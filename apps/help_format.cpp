#include "help_format.h"

#include <algorithm>

namespace kvcal {
namespace {

constexpr size_t kColumns = 100, kNameColumns = 30;

// Spaces become line breaks, so that no line is longer than `width`; lines that the text has already stay apart.
std::string wrapped(std::string text, size_t width) {
  for (size_t begin = 0; text.size() - begin > width;) {
    const std::string_view line = std::string_view(text).substr(begin, width + 1);
    size_t end = line.find('\n');
    if (end == line.npos) end = line.rfind(' ');
    if (end == line.npos) break;
    text[begin + end] = '\n';
    begin += end + 1;
  }
  return text;
}

}  // namespace

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
  return " " + option->get_type_name() + (many ? "..." : "");
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (const std::string fallback = option->get_default_str(); !fallback.empty())
    text.insert(std::min(text.find('\n'), text.size()), " [" + fallback + "]");
  return wrapped(text, kColumns - kNameColumns);
}

}  // namespace kvcal
