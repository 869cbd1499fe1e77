// kvcal generate MODEL: greedy text and top logits, the user's check that the model was understood.
#include "prefill/generate.h"

#include <CLI/CLI.hpp>

#include "base/input_files.h"
#include "calibrate/opened_model.h"
#include "calibrate/pictures.h"
#include "console.h"
#include "device.h"
#include "hub_cache.h"
#include "prompt_flags.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct GenerateFlags {
  std::string model, device = "auto", precision = "bf16";
  std::vector<std::string> texts;
  PromptFlags prompts;
  GenerateOptions options;
  int threads = 0;
  bool json = false, raw = false;
};

// --prompt TEXT is a user's turn where the model has a chat template, else raw text.
PromptSet inline_prompts(const GenerateFlags& flags, bool chat) {
  std::string lines;
  for (const std::string& text : flags.texts) {
    const Json record = chat && !flags.raw ? Json{{"messages", Json::array({{{"role", "user"}, {"content", text}}})}}
                                           : Json{{"text", text}};
    lines += record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return parse_prompts(lines, "--prompt");
}

Json result_json(const TokenizedPrompt& prompt, const Generated& g, const std::string& text) {
  Json top = Json::array();
  for (const auto& [token, logit] : g.top) top.push_back({token, logit});
  return {{"id", prompt.id}, {"output_ids", g.output_ids}, {"text", text}, {"top", top}};
}

void print_text(const TokenizedPrompt& prompt, const Generated& g, const std::string& text,
                const std::optional<Tokenizer>& tokenizer) {
  write_line("[", prompt.id, "] ", prompt.input_ids.size(), " tokens in, ", g.output_ids.size(), " out");
  write_lines(Lines::of_text(text + "\n"));
  if (g.top.empty()) return;
  std::string first = "first token:";
  for (const auto& [token, logit] : g.top)
    first += line_of("  ", quoted(tokenizer ? tokenizer->decode({token}, false) : "?"), " (", token, ") ", logit);
  write_line(first);
}

void check(const GenerateFlags& flags) {
  if (flags.options.max_new_tokens < 1)
    fail("--max-new-tokens is " + std::to_string(flags.options.max_new_tokens) + ", expected 1 or more");
  if (flags.options.n_top < 0) fail("--top is " + std::to_string(flags.options.n_top) + ", expected 0 or more");
  check_threads(flags.threads);
  if (!flags.texts.empty() && !flags.prompts.files.empty()) fail("--prompt and --prompts cannot be used together");
  if (flags.texts.empty() && flags.prompts.files.empty()) fail("no prompt given; use --prompt TEXT or --prompts FILE");
}

Exit run(const GenerateFlags& flags) {
  check(flags);
  PromptOptions prompts = flags.prompts.resolve();
  prompts.raw_on_purpose = flags.raw;
  OpenedModel model(flags.model);
  const auto source = [&](bool chat) {
    return flags.texts.empty() ? read_prompt_files(flags.prompts, chat) : inline_prompts(flags, chat);
  };
  Console console(/*quiet=*/false);
  const FedPrompts fed = feed_prompts(model, prompts, source, console);
  const std::vector<PromptTokens> tokens = tokens_of(fed, model);
  const Precision precision = precision_named(flags.precision);
  const std::unique_ptr<Ops> op = open_device(flags.device, precision, flags.threads);
  see_pictures(model, *op, tokens, 0);
  constexpr int64_t kChunk = 2048;
  Generator generator(*model.model, *op, model.weights, kChunk);
  GenerateOptions options = flags.options;
  options.stop_tokens = end_tokens(model.checkpoint);
  NoTap tap;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenizedPrompt& prompt = fed.prompts[i];
    const Generated g = while_doing("generating for prompt " + quoted(prompt.id),
                                    [&] { return generator.generate(tokens[i], options, tap); });
    check_inputs_unchanged();
    const std::string text = fed.tokenizer ? fed.tokenizer->decode(g.output_ids, true) : "";
    if (flags.json)
      write_json(result_json(prompt, g, text), -1);
    else
      print_text(prompt, g, text, fed.tokenizer);
    flush_output();
  }
  return Exit::Done;
}

}  // namespace

void add_generate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* verb =
      app.add_subcommand("generate", "Generate text greedily, to check that the model runs correctly here");
  verb->add_option("MODEL", flags->model, "Checkpoint folder")->required();
  verb->add_option("--prompt", flags->texts, "Prompt text (repeatable)")->type_name("PROMPT");
  verb->add_flag("--raw", flags->raw, "Feed --prompt as raw text, without the chat template");
  flags->prompts.add_to(*verb);
  verb->add_option("--max-new-tokens", flags->options.max_new_tokens, "Maximum number of tokens to generate")
      ->capture_default_str();
  verb->add_option("--top", flags->options.n_top, "Number of top logits to print for the first generated token")
      ->capture_default_str();
  verb->add_option("--precision", flags->precision,
                   "bf16: like servers; f32: reference. Quantized weights are dequantized to bf16 in both")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--device", flags->device, "auto, cpu, cuda, cuda:N")->type_name("DEVICE")->capture_default_str();
  verb->add_option("--threads", flags->threads, "Number of threads (default: all processors)");
  verb->add_flag("--json", flags->json, "One JSON object per prompt on standard output");
  verb->footer(
      "Examples:\n"
      "  kvcal generate ./Qwen3-0.6B --prompt 'The capital of France is' --top 3\n"
      "  kvcal generate ./model --prompts questions.jsonl --json --top 10");
  verb->callback([flags, &chosen] {
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
