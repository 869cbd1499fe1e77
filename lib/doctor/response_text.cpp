#include "doctor/response_text.h"

#include "base/json.h"

namespace kvcal {
namespace {

std::string text_of(const Json& object, const char* key) {
  const Json* value = object.is_object() ? find_member(object, key) : nullptr;
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

/// {"content": [{"token": " a", ...}, ...]} of chats, {"tokens": [" a", ...]} of completions.
std::vector<std::string> tokens_of(const Json& logprobs) {
  std::vector<std::string> tokens;
  for (const char* key : {"content", "tokens"}) {
    const Json* list = logprobs.is_object() ? find_member(logprobs, key) : nullptr;
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& token : *list)
      tokens.push_back(token.is_string() ? token.get<std::string>() : text_of(token, "token"));
  }
  return tokens;
}

ResponseText response_of(const Json& choice) {
  ResponseText response;
  const Json* message = find_member(choice, "message");
  response.text = message != nullptr ? text_of(*message, "content") : text_of(choice, "text");
  if (const Json* logprobs = find_member(choice, "logprobs")) response.tokens = tokens_of(*logprobs);
  std::string joined;
  for (const std::string& token : response.tokens) joined += token;
  if (response.text.empty()) response.text = joined;
  if (joined != response.text) response.tokens.clear();  // characters that are split over tokens are not in their texts
  return response;
}

}  // namespace

std::vector<ResponseText> responses_in(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return {};
  std::vector<ResponseText> responses;
  try {
    const Json json = parse_json(text);
    const Json* choices = find_member(json, "choices");
    if (choices == nullptr || !choices->is_array()) return {};
    for (const Json& choice : *choices)
      if (choice.is_object()) responses.push_back(response_of(choice));
  } catch (const Error&) {
    return {};  // text that begins with a brace
  }
  return responses;
}

int64_t token_at(const ResponseText& response, size_t byte) {
  size_t end = 0;
  for (size_t i = 0; i < response.tokens.size(); ++i)
    if ((end += response.tokens[i].size()) > byte) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace kvcal
