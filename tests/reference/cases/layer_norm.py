"""Decoders with layer norms: Nemotron, StableLM, OLMo 1, Phi, GPT-2, GPT-NeoX, OPT, Falcon."""

from cases.case import DENSE, Case, legacy_rope, rope

TWO = (7, 65)
SMALL = dict(DENSE, num_hidden_layers=2)
EQUAL = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
POSITIONS = 704  # tests/arch/isolation_test.cpp has sequences of 700
GPT2 = dict(vocab_size=96, n_embd=32, n_layer=2, n_head=2, n_positions=POSITIONS, bos_token_id=None, eos_token_id=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
OPT = dict(vocab_size=96, hidden_size=32, ffn_dim=80, num_hidden_layers=2, num_attention_heads=2,
           max_position_embeddings=POSITIONS, word_embed_proj_dim=32, dropout=0.0, bos_token_id=None, eos_token_id=2,
           pad_token_id=1)
FALCON = dict(vocab_size=96, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, ffn_hidden_size=80,
              max_position_embeddings=512, bos_token_id=None, eos_token_id=2, rope_parameters=rope(1e4))


def positioned(name: str, draw):
    """Tables of tokens and of positions that both count, norms that are called ln, and projections that make attention
    choose."""
    if name.endswith(("wte.weight", "embed_in.weight", "embed_tokens.weight", "word_embeddings.weight")):
        return draw.normal(1.0)
    if name.endswith(("wpe.weight", "embed_positions.weight")):
        return draw.normal(0.7)
    if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight", "ln_attn.weight", "ln_mlp.weight")):
        return draw.uniform(0.5, 1.5)
    if name.endswith(("c_attn.weight", "query_key_value.weight")):
        return draw.normal(1.5 * min(draw.shape) ** -0.5)
    return None


def one_plus_norms(name: str, draw):
    return draw.uniform(-0.5, 0.5) if name.endswith("norm.weight") else None


def neox_as_published(config: dict) -> dict:
    """Pythia: rotary_pct and rotary_emb_base."""
    rope = config.pop("rope_parameters")
    return dict(config, rotary_pct=rope["partial_rotary_factor"], rotary_emb_base=rope["rope_theta"])


CASES = (
    Case("jais2", "Jais2ForCausalLM", dict(SMALL, num_hidden_layers=2, layer_norm_eps=0.02, rope_parameters=rope(1e4)),
         "layer norms, a squared ReLU without a gate, biases everywhere by the class's default; an epsilon that is felt; old "
         "config form", lengths=TWO,
         published=lambda config: {key: value for key, value in legacy_rope(scaling=None)(config).items()
                                   if key not in ("attention_bias", "mlp_bias")}),
    Case("nemotron", "NemotronForCausalLM",
         dict(SMALL, head_dim=16, norm_eps=0.02, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "layer norms with gain 1 + w, squared ReLU, half of a head rotates; an epsilon that is felt", lengths=TWO,
         weights=one_plus_norms),
    Case("nemotron_bias", "NemotronForCausalLM",
         dict(SMALL, num_hidden_layers=1, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
              rope_parameters=rope(1e4, partial_rotary_factor=1.0)),
         "biases everywhere, whole heads rotate, tied; old config form", lengths=TWO, weights=one_plus_norms,
         published=lambda config: dict(legacy_rope(scaling=None)(dict(config, partial_rotary_factor=1.0)))),
    Case("stablelm", "StableLmForCausalLM",
         dict(SMALL, use_qkv_bias=True, layer_norm_eps=0.02, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "one branch after the other, biases on q, k, v, half of a head rotates; an epsilon that is felt", lengths=TWO),
    Case("stablelm_parallel", "StableLmForCausalLM",
         dict(SMALL, use_parallel_residual=True, qk_layernorm=True,
              rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "both branches behind one norm; every head of q and k has a norm and a gain of its own", lengths=TWO),
    Case("olmo", "OlmoForCausalLM", dict(SMALL, tie_word_embeddings=True, rope_parameters=rope(1e4)),
         "layer norms without gain and bias; old config form", lengths=TWO, published=legacy_rope(scaling=None)),
    Case("olmo_clipped", "OlmoForCausalLM", dict(SMALL, clip_qkv=1.0, attention_bias=True, rope_parameters=rope(1e4)),
         "q, k and v clamped to 1 before rope; biases", lengths=TWO),
    Case("phi", "PhiForCausalLM",
         dict(EQUAL, layer_norm_eps=0.02, rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "both branches behind one norm, biases everywhere, half of a head rotates; an epsilon that is felt; old config "
         "form",
         lengths=TWO, published=lambda config: dict(legacy_rope(scaling=None)(dict(config, partial_rotary_factor=0.5)))),
    Case("phi_normed", "PhiForCausalLM",
         dict(SMALL, qk_layernorm=True, hidden_act="gelu", rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "heads of q and k normed with one gain and bias; grouped queries; the exact gelu", lengths=TWO),
    Case("gpt2", "GPT2LMHeadModel", dict(GPT2, layer_norm_epsilon=0.02),
         "learned positions, transposed weights, tied; an epsilon that is felt", lengths=TWO, weights=positioned),
    Case("gpt2_scaled", "GPT2LMHeadModel",
         dict(GPT2, n_inner=80, scale_attn_by_inverse_layer_idx=True, activation_function="gelu",
              tie_word_embeddings=False),
         "the softmax scale falls with the layer; another width of the feed-forward, the exact gelu, untied",
         lengths=TWO, weights=positioned),
    Case("gpt_neox", "GPTNeoXForCausalLM",
         dict(EQUAL, layer_norm_eps=0.02, rope_parameters=rope(1e3, partial_rotary_factor=0.5)),
         "branches side by side, each behind a norm of its own; q, k, v of a head together; half of a head rotates; an "
         "epsilon that is felt; old config form",
         lengths=TWO, weights=positioned, published=neox_as_published),
    Case("gpt_neox_sequential", "GPTNeoXForCausalLM",
         dict(EQUAL, use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
              rope_parameters=rope(1e4, partial_rotary_factor=0.5)),
         "one branch after the other; no biases of attention; gelu by tanh", lengths=TWO, weights=positioned),
    Case("opt", "OPTForCausalLM", OPT, "learned positions two rows behind, ReLU, tied", lengths=TWO, weights=positioned),
    Case("opt_plain", "OPTForCausalLM",
         dict(OPT, enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu",
              tie_word_embeddings=False),
         "neither biases nor gains (Galactica), the exact gelu, untied", lengths=TWO, weights=positioned),
    Case("falcon", "FalconForCausalLM", dict(FALCON, num_kv_heads=4, layer_norm_epsilon=0.02),
         "one key head, whatever num_kv_heads says; both branches behind one norm; tied; an epsilon that is felt; old "
         "config form",
         lengths=TWO, weights=positioned, published=legacy_rope(scaling=None)),
    Case("falcon_newer", "FalconForCausalLM",
         dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, tie_word_embeddings=False),
         "two key heads, a norm for each branch, untied", lengths=TWO, weights=positioned),
    Case("falcon_sequential", "FalconForCausalLM",
         dict(FALCON, num_hidden_layers=1, multi_query=False, parallel_attn=False, bias=True),
         "as many key heads as queries, one branch after the other, biases", lengths=TWO, weights=positioned),
)
