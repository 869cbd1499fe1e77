#include "servers/model_identity.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/text_prefix.h"
#include "model/architecture.h"

namespace kvcal {

ModelIdentity identify_model(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  return while_doing("opening " + quoted(folder.string()), [&] {
    ModelIdentity model;
    model.folder = checkpoint.folder();
    if (const std::optional<Json> record = read_fold_record(model.folder))
      model.fold = while_doing(quoted(std::string(kFoldRecord)), [&] { return fold_mark(*record); });
    model.spec = parse_model(checkpoint.config())->spec();
    const TextPrefix prefix = detect_prefix(checkpoint, model.spec.embedding, model.spec.head);
    model.tensor_prefix = prefix.model;
    model.config_sha256 = config_sha256(checkpoint.config());
    const SkipRules rules(prefix.model + model.spec.layer_prefix, static_cast<int64_t>(model.spec.layers.size()));
    model.weights_fingerprint = weights_fingerprint(checkpoint, language_model_tensors(checkpoint, prefix, rules));
    return model;
  });
}

}  // namespace kvcal
