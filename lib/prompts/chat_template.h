// Chat templates: messages to the text that the model was trained on.
//
// A template is a program in a subset of Jinja2, run here by a small interpreter (the jinja_* files) with limits on
// steps, depth and size. Rendering follows transformers' apply_chat_template (5.23): trim_blocks and lstrip_blocks on,
// no escaping, a sandbox in which lists and dicts cannot be changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "vision/patches.h"

namespace kvcal {

struct ChatInput {
  Json messages = Json::array();       // list of {"role", "content", ...}
  Json tools = nullptr;                // list, or null for none; an empty list is not the same as null
  Json documents = nullptr;            // list, or null
  bool add_generation_prompt = false;  // end with the header of an assistant turn
  Json extra = Json::object();         // further variables; they win over special tokens
  /// What strftime_now prints, in seconds since 1970 (UTC). Absent: the clock.
  std::optional<int64_t> unix_seconds;
  PictureText picture{};  // what becomes of each picture in what the template writes
};

/// What a template makes of the content of a message.
enum class ContentForm {
  Text,    // it takes a text
  Either,  // it goes through a list of parts, too
  Parts,   // it goes through parts without asking whether they are a list
};

/// "2026-07-26" (midnight), "2026-07-26T12:30:00" or seconds since 1970, as seconds since 1970 in UTC.
int64_t parse_date(std::string_view text);

/// Immutable after loading, but for how much was spent on chats that cannot be rendered: a template that takes all it
/// may for one chat after the other is not run for the rest.
class ChatTemplate {
 public:
  /// The template of a checkpoint folder, or nothing when it has none. chat_template.jinja wins (with
  /// additional_chat_templates/*.jinja beside it), then chat_template in tokenizer_config.json (a text or a list of
  /// named templates), then chat_template.json. Throws Error with file, line and construct for one that does not parse.
  static std::optional<ChatTemplate> load(const std::filesystem::path& folder);

  /// From text; `name` stands in messages. Throws Error for what does not parse.
  explicit ChatTemplate(std::string_view source, std::string name = "chat template");

  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The rendered text. `special_tokens` are variables ("bos_token", ...), as Tokenizer::special_tokens gives them.
  /// Keys of messages whose value is null are dropped first, and reasoning is given under all its names.
  /// Throws Error with template, line and construct; raise_exception gives the template's own message.
  std::string render(const ChatInput& input, const std::map<std::string, std::string>& special_tokens = {}) const;

  /// What a rendering may take, in the interpreter's steps: about a second.
  static size_t steps_of_a_rendering();

  /// The same for one of many renderings that share these steps; takes its own off them, also when it throws.
  std::string render(const ChatInput& input, const std::map<std::string, std::string>& special_tokens,
                     size_t& steps) const;

  /// Which contents the template takes that is used with tools, or without.
  ContentForm contents(bool with_tools) const;

  /// Where the template comes from: file, and the name where a file has several.
  const std::string& name() const;

  /// The names of all templates, where there are several ("default", "tool_use"); tools select "tool_use".
  std::vector<std::string> variants() const;

 private:
  struct Parts;
  ChatTemplate();
  void add(const std::string& variant, std::string_view source, std::string name);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kvcal
