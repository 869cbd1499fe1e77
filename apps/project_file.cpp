#include "project_file.h"

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

constexpr size_t kMostBytes = size_t{1} << 13;
constexpr const char* kScales = "kv-cache-scales.json";  // calibrate's own default

constexpr std::string_view kLimits = "limits";

/// A key of the file, and what it is called on the command line: the first of these that a verb has.
struct Key {
  std::string_view table, name;  // "" at the top
  std::array<const char*, 2> options;
  bool is_number = false, is_list = false;
};
constexpr std::array kKeys = {
    Key{"", "model", {"MODEL", "--model"}},
    Key{"", "prompts", {"--prompts"}, false, true},
    Key{"", "policy", {"--policy"}},
    Key{"", "max-model-len", {"--max-model-len"}, true},
    Key{"", "server", {"--server", "--to"}},
    Key{kLimits, "max-kl", {"--max-kl"}, true},
    Key{kLimits, "min-agreement", {"--min-agreement"}, true},
};

struct Setting {
  const Key* key;
  std::vector<std::string> values;
  toml::source_index line;
};

std::string place(toml::source_index line) { return std::string(kProjectFile) + ":" + std::to_string(line); }

[[noreturn]] void fail_type(std::string_view name, const toml::node& node, const std::string& expected) {
  std::ostringstream type;
  type << node.type();
  fail(place(node.source().begin.line) + ": " + quoted(std::string(name)) + " is of type " + type.str() +
       ", expected " + expected);
}

std::string value_of(const Key& key, const toml::node& node) {
  if (key.is_number && node.is_integer()) return std::to_string(node.as_integer()->get());
  if (key.is_number && node.is_floating_point()) return shortest_double(node.as_floating_point()->get());
  if (!key.is_number && node.is_string()) return node.as_string()->get();
  fail_type(key.name, node, key.is_number ? "a number" : key.is_list ? "a string or an array of strings" : "a string");
}

std::vector<std::string> values_of(const Key& key, const toml::node& node) {
  if (!key.is_list || !node.is_array()) return {value_of(key, node)};
  if (node.as_array()->empty())
    fail(place(node.source().begin.line) + ": " + quoted(std::string(key.name)) + " is empty, expected at least one");
  std::vector<std::string> values;
  for (const toml::node& element : *node.as_array()) values.push_back(value_of(key, element));
  return values;
}

void fail_key(std::string_view table, const std::string& name, toml::source_index line) {
  std::vector<std::string> known;
  for (const Key& key : kKeys)
    if (key.table == table) known.emplace_back(key.name);
  if (table.empty()) known.emplace_back(kLimits);
  while_doing(place(line), [&] { fail_unknown("key", name, known); });
}

void read_table(const toml::table& file, std::string_view table, std::vector<Setting>& out) {
  for (const auto& [name, node] : file) {
    const std::string_view own = name.str();
    const auto key = std::ranges::find_if(kKeys, [&](const Key& k) { return k.table == table && k.name == own; });
    if (key != kKeys.end())
      out.push_back({&*key, values_of(*key, node), node.source().begin.line});
    else if (table.empty() && own == kLimits)
      node.is_table() ? read_table(*node.as_table(), own, out) : fail_type(own, node, "a table");
    else
      fail_key(table, std::string(own), node.source().begin.line);
  }
}

std::vector<Setting> read_settings() {
  std::vector<Setting> settings;
  const std::string text = read_file(kProjectFile, kMostBytes);
  try {
    read_table(toml::parse(text), "", settings);
  } catch (const toml::parse_error& e) {
    fail(place(e.source().begin.line) + ": " + std::string(e.description()));
  }
  return settings;
}

/// As if given, but that it does not count as given: requirements and idle options go by what the user typed.
void make_default(CLI::Option& option, const std::vector<std::string>& values) {
  option.add_result(values);
  option.run_callback();
  option.clear();
  option.required(false);
}

void apply(CLI::App& verb, const Setting& s) {
  for (const char* name : s.key->options) {
    CLI::Option* const option = name == nullptr ? nullptr : verb.get_option_no_throw(name);
    if (option == nullptr) continue;
    std::vector<std::string> values = s.values;
    if (std::string_view(name) == "--to") values[0] = values[0].substr(0, values[0].find('@'));
    try {
      make_default(*option, values);
    } catch (const CLI::Error&) {
      fail(place(s.line) + ": " + std::string(s.key->name) + ": invalid value " + quoted(values[0]));
    }
    return;
  }
}

/// What calibrate writes here.
void apply_scales(CLI::App& verb) {
  const std::string name = verb.get_name();
  const char* const option = name == "validate" ? "FILE" : name == "export" ? "SCALES" : "--scales";
  if (name == "doctor" && !std::filesystem::exists(kScales)) return;
  if (name != "calibrate") make_default(*verb.get_option(option), {kScales});
}

}  // namespace

bool has_project_file() {
  std::error_code ignored;
  return std::filesystem::exists(kProjectFile, ignored);
}

void take_project_defaults(CLI::App& verb) {
  constexpr std::array<std::string_view, 5> kVerbs = {"calibrate", "evaluate", "validate", "doctor", "export"};
  if (std::ranges::find(kVerbs, verb.get_name()) == kVerbs.end()) return;
  for (const Setting& setting : read_settings()) apply(verb, setting);
  apply_scales(verb);
}

}  // namespace kvcal
