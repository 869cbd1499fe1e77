"""kvcal.torch_states: every format to the bit, where states are rounded, and what is refused."""

import hashlib
import json
import sys
import unittest

import package
import numpy as np
import torch
import transformers

sys.path.insert(0, str(package.SOURCE / "tests/reference"))
from kvcal import torch_states
from kvcal.kvstats import StatisticsError
from state_formats import GOLDEN as FORMAT_GOLDEN
from state_formats import RANGES, numbers, round_state

GOLDEN = package.SOURCE / "tests/arch/golden"
IDS = [5, 9, 33, 2, 71, 40, 8, 17]


def load(name, dtype=torch.float32):
    folder = GOLDEN / name
    kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
    return kind.from_pretrained(folder, dtype=dtype).eval()


def bits(x):
    return (x + np.float32(0)).view(np.int32)


class Quiet(unittest.TestCase):
    def setUp(self):
        torch.set_grad_enabled(False)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()


class Formats(Quiet):
    def test_65536_numbers_become_what_ml_dtypes_makes_of_them(self):
        golden = json.loads(FORMAT_GOLDEN.read_text())["formats"]
        for name, ranges in golden.items():
            for expected in ranges:
                x = torch.from_numpy(numbers(expected["absmax"]).reshape(1, 1, 256, 256))
                found = torch_states.rounded(x, name, 3, 42)[0].numpy() + np.float32(0)
                self.assertEqual(hashlib.sha256(found.tobytes()).hexdigest(), expected["f32"], f"{name}, {expected['absmax']}")

    def test_scales_are_shared_as_in_the_reference(self):
        for name in torch_states.FORMATS:
            for shape in ((1, 256, 256), (4, 64, 256), (2, 100, 327)):  # no multiple of a tile
                x = np.resize(numbers(RANGES[1]), shape) * np.linspace(0.1, 3, shape[2], dtype=np.float32)
                found = torch_states.rounded(torch.from_numpy(x)[None], name, 3, 42)[0].numpy()
                np.testing.assert_array_equal(bits(found), bits(round_state(x, name, 3, 42)), f"{name} {shape}")

    def test_sequences_of_a_batch_do_not_share_scales(self):
        one, two = torch.randn(1, 2, 8, 8), 100 * torch.randn(1, 2, 8, 8)
        for name in torch_states.FORMATS:
            both = torch_states.rounded(torch.cat((one, two)), name, 1, 7)
            self.assertTrue(torch.equal(both[:1], torch_states.rounded(one, name, 1, 7)), name)

    def test_an_unknown_one_is_refused(self):
        with self.assertRaisesRegex(StatisticsError, "'int4' is no format of a recurrent state; these are: bf16, f16, "):
            with torch_states.stored(load("qwen3_next"), "int4"):
                pass


class Places(Quiet):
    def states_after(self, model, parts, name=None):
        cache, passed = None, 0
        for part in parts:
            where = passed + torch.arange(len(part))[None]
            cache = model(input_ids=torch.tensor([part]), past_key_values=cache, use_cache=True,
                          position_ids=where).past_key_values
            passed += len(part)
            if name:
                for layer, state in torch_states.states_of(cache).items():
                    state.copy_(torch.from_numpy(round_state(state[0].numpy(), name, layer, passed))[None])
        return torch_states.states_of(cache)

    def test_after_each_pass_and_not_within(self):
        model, parts = load("qwen3_next"), [IDS[:4], IDS[4:5], IDS[5:]]
        with torch_states.stored(model, "int8_per_row") as rounding:
            found = self.states_after(model, parts)
        expected = self.states_after(model, parts, "int8_per_row")
        self.assertEqual(rounding.n_rounded, len(parts) * len(expected))
        for layer, state in expected.items():
            self.assertTrue(torch.equal(found[layer], state), f"layer {layer}")

    def test_not_between_multiples(self):
        model = load("qwen3_next")
        with torch_states.stored(model, "int8", every=4) as rounding:
            layers = len(self.states_after(model, [IDS[:3], IDS[3:4], IDS[4:6], IDS[6:8]]))
        self.assertEqual(rounding.n_rounded, 2 * layers)

    def test_the_model_is_itself_again_afterwards(self):
        model = load("qwen3_next")
        before = self.states_after(model, [IDS])
        with torch_states.stored(model, "fp8_e4m3"):
            rounded = self.states_after(model, [IDS])
        after = self.states_after(model, [IDS])
        for layer, state in before.items():
            self.assertFalse(torch.equal(rounded[layer], state))
            self.assertTrue(torch.equal(after[layer], state))

    def test_generation_stores_after_each_token(self):
        model = load("qwen3_next")
        layers = len(self.states_after(model, [IDS]))
        with torch_states.stored(model, "bf16") as rounding:
            model.generate(input_ids=torch.tensor([IDS]), max_new_tokens=5, min_new_tokens=5, do_sample=False)
        self.assertEqual(rounding.n_rounded, 5 * layers)  # the last token is not fed again


