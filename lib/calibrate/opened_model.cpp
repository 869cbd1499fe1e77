#include "calibrate/opened_model.h"

#include "checkpoint/config_file.h"
#include "checkpoint/fingerprint.h"
#include "prefill/memory_plan.h"

namespace kvcal {

OpenedModel::OpenedModel(const std::filesystem::path& folder, int64_t max_model_len, bool mtp)
    : checkpoint(Checkpoint::open(folder)),
      model(while_doing(
          "opening " + quoted(folder.string()),
          [&] { return parse_model(with_image_token(checkpoint.config(), checkpoint.folder()), max_model_len); })),
      weights(while_doing("opening " + quoted(folder.string()),
                          [&] { return locate_weights(checkpoint, model->spec()); })) {
  if (!mtp) return;
  if (spec().mtp_names.empty())
    fail("--mtp: this program does not read the MTP layers of " + quoted(spec().architecture) +
         ", or config.json does not have exactly one; without --mtp the model is calibrated as before");
  if (!has_mtp_layer(spec(), weights))
    fail("--mtp: " + quoted(folder.string()) + " has no tensors " + quoted(spec().mtp_names + "*") +
         "; many quantized copies leave the MTP layer out");
  model->add_mtp_layer();
}

void OpenedModel::report_tensors(bool ran_to_logits, NoticeListener& listener) const {
  SkipRules rules = weights.rules;
  if (!ran_to_logits) {
    const std::string norm = spec().final_norm.substr(0, spec().final_norm.rfind('.'));
    SkipRule after{"after the last cache", {}};
    after.patterns.push_back(weights.prefix.model + norm + ".*");
    if (!spec().merging_module.empty()) after.patterns.push_back(weights.prefix.model + spec().merging_module + ".*");
    if (!weights.prefix.lm_head.empty()) after.patterns.push_back(weights.prefix.head_module() + "*");
    for (int i = spec().last_counted_layer() + 1; i < static_cast<int>(spec().layers.size()); ++i)
      after.patterns.push_back(weights.prefix.model + spec().names_of(i) + "*");
    rules.add(std::move(after));
  }
  const SkipReport report = weights.text.report(rules);
  for (const SkipReport::Skipped& s : report.skipped)
    listener.hear(Notice::Detail,
                  "not read: " + std::to_string(s.n_tensors) + " tensor(s), " + bytes_text(s.bytes) + ", " + s.rule);
  if (report.unclaimed.empty()) return;
  constexpr size_t kListed = 8;
  std::string list;
  for (size_t i = 0; i < std::min(report.unclaimed.size(), kListed); ++i)
    list += (i ? ", " : "") + quoted(report.unclaimed[i]);
  if (report.unclaimed.size() > kListed) list += ", ...";
  listener.hear(Notice::Warning, std::to_string(report.unclaimed.size()) +
                                     " tensor(s) of the checkpoint were not used, for no known reason: " + list);
}

ModelInfo describe(const OpenedModel& model) {
  const ModelWeights& w = model.weights;
  ModelInfo info = model_info(model.spec());
  info.tensor_prefix = w.prefix.model;
  info.config_sha256 = config_sha256(model.checkpoint.config());
  info.weights_fingerprint =
      weights_fingerprint(model.checkpoint, language_model_tensors(model.checkpoint, w.prefix, w.rules));
  check_digests(info);
  return info;
}

std::vector<int32_t> end_tokens(const Checkpoint& checkpoint) {
  std::vector<int32_t> tokens;
  for (const Json* config : {&checkpoint.generation_config(), &checkpoint.config()}) {
    const Json* ids = config->is_object() ? find_member(*config, "eos_token_id") : nullptr;
    if (!ids) continue;
    for (const Json& id : ids->is_array() ? *ids : Json::array({*ids}))
      if (id.is_number_integer()) tokens.push_back(id.get<int32_t>());
    break;
  }
  return tokens;
}

}  // namespace kvcal
