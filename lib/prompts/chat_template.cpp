#include "prompts/chat_template.h"

#include <atomic>
#include <charconv>
#include <chrono>

#include "jinja/content_use.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "prompts/chat_template_files.h"
#include "prompts/prompt_pictures.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

using jinja::Value;

const char* const kReasoningNames[] = {"reasoning_content", "thinking", "reasoning"};

// Keys without a value go, and the reasoning of a message is given as "thinking" (in front, unless it is there) and as
// "reasoning_content", whatever it was called.
Json prepared_message(const Json& message) {
  Json out = Json::object();
  const Json* reasoning = nullptr;
  for (const char* name : kReasoningNames)
    if (!reasoning) reasoning = find_member(message, name);
  if (reasoning) out["thinking"] = *reasoning;
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) out[key] = value;
  if (reasoning) out["reasoning_content"] = *reasoning;
  return out;
}

/// The parts of a content as one text, where their template knows no parts.
Json as_text(const Json& content, std::string_view picture) {
  std::string pictures, texts;
  for (const Json& part : content) {
    if (!part.is_object()) return content;
    const std::string type = get_string_or(part, "type", "");
    if (type != "image" && type != "text") return content;
    if (type == "image") {
      pictures += std::string(picture) + "\n";
    } else {
      texts += (texts.empty() ? "" : "\n") + get_string_or(part, "text", "");
    }
  }
  return pictures + texts;
}

Json prepared_messages(const Json& messages, const PictureText& picture) {
  if (!messages.is_array() || messages.empty())
    fail("messages: expected a list of at least one message, found " +
         (messages.is_array() ? std::string("an empty list") : std::string(messages.type_name())));
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      fail("message " + std::to_string(i) + " is " + std::string(messages[i].type_name()) + ", expected an object");
    out.push_back(prepared_message(messages[i]));
    if (Json& message = out.back(); picture.in_front && message.contains("content") && message["content"].is_array())
      message["content"] = as_text(message["content"], picture.written);
  }
  return out;
}

int64_t current_seconds() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

void set_variable(std::vector<std::pair<std::string, Value>>& variables, const std::string& name, Value v) {
  for (auto& [key, value] : variables)
    if (key == name) {
      value = std::move(v);
      return;
    }
  variables.emplace_back(name, std::move(v));
}

}  // namespace

struct ChatTemplate::Parts {
  struct Variant {
    std::string variant;
    std::string name;
    jinja::Block body;
    ContentForm contents;
  };
  std::vector<Variant> variants;
  std::atomic<size_t> steps_in_vain = 0;  // of renderings that failed

  const Variant* find(std::string_view wanted) const {
    for (const Variant& v : variants)
      if (v.variant == wanted) return &v;
    return nullptr;
  }

  const Variant& chosen(bool with_tools) const {
    const Variant* v = with_tools ? find("tool_use") : nullptr;
    if (!v) v = find("default");
    if (v) return *v;
    std::string names;
    for (const Variant& other : variants) names += (names.empty() ? "" : ", ") + other.variant;
    fail(variants.front().name + ": several templates and none named 'default': " + names);
  }
};

ChatTemplate::ChatTemplate() : parts_(std::make_unique<Parts>()) {}
ChatTemplate::ChatTemplate(std::string_view source, std::string name) : ChatTemplate() {
  add("default", source, std::move(name));
}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

void ChatTemplate::add(const std::string& variant, std::string_view source, std::string name) {
  constexpr size_t kLargest = size_t{4} << 20;
  if (source.size() > kLargest) fail(name + ": template of " + std::to_string(source.size()) + " bytes, at most 4 MiB");
  const RepairedText text = repair_utf8(source);
  if (text.replaced > 0) fail(name + ": not valid UTF-8");
  jinja::Block body = while_doing(name, [&] { return jinja::parse_template(text.text); });
  const jinja::ContentUse use = jinja::content_use(body);
  const ContentForm contents = !use.is_looped_over ? ContentForm::Text
                               : use.is_text_too   ? ContentForm::Either
                                                   : ContentForm::Parts;
  parts_->variants.push_back({variant, std::move(name), std::move(body), contents});
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& folder) {
  const std::vector<ChatTemplateText> found = find_chat_templates(folder);
  if (found.empty()) return std::nullopt;
  ChatTemplate t;
  for (const ChatTemplateText& f : found) t.add(f.variant, f.text, f.name);
  return t;
}

