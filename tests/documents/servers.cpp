// What loads where: the lines of the table of servers, classes that load alike together.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "documents/tables.h"
#include "servers/server_table.h"

namespace kvcal::documents {
namespace {

std::string code(const std::string& text) { return "`" + text + "`"; }

/// The classes of a loader; in bold where the server's loader was executed.
std::string classes_of(ServerKind kind, std::string_view loader) {
  std::string text;
  for (const ClassLine& line : class_lines()) {
    if (line.by(kind).loader != loader) continue;
    std::string name(line.architecture);
    for (const std::string_view end : {"ForConditionalGeneration", "ForCausalLM"})
      if (name.ends_with(end))
        name = name.substr(0, name.size() - end.size()) + (end == "ForConditionalGeneration" ? " (VL)" : "");
    text += (text.empty() ? "" : ", ") + (line.by(kind).source == kRun ? "**" + name + "**" : name);
  }
  return text;
}

std::string effect_text(const ServerSupport& s, char site) {
  const ScaleSpelling spelling = site == 'q' ? ScaleSpelling::Attention : s.write;
  return std::string(name_of(effect_of(s, spelling, site)));
}

std::string_view any_class(ServerKind kind, std::string_view loader) {
  for (const ClassLine& line : class_lines())
    if (line.by(kind).loader == loader) return line.architecture;
  return "";
}

std::string row(ServerKind kind, const LoaderLine& loader) {
  const Server server = verified_server(kind);
  const auto with = [&](KvCarrier carrier) { return server_support(server, any_class(kind, loader.name), carrier); };
  const ServerSupport plain = with(KvCarrier::CompressedTensors);
  const std::string write = plain.loads ? code(scale_suffix(plain.write, 'k')) : "nothing: " + plain.why_not;
  return "| " + str(server) + " | " + classes_of(kind, loader.name) + " | " + write + " | " + effect_text(plain, 'k') +
         " | " + effect_text(with(KvCarrier::ModelOpt), 'k') + " | " + effect_text(with(KvCarrier::None), 'k') + " | " +
         effect_text(plain, 'q') + " |\n";
}

struct BackendAnswer {
  std::string text, classes;
  int n_loaders = 0;
};

/// What attention backends do with a scale: for most classes of the server, then for those with another answer.
std::string backends(ServerKind kind) {
  std::vector<BackendAnswer> answers;
  const Server server = verified_server(kind);
  for (const LoaderLine& loader : loader_lines(kind)) {
    const std::string classes = classes_of(kind, loader.name);
    if (classes.empty()) continue;
    const auto text = server_support(server, any_class(kind, loader.name), KvCarrier::CompressedTensors).backend;
    auto same = std::ranges::find(answers, text, &BackendAnswer::text);
    if (same == answers.end()) same = answers.insert(same, {text, "", 0});
    same->classes += (same->classes.empty() ? "" : ", ") + classes;
    ++same->n_loaders;
  }
  std::ranges::stable_sort(answers, std::greater(), &BackendAnswer::n_loaders);
  std::string lines;
  for (const BackendAnswer& answer : answers)
    lines += "- " + str(server) + ", " + (lines.empty() ? "most classes" : answer.classes) + ": " + answer.text + "\n";
  return lines;
}

}  // namespace

std::string table_of_servers() {
  std::string text =
      "| server | classes | written after the attention module's name | in compressed-tensors | in fp8, ModelOpt | "
      "without a quantization_config | `.q_scale` |\n|---|---|---|---|---|---|---|\n";
  for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang})
    for (const LoaderLine& loader : loader_lines(kind))  // some are of MTP layers alone
      if (!classes_of(kind, loader.name).empty()) text += row(kind, loader);
  return text + "\nWhat attention backends do with a scale:\n\n" + backends(ServerKind::Vllm) +
         backends(ServerKind::Sglang);
}

}  // namespace kvcal::documents
