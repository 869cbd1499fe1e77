#include "checkpoint/text_prefix.h"

#include "base/error.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

// Longer ones first: with "model." in front, a wrapper's prefix would otherwise be taken for the plain one.
constexpr std::string_view kPrefixes[] = {"model.language_model.model.",
                                          "model.language_model.",
                                          "language_model.model.",
                                          "thinker.model.",
                                          "model.text_model.",
                                          "model.llm.",
                                          "llm.model.",
                                          "language.model.",
                                          "language_model.",
                                          "model.model.",
                                          "model.",
                                          "backbone.",
                                          "gpt_neox.",
                                          "model.decoder.",
                                          "transformer.",
                                          ""};

std::string join(std::string_view a, std::string_view b) { return std::string(a) + std::string(b); }

/// The head stands beside the module that the prefix ends with, or at the top.
std::string find_head(const Checkpoint& checkpoint, std::string_view model, std::string_view head) {
  const size_t dot = model.size() < 2 ? model.npos : model.rfind('.', model.size() - 2);
  const std::string beside = join(dot == model.npos ? "" : model.substr(0, dot + 1), head);
  for (const std::string& name : {beside, std::string(head), join(model, head)})
    if (!stored_name(checkpoint, name).empty()) return name;
  return "";
}

}  // namespace

std::string TextPrefix::head_module() const { return lm_head.substr(0, lm_head.rfind('.') + 1); }

TextPrefix detect_prefix(const Checkpoint& checkpoint, std::string_view embedding, std::string_view head) {
  for (const std::string_view prefix : kPrefixes)
    if (!stored_name(checkpoint, join(prefix, embedding)).empty())
      return {std::string(prefix), find_head(checkpoint, prefix, head)};

  const SkipRules rules("", 0);
  std::vector<std::string> found;
  for (const std::string& name : checkpoint.names())
    if (name.ends_with(join(".", embedding)) && rules.rule_for(name).empty()) found.push_back(name);
  const std::string where = "reading " + quoted(checkpoint.folder().string()) + ": ";
  if (found.empty())
    fail(where + "no tensor is called " + quoted(embedding) + ", with or without a prefix; is it a language model?");
  if (found.size() > 1)
    fail(where + std::to_string(found.size()) + " tensors end in " + quoted(embedding) + ", among them " +
         quoted(found[0]) + " and " + quoted(found[1]) + "; cannot tell which is the language model");
  const std::string model = found[0].substr(0, found[0].size() - embedding.size());
  return {model, find_head(checkpoint, model, head)};
}

std::string_view below_text_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(join(prefix, "layers."))) return name.substr(prefix.size());
  return "";
}

std::vector<std::string> language_model_tensors(const Checkpoint& checkpoint, const TextPrefix& prefix,
                                                const SkipRules& rules) {
  std::vector<std::string> names;
  const std::string head = prefix.head_module(), bias = head + "bias";
  for (const std::string& name : checkpoint.names())
    if (((!head.empty() && name.starts_with(head) && name != bias) || name.starts_with(prefix.model)) &&
        rules.rule_for(name).empty())
      names.push_back(name);
  return names;
}

}  // namespace kvcal
