#include "doctor/response_text.h"

#include <algorithm>
#include <functional>

#include "base/json_text.h"
#include "base/or_nothing.h"

namespace kvcal {
namespace {

/// {"content": [{"token": " a", ...}, ...]} of chats, {"tokens": [" a", ...]} of completions.
std::vector<std::string> tokens_of(const Json& logprobs) {
  std::vector<std::string> tokens;
  for (const char* key : {"content", "tokens"})
    for (const Json& token : list_at(logprobs, key))
      tokens.push_back(token.is_string() ? token.get<std::string>() : text_at(token, "token"));
  return tokens;
}

std::vector<double> values_of(const Json& candidates) {
  std::vector<double> values;
  for (const Json& candidate : candidates) {
    const Json* value = candidate.is_object() ? find_member(candidate, "logprob") : &candidate;
    if (value != nullptr && value->is_number()) values.push_back(value->get<double>());
  }
  return values;
}

/// {"content": [{"top_logprobs": [{"logprob": -0.1}, ...]}, ...]} of chats, {"top_logprobs": [{" a": -0.1}, ...]} of
/// completions.
std::vector<std::vector<double>> candidates_of(const Json& logprobs) {
  std::vector<std::vector<double>> all;
  for (const Json& token : list_at(logprobs, "content")) all.push_back(values_of(list_at(token, "top_logprobs")));
  for (const Json& candidates : list_at(logprobs, "top_logprobs"))
    if (candidates.is_structured()) all.push_back(values_of(candidates));
  return all;
}

std::vector<double> tied_logits_of(const Json& logprobs) {
  constexpr size_t kFirst = 5;
  std::vector<double> tied;
  for (std::vector<double>& values : candidates_of(logprobs)) {
    std::sort(values.begin(), values.end(), std::greater<>());
    if (values.size() > kFirst) values.resize(kFirst);
    const bool tie = std::adjacent_find(values.begin(), values.end()) != values.end();
    if (tie && values.front() > 0) tied.push_back(values.front());
  }
  return tied;
}

// Servers before and after the field got its short name.
std::string reasoning_of(const Json& message) {
  const std::string reasoning = text_at(message, "reasoning");
  return reasoning.empty() ? text_at(message, "reasoning_content") : reasoning;
}

ResponseText response_of(const Json& choice) {
  ResponseText response;
  const Json* message = find_member(choice, "message");
  response.text = message != nullptr ? text_at(*message, "content") : text_at(choice, "text");
  response.finish_reason = text_at(choice, "finish_reason");
  if (message != nullptr && response.text.empty() && list_at(*message, "tool_calls").empty()) {
    response.text = reasoning_of(*message);
    response.only_reasoning = !response.text.empty();
  }
  if (const Json* logprobs = find_member(choice, "logprobs")) {
    response.tokens = tokens_of(*logprobs);
    response.tied_logits = tied_logits_of(*logprobs);
  }
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
  const Json json = or_nothing([&] { return parse_json(text); });  // a text may begin with a brace
  for (const Json& choice : list_at(json, "choices"))
    if (choice.is_object()) responses.push_back(response_of(choice));
  return responses;
}

bool is_text_of_model(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return false;
  text.remove_prefix(first);
  if (text.starts_with("data:") || text.starts_with("event:")) return text.find("\"choices\"") != text.npos;
  for (const std::string_view error : {"curl: (", "Error:", "HTTP/", "Internal Server Error", "Bad Gateway",
                                       "Service Unavailable", "Gateway Time", "Not Found", "upstream ", "no healthy",
                                       "Traceback (most recent call last)", "<html", "<HTML", "<!DOCTYPE", "<!doctype"})
    if (text.starts_with(error)) return false;
  if (text.front() != '{') return true;
  const Json json = or_nothing([&] { return parse_json(text); });
  for (const char* key : {"error", "detail", "choices"})  // of vLLM and SGLang, of FastAPI; none was chosen
    if (find_member(json, key) != nullptr) return false;
  return text_at(json, "object") != "error";  // of their versions before {"error": ...}
}

int64_t token_at(const ResponseText& response, size_t byte) {
  size_t end = 0;
  for (size_t i = 0; i < response.tokens.size(); ++i)
    if ((end += response.tokens[i].size()) > byte) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace kvcal
