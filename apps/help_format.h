// The layout of --help, for 80 columns: each option begins a line, its value named, its default in brackets.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kvcal {

/// Whether --help leaves options out that --help-all lists.
bool has_rare_options(const CLI::App& verb);

class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string groups(const CLI::App* app, bool all) const;
};

}  // namespace kvcal
