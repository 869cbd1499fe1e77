#include "rules/own_includes.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

namespace kvcal::rules {
namespace {

struct Named {
  const char* header;
  std::regex names;
  std::set<std::string> also;  // standard headers that promise the same
};

const std::vector<Named>& precompiled() {
  static const std::vector<Named> all = [] {
    const auto names = [](const char* text) { return std::regex(std::string(R"(\bstd::()") + text + R"()\b)"); };
    return std::vector<Named>{
        {"algorithm",
         names("(stable_)?sort|find(_if(_not)?)?|(any|all|none)_of|transform|copy_(n|if|backward)|replace|"
               "(lower|upper|equal)_(bound|range)|minmax|(min|max|minmax)_element|clamp|fill_n|count(_if)?|"
               "unique|nth_element|partial_sort|reverse|rotate|set_(union|difference|intersection)|includes"),
         {}},
        {"cmath",
         names("sqrtf?|expf?|exp[2m]1?|log(2|10|1p)?f?|pow|fabs|is(finite|nan|inf)|ceil|floor|l?l?round|trunc|"
               "nearbyint|l?l?rint|ldexp|frexp|scalbn|copysign|hypot|tanh|erfc?|fmod|ilogb|nextafter"),
         {}},
        {"filesystem", names("filesystem"), {"fstream"}},
        {"functional", names("function|hash|less|greater|plus"), {"map", "set", "memory", "string", "vector"}},
        {"map", names("(multi)?map"), {}},
        {"memory", names("(unique|shared|weak)_ptr|make_(unique|shared)|addressof"), {}},
        {"nlohmann/json.hpp", std::regex(R"(\bnlohmann::)"), {"nlohmann/json_fwd.hpp"}},
        {"optional", names("optional|nullopt"), {}},
        {"set", names("(multi)?set"), {}},
        {"span", names("span"), {}},
        {"sstream", names("[io]?stringstream"), {}},
        {"string",
         names("string|to_string|stoi|stoll|stod"),
         {"filesystem", "iostream", "ostream", "sstream", "stdexcept"}},
        {"string_view", names("string_view"), {"filesystem", "iostream", "ostream", "sstream", "stdexcept", "string"}},
        {"vector", names("vector"), {}},
    };
  }();
  return all;
}

using Headers = std::set<std::string>;

class Reach {
 public:
  explicit Reach(const std::vector<SourceFile>& tree) {
    for (const SourceFile& file : tree) files_[file.path] = &file;
  }

  /// Names of all headers from outside that a file includes, itself or through headers of the tree.
  const Headers& of(const std::string& path) {
    const auto [known, fresh] = known_.try_emplace(path);
    if (!fresh) return known->second;
    Headers all;
    for (const Include& include : includes_of(files_.at(path)->text)) {
      if (!include.ours) {
        all.insert(include.name);
        continue;
      }
      for (const std::string& place : {"lib/" + include.name, "apps/" + include.name, include.name})
        if (files_.contains(place)) {
          const Headers& reached = of(place);
          all.insert(reached.begin(), reached.end());
        }
    }
    return known_[path] = std::move(all);
  }

 private:
  std::map<std::string, const SourceFile*> files_;
  std::map<std::string, Headers> known_;
};

bool gives(const Headers& included, const Named& named) {
  return included.contains(named.header) ||
         std::any_of(named.also.begin(), named.also.end(), [&](const auto& other) { return included.contains(other); });
}

bool of_the_program(const std::string& path) {
  return (path.starts_with("lib/") || path.starts_with("apps/")) && (path.ends_with(".cpp") || path.ends_with(".h"));
}

}  // namespace

Findings own_includes(const std::vector<SourceFile>& tree) {
  Findings findings;
  Reach reach(tree);
  for (const SourceFile& file : tree) {
    if (!of_the_program(file.path)) continue;
    const std::string code = code_only(file.text);
    for (const Named& named : precompiled())
      if (!gives(reach.of(file.path), named) && std::regex_search(code, named.names))
        findings.push_back(file.path + ": names something of <" + named.header + "> and does not include it");
  }
  return findings;
}

}  // namespace kvcal::rules
