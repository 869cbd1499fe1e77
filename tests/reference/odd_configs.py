"""Configs of make_config_layouts.py that are no plain language model, or that say something their class does not read."""

from config_parts import F, S, model, run, sizes

ODD = {
    "no_class_of_a_wrapper": (
        dict(model_type="qwen3_5", text_config=dict(sizes(248320, 256, 512, 4, 4, 2), model_type="qwen3_5_text")),
        "add 'Qwen3_5ForConditionalGeneration' if that", "model_type alone, of a wrapper"),
    "no_class_of_gpt2": (dict(model_type="gpt2", n_embd=768), "add 'GPT2LMHeadModel' if that is the class",
                         "model_type alone, of a class with another ending"),
    "no_class_of_bloom": (dict(model_type="bloom", n_head=16), "its model_type is 'bloom', which matches no supported class",
                          "model_type alone, of what is not read"),
    "qwen3_two_ropes": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 256, 512, 2, 4, 2),
              rope_parameters=dict(rope_type="default", rope_theta=1e6),
              rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768)),
        "rope_scaling and rope_parameters are both given and differ", "scaling added to a config in the newer form"),
    "qwen3_one_rope_twice": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 256, 512, 2, 4, 2, head_dim=64),
              rope_parameters=dict(rope_type="default", rope_theta=1e6),
              rope_scaling=dict(rope_theta=1e6, rope_type="default")), None, "the same under both keys"),
    "qwen3_one_rope_in_old_words": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 256, 512, 2, 4, 2, head_dim=64),
              rope_parameters=dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32768),
              rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
        [run(0, 1, 2, 64)], "the older key says less, and nothing else"),
    "qwen3_rope_of_a_kind": (
        model("Qwen3ForCausalLM", "qwen3", sizes(151936, 256, 512, 2, 4, 2),
              rope_parameters={S: dict(rope_type="default", rope_theta=1e6)}),
        "rope_parameters by layer kind are not supported", "a kind alone, and not the one that all have"),
    "llama_sliding_words": (
        model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 4, 2), sliding_window=128, layer_types=[S, F]),
        "layer_types names 'sliding_attention'", "servers slide by layer_types, the reference ignores them"),
    "gemma_sliding_words": (
        model("GemmaForCausalLM", "gemma", sizes(256000, 256, 512, 2, 4, 2, head_dim=64), sliding_window=128,
              layer_types=[S, F]), "layer_types names 'sliding_attention'", "the first Gemma has no windows"),
    "mixtral_full_words": (
        model("MixtralForCausalLM", "mixtral", sizes(32000, 256, 512, 2, 4, 2), sliding_window=128, layer_types=[F, F]),
        "layer_types names 'full_attention'", "a window on every layer, against layer_types"),
    "llama_full_words": (
        model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 4, 2), layer_types=[F, F]), None,
        "layer_types that say nothing new"),
    "llama_own_heads": (
        model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 4, 2),
              per_layer_config={"1": dict(num_key_value_heads=1)}),
        "per_layer_config gives layers sizes of their own", "the reference reads it in every class"),
    "llama_no_own_heads": (model("LlamaForCausalLM", "llama", sizes(32000, 256, 512, 2, 4, 2), per_layer_config={}),
                           None, "an empty per_layer_config"),
    "qwen2_not_causal": (
        model("Qwen2ForCausalLM", "qwen2", sizes(151936, 256, 512, 2, 4, 2), is_causal=False),
        "is_causal is false: every token attends to all others", "an embedding model under the name of a language model"),
    "qwen3_embedding": (model("Qwen3Model", "qwen3", sizes(151936, 256, 512, 2, 4, 2)),
                        "it is Qwen3ForCausalLM without its output head", "a bare model"),
    "qwen2_reward": (model("Qwen2ForProcessRewardModel", "qwen2", sizes(151936, 256, 512, 2, 4, 2)),
                     "it scores or classifies text", "a reward model"),
    "qwen3_reranker": (model("Qwen3ForSequenceClassification", "qwen3", sizes(151936, 256, 512, 2, 4, 2)),
                       "it scores or classifies text", "a reranker"),
    "llama_eagle3": (model("LlamaForCausalLMEagle3", "llama", sizes(128256, 256, 512, 1, 4, 2)),
                     "it is a draft head", "a draft head that looks like a small Llama"),
    "t5_small": (
        model("T5ForConditionalGeneration", "t5", d_model=512, d_kv=64, num_heads=8, num_layers=6,
              is_encoder_decoder=True), "it is an encoder-decoder model", "cross-attention"),
    "bert_base": (model("BertForMaskedLM", "bert", sizes(30522, 768, 3072, 12, 12)), "it is an encoder", "no cache"),
    "mamba_130m": (model("MambaForCausalLM", "mamba", state_size=16), "keep only recurrent state", "no cache"),
    "nemotron_h_blocks": (
        model("NemotronHForCausalLM", "nemotron_h", sizes(131072, 256, 512, 2, 4, 2, head_dim=64),
              hybrid_override_pattern="M*", mamba_num_heads=8, mamba_head_dim=64, n_groups=2,
              block_configs=[dict(block_type="mamba"), dict(block_type="attention", num_key_value_heads=1)]),
        "block_configs gives each layer its own sizes", "a pruned model whose layers differ"),
    "granite_with_sinks": (
        model("GraniteForCausalLM", "granite", sizes(49152, 256, 512, 2, 4, 2), attention_sinks=True),
        "attention_sinks are of GraniteSWAForCausalLM", "keys that a server reads in this class too"),
    "granite_4_micro": (
        model("GraniteMoeHybridForCausalLM", "granitemoehybrid", sizes(100352, 2560, 8192, 4, 40, 8),
              layer_types=["attention"] * 4, position_embedding_type="rope", shared_intermediate_size=8192,
              num_local_experts=0, num_experts_per_tok=0),
        [run(0, 3, 8, 64)], "a hybrid class whose layers are all attention"),
}
