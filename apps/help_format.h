// The layout of --help, for 100 columns: each option begins a line, its value named, its default in brackets.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kvcal {

class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace kvcal