size_t ChatTemplate::steps_of_a_rendering() { return jinja::Limits().max_steps; }

std::string ChatTemplate::render(const ChatInput& input,
                                 const std::map<std::string, std::string>& special_tokens) const {
  constexpr size_t kMostInVain = 4;  // renderings' worth
  const size_t most = steps_of_a_rendering();
  if (parts_->steps_in_vain >= kMostInVain * most)
    fail(name() + ": failed for earlier chats after many steps, and is not run again");
  size_t steps = most;
  try {
    return render(input, special_tokens, steps);
  } catch (const Error&) {
    parts_->steps_in_vain += most - steps;
    throw;
  }
}

std::string ChatTemplate::render(const ChatInput& input, const std::map<std::string, std::string>& special_tokens,
                                 size_t& steps) const {
  const Parts::Variant& chosen = parts_->chosen(!input.tools.is_null());
  return while_doing(chosen.name, [&] {
    std::vector<std::pair<std::string, Value>> variables;
    for (const auto& [key, content] : special_tokens) set_variable(variables, key, Value::text(nullptr, content));
    if (!input.extra.is_object())
      fail("template variables are " + std::string(input.extra.type_name()) + ", expected an object");
    for (const auto& [key, value] : input.extra.items()) set_variable(variables, key, Value::from_json(value));
    for (const auto& [what, list] : {std::pair{"tools", &input.tools}, {"documents", &input.documents}})
      if (!list->is_null() && !list->is_array())
        fail(std::string(what) + ": expected a list, found " + std::string(list->type_name()));
    set_variable(variables, "messages", Value::from_json(prepared_messages(input.messages, input.picture)));
    // Always defined, but what the user gives under these names stays.
    const auto define = [&](const char* name, Value value, bool given) {
      if (given || !input.extra.contains(name)) set_variable(variables, name, std::move(value));
    };
    define("tools", Value::from_json(input.tools), !input.tools.is_null());
    define("documents", Value::from_json(input.documents), !input.documents.is_null());
    define("add_generation_prompt", Value::boolean(input.add_generation_prompt), false);
    const int64_t now = input.unix_seconds ? *input.unix_seconds : current_seconds();
    jinja::Limits limits;
    limits.max_steps = steps;
    return with_pictures(jinja::render(chosen.body, variables, limits, now, &steps), input.picture);
  });
}

ContentForm ChatTemplate::contents(bool with_tools) const { return parts_->chosen(with_tools).contents; }

const std::string& ChatTemplate::name() const { return parts_->variants.front().name; }

std::vector<std::string> ChatTemplate::variants() const {
  std::vector<std::string> names;
  for (const Parts::Variant& v : parts_->variants) names.push_back(v.variant);
  return names;
}

int64_t parse_date(std::string_view text) {
  using namespace std::chrono;
  const auto number = [&](size_t begin, size_t n) {
    int value = -1;
    if (begin + n > text.size()) return -1;
    const auto r = std::from_chars(text.data() + begin, text.data() + begin + n, value);
    return r.ec == std::errc() && r.ptr == text.data() + begin + n ? value : -1;
  };
  if (text.size() >= 10 && text[4] == '-' && text[7] == '-') {
    const year_month_day date{year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                              day(static_cast<unsigned>(number(8, 2)))};
    const int64_t midnight = date.ok() && number(0, 4) >= 1970 ? sys_days(date).time_since_epoch().count() * 86400 : -1;
    if (midnight >= 0 && text.size() == 10) return midnight;
    const int h = number(11, 2), m = number(14, 2), s = number(17, 2);
    const bool clock = text.size() == 19 && (text[10] == 'T' || text[10] == ' ') && text[13] == ':' && text[16] == ':';
    if (midnight >= 0 && clock && h >= 0 && h < 24 && m >= 0 && m < 60 && s >= 0 && s < 60)
      return midnight + h * 3600 + m * 60 + s;
  } else {
    int64_t seconds_value = -1;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), seconds_value);
    if (r.ec == std::errc() && r.ptr == text.data() + text.size() && seconds_value >= 0) return seconds_value;
  }
  fail("date " + quoted(text) + ": expected YYYY-MM-DD, YYYY-MM-DDThh:mm:ss or seconds since 1970");
}

}  // namespace kvcal
