#include "tokenizer/post_processor.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "tokenizer/component.h"

namespace kvcal {
namespace {

uint32_t as_id(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
    fail(what + " is " + quoted(value.dump()) + ", expected a token id");
  return value.get<uint32_t>();
}

class Unchanged final : public PostProcessor {
 public:
  std::vector<uint32_t> apply(std::vector<uint32_t> ids, bool) const override { return ids; }
  bool adds_tokens() const override { return false; }
};

// BertProcessing and RobertaProcessing: "cls" in front, "sep" behind, each given as [token, id].
class Surround final : public PostProcessor {
 public:
  explicit Surround(const Json& j) : cls_(read(j, "cls")), sep_(read(j, "sep")) {}
  std::vector<uint32_t> apply(std::vector<uint32_t> ids, bool add_special_tokens) const override {
    if (!add_special_tokens) return ids;
    ids.insert(ids.begin(), cls_);
    ids.push_back(sep_);
    return ids;
  }

 private:
  static uint32_t read(const Json& j, const char* key) {
    const Json& pair = component_list(j, key);
    if (pair.size() != 2)
      fail(std::string(key) + " has " + std::to_string(pair.size()) + " entries, expected token and id");
    return as_id(pair[1], key);
  }
  uint32_t cls_, sep_;
};

// The "single" template: a list of special tokens and of places for the text.
class Template final : public PostProcessor {
 public:
  explicit Template(const Json& j) {
    const std::map<std::string, std::vector<uint32_t>> special = read_special(j);
    for (const Json& piece : component_list(j, "single")) {
      const Json* token = piece.is_object() ? find_member(piece, "SpecialToken") : nullptr;
      const Json* sequence = piece.is_object() ? find_member(piece, "Sequence") : nullptr;
      if (token && token->is_object()) {
        const std::string name = get_string(*token, "id");
        const auto it = special.find(name);
        if (it == special.end()) fail("template uses token " + quoted(name) + ", which special_tokens does not define");
        parts_.push_back({false, it->second});
      } else if (sequence && sequence->is_object()) {
        if (get_string(*sequence, "id") != "A") fail("template for one text asks for a second one");
        parts_.push_back({true, {}});
      } else {
        fail("template entry is " + quoted(piece.dump()) + ", expected a SpecialToken or a Sequence");
      }
    }
    if (parts_.size() > kMostParts)
      fail("template has " + std::to_string(parts_.size()) + " entries, at most 64 are accepted");
    size_t texts = 0, ids = 0;
    for (const Part& p : parts_) p.is_text ? ++texts : ids += p.ids.size();
    if (texts > kMostTexts)
      fail("template has the text " + std::to_string(texts) + " times, at most " + std::to_string(kMostTexts) +
           " are accepted");
    if (ids > kMostIds)
      fail("template adds " + std::to_string(ids) + " special tokens, at most " + std::to_string(kMostIds) +
           " are accepted");
  }

  std::vector<uint32_t> apply(std::vector<uint32_t> ids, bool add_special_tokens) const override {
    std::vector<uint32_t> out;
    for (const Part& p : parts_) {
      const std::vector<uint32_t>& from = p.is_text ? ids : p.ids;
      if (p.is_text || add_special_tokens) out.insert(out.end(), from.begin(), from.end());
    }
    return out;
  }

 private:
  // Real files have the text once and a few tokens.
  static constexpr size_t kMostParts = 64, kMostTexts = 4, kMostIds = 1024;

  struct Part {
    bool is_text;
    std::vector<uint32_t> ids;
  };

  static std::map<std::string, std::vector<uint32_t>> read_special(const Json& j) {
    std::map<std::string, std::vector<uint32_t>> special;
    const Json* table = find_member(j, "special_tokens");
    if (!table) return special;
    if (!table->is_object()) fail("special_tokens is " + std::string(table->type_name()) + ", expected an object");
    for (const auto& [name, entry] : table->items())
      for (const Json& id : component_list(entry, "ids")) special[name].push_back(as_id(id, "id of " + quoted(name)));
    return special;
  }

  std::vector<Part> parts_;
};

class PostProcessorSequence final : public PostProcessor {
 public:
  // The reference gives what the first one made, token by token, to the second as texts of their own; no file means
  // that.
  explicit PostProcessorSequence(const Json& list) : steps_(make_steps<PostProcessor>(list, make_post_processor)) {
    if (std::count_if(steps_.begin(), steps_.end(), [](const auto& s) { return s->adds_tokens(); }) > 1)
      fail("Sequence of several processors that add tokens is not supported");
  }
  std::vector<uint32_t> apply(std::vector<uint32_t> ids, bool add_special_tokens) const override {
    for (const auto& step : steps_) ids = step->apply(std::move(ids), add_special_tokens);
    return ids;
  }
  bool adds_tokens() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& s) { return s->adds_tokens(); });
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> steps_;
};

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const Json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = component_type(j, "post_processor");
  if (type == "ByteLevel") return std::make_unique<Unchanged>();
  if (type == "TemplateProcessing") return std::make_unique<Template>(j);
  if (type == "RobertaProcessing" || type == "BertProcessing") return std::make_unique<Surround>(j);
  if (type == "Sequence") return std::make_unique<PostProcessorSequence>(component_list(j, "processors"));
  fail_unsupported("post_processor", type,
                   {"ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing", "Sequence"});
}

}  // namespace kvcal
