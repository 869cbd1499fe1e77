#include "help_format.h"

namespace kvcal {

HelpFormat::HelpFormat() {
  column_width(30);
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
  const std::string fallback = option->get_default_str();
  return fallback.empty() ? option->get_description() : option->get_description() + " [" + fallback + "]";
}

}  // namespace kvcal
