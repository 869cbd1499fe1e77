"""Falcon has no attention interface in the reference framework, and repeats key heads before it caches them. Its attention
with one: the interface is shown what a server would cache, the framework's own code computes the result."""

from transformers import AttentionInterface
from transformers.models.falcon import modeling_falcon as falcon


def eager_attention_forward(*_, **__):
    return None, None  # nobody reads it


class FalconAttention(falcon.FalconAttention):
    def forward(self, hidden_states, alibi, attention_mask, *args, position_embeddings=None, **kwargs):
        heads = self._split_heads(self.query_key_value(hidden_states))
        query, key, value = (x.transpose(1, 2) for x in heads)
        query, key = falcon.apply_rotary_pos_emb(query, key, *position_embeddings)
        group = self.num_heads // self.num_kv_heads if self.new_decoder_architecture else 1
        AttentionInterface()["golden"](self, query, key[:, ::group], value[:, ::group], attention_mask,
                                       scaling=self.inv_norm_factor)
        return super().forward(hidden_states, alibi, attention_mask, *args, position_embeddings=position_embeddings,
                               **kwargs)


falcon.FALCON_ATTENTION_CLASSES["golden"] = FalconAttention
