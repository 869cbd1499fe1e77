// Answers tests/reference/text/differential.py: one JSON request a line in, one JSON answer a line out.
//   driver tokenizer FILE    request: a text;  answer: {"ids", "plain", "decoded", "without_special"} or {"error"}
//   driver template          request: {"template", "variables"};  answer: {"text"} or {"error"}
// Built by make test-text-reference only.
#include <iostream>

#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "tokenizer/tokenizer.h"

using namespace kvcal;

namespace {

constexpr int64_t kDate = 1785067200;  // as in templates.py

Json answer_tokenizer(const Tokenizer& t, const std::string& text) try {
  const std::vector<int32_t> ids = t.encode(text, true).ids;
  return {{"ids", ids},
          {"plain", t.encode(text, false).ids},
          {"decoded", t.decode(ids, false)},
          {"without_special", t.decode(ids, true)}};
} catch (const Error& e) {
  return {{"error", e.what()}};
}

Json answer_template(const Json& request) {
  try {
    std::vector<std::pair<std::string, jinja::Value>> variables;
    for (const auto& [name, value] : request["variables"].items())
      variables.emplace_back(name, jinja::Value::from_json(value));
    const jinja::Block body = jinja::parse_template(request["template"].get<std::string>());
    return {{"text", jinja::render(body, variables, jinja::Limits(), kDate)}};
  } catch (const Error& e) {
    return {{"error", e.what()}};
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::optional<Tokenizer> tokenizer;
  if (argc == 3) tokenizer.emplace(read_json_file(argv[2]));
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = parse_json(line, {.keep_large_integers = true});
    const Json answer = tokenizer ? answer_tokenizer(*tokenizer, request.get<std::string>()) : answer_template(request);
    std::cout << answer.dump() << '\n';
  }
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 2;
}
