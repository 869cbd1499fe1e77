#include "servers/model_identity.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/kv_scale_names.h"
#include "checkpoint/text_prefix.h"
#include "model/architecture.h"

namespace kvcal {

bool has_mtp_layer(const Checkpoint& checkpoint, const ModelSpec& spec, const std::string& prefix) {
  const std::string& names = spec.mtp_names;
  return !names.empty() && !checkpoint.names_below(is_beside_prefix(names) ? names : prefix + names).empty();
}

StoredSpec stored_spec(const Checkpoint& checkpoint) {
  const std::unique_ptr<Model> model = parse_model(checkpoint.config());
  const TextPrefix prefix = detect_prefix(checkpoint, model->spec().embedding, model->spec().head);
  if (!has_mtp_layer(checkpoint, model->spec(), prefix.model)) return {model->spec(), ""};
  const ModelSpec without = model->spec();
  model->add_mtp_layer();
  const std::string module = module_name(prefix.model, model->spec().caches.back());
  const auto is_scale = [](const std::string& name) {
    KvScaleName parsed;
    return parse_kv_scale_name(name, parsed);
  };
  if (std::ranges::any_of(checkpoint.names_below(module + "."), is_scale)) return {model->spec(), ""};
  return {without, module};
}

ModelIdentity identify_model(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  return while_doing("opening " + quoted(folder.string()), [&] {
    ModelIdentity model;
    model.folder = checkpoint.folder();
    if (const std::optional<Json> record = read_fold_record(model.folder))
      model.fold = while_doing(quoted(std::string(kFoldRecord)), [&] { return fold_mark(*record); });
    const std::unique_ptr<Model> parsed = parse_model(checkpoint.config());
    model.spec = parsed->spec();
    const TextPrefix prefix = detect_prefix(checkpoint, model.spec.embedding, model.spec.head);
    model.tensor_prefix = prefix.model;
    if (has_mtp_layer(checkpoint, model.spec, prefix.model)) {
      parsed->add_mtp_layer();
      model.with_mtp = parsed->spec();
    }
    model.config_sha256 = config_sha256(checkpoint.config());
    const SkipRules rules(prefix.model + model.spec.layer_prefix, static_cast<int64_t>(model.spec.layers.size()));
    model.weights_fingerprint = weights_fingerprint(checkpoint, language_model_tensors(checkpoint, prefix, rules));
    return model;
  });
}

}  // namespace kvcal