class Refused(Quiet):
    def refusal(self, model, name):
        with self.assertRaises(StatisticsError) as caught, torch_states.stored(model, name):
            model(input_ids=torch.tensor([IDS]), use_cache=True)
        return str(caught.exception)

    def test_a_model_without_recurrent_state(self):
        self.assertEqual(self.refusal(load("llama"), "bf16"), "the cache of LlamaForCausalLM, a DynamicCache, has no recurrent state")

    def test_what_no_hook_sees(self):
        model = load("qwen3_next")
        run = {"a part of it": lambda: model.model(input_ids=torch.tensor([IDS]), use_cache=True), "nothing": lambda: None,
               "no cache": lambda: model(input_ids=torch.tensor([IDS]), use_cache=False)}
        for what, unseen in run.items():
            with self.subTest(what), self.assertRaisesRegex(StatisticsError, "no forward pass .* was seen, so nothing was rounded"):
                with torch_states.stored(model, "bf16"):
                    unseen()

    def test_a_cache_in_a_tuple_is_seen(self):
        with torch_states.stored(load("qwen3_next"), "bf16") as rounding:
            rounding.model(input_ids=torch.tensor([IDS]), use_cache=True, return_dict=False)
        self.assertGreater(rounding.n_rounded, 0)

    def test_arguments_that_mean_nothing(self):
        model = load("qwen3_next")
        with self.assertRaisesRegex(StatisticsError, "every 0 tokens"), torch_states.stored(model, "bf16", every=0):
            pass
        for sequences in ([], [IDS, [5]]):
            with self.assertRaisesRegex(StatisticsError, "sequences of two tokens or more"):
                torch_states.compare(model, sequences, ["bf16"])

    def test_states_in_16_bits(self):
        self.assertRegex(self.refusal(load("minimax", torch.bfloat16), "f16"),
                         "^layer [0-9]+ of MiniMaxForCausalLM keeps its state in torch.bfloat16, which rounds it already; load the "
                         "model with dtype=torch.float32$")

    def test_scales_whose_channels_are_not_known(self):
        model = load("qwen3_next")
        for _, block in kvcal_blocks(model):
            for module in block.modules():
                if "DeltaNet" in type(module).__name__:
                    module.__class__ = type("Memory", (type(module),), {})
        self.assertRegex(self.refusal(model, "int8_per_row"), "which numbers of a state .* share a scale in int8_per_row is not known$")
        with torch_states.stored(model, "int8_per_head"):
            model(input_ids=torch.tensor([IDS]), use_cache=True)


def kvcal_blocks(model):
    from kvcal import layers
    return layers.blocks_of(layers.decoder_of(model), model.config.num_hidden_layers)


class Comparison(Quiet):
    def test_chunks_that_no_sequence_is_longer_than_change_nothing(self):
        figures, = torch_states.compare(load("qwen3_next"), [IDS], ["fp8_e4m3"], chunk=len(IDS))
        self.assertEqual((figures.mean_kl, figures.same_top_token, len(figures.kl_by_token[0])), (0.0, 1.0, len(IDS) - 1))

    def test_a_coarser_format_is_further_away(self):
        model = load("qwen3_next")
        kl = [f.mean_kl for f in torch_states.compare(model, [IDS, IDS[::-1]], ["int16", "bf16", "fp8_e4m3"])]
        self.assertEqual(kl, sorted(kl))
        self.assertGreater(kl[0], 0)


if __name__ == "__main__":
    unittest.main()
