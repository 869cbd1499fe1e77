"""check_kernels.py SERVER KVCAL [SITE]: attention by the server's own Triton kernels, against kvcal's model of each path.

SERVER is vllm or sglang, SITE a folder with its package if it is not installed (an unpacked wheel): Triton, PyTorch and ml_dtypes are
enough, no GPU. Queries, keys and values are those of goldens, scales those that KVCAL calibrates and 1.0. Rows go through the server's
own write into a cache of E4M3 and come back through its own attention. attention_paths.py says what is rounded when.

Each model is also broken in every way that it has (`mutants`): fails where one of these cannot be told from the kernel.
"""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import numpy as np
import torch
import triton_on_cpu  # first: it sets what Triton reads when it is imported
from attention_paths import PATHS, Case, Path, attend, mutants, stored
from triton_on_cpu import E4M3, rounded

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/reference"))
from cache_formats import round_rows  # noqa: E402  what tests/parity holds the program's own rounding against
from make_served_attention_goldens import golden_rows, loud_rows  # noqa: E402  what tests/evaluate holds its attention against

TOLERANCE = 1e-4  # of the outputs' root mean square; sums in f32 differ by 1e-7, one probability that falls to the other side by 1e-5
BLOCK = 16  # slots of a page
GOLDENS = {"grouped": "llama", "window": "cwm", "no groups": "gpt_neox", "mla": "deepseek_v3"}


# ------------------------------------------------------------------------------------------------ the kernels
MODES = {448: ("FP8_PER_TOKEN_HEAD", E4M3), 127: ("INT8_PER_TOKEN_HEAD", torch.int8), 15: ("INT4_PER_TOKEN_HEAD", torch.uint8)}


def pages(n_tokens, width, heads, dtype):
    return torch.zeros(-(-n_tokens // BLOCK) + 1, BLOCK, heads, width, dtype=dtype)


def run_vllm(kernels, path, case, scales, q_scale):
    """The outputs of each query of a prompt; of one token at a time where the kernel splits."""
    n, heads = len(case.k), case.k.shape[1]
    mode, dtype = MODES.get(path.per_row, ("FP8_PER_TENSOR", E4M3))
    cache = [pages(n, x.shape[-1] // (2 if dtype == torch.uint8 else 1), heads, dtype) for x in (case.k, case.v)]
    slots = torch.arange(n) + BLOCK  # the first page is another's
    k_scale, v_scale = (torch.tensor([s]) for s in scales)
    mode, rows = kernels.modes[mode], [None, None]
    if path.per_row:
        rows = [torch.ones(cache[0].shape[:3]) for _ in cache]
        kernels.write.triton_reshape_and_cache_flash_per_token_head_quant(case.k, case.v, *cache, *rows, slots, mode)
    else:
        kernels.write.triton_reshape_and_cache_flash(case.k, case.v, *cache, slots, "fp8", k_scale, v_scale)
    q = rounded(case.q.float() / q_scale, E4M3) if path.query else case.q
    prompt = path.splits == 1
    positions = torch.arange(n) if prompt else torch.tensor(case.ends) - 1
    n_seqs = 1 if prompt else len(positions)
    q = q[positions]
    out = torch.empty(len(q), q.shape[1], case.v.shape[-1])
    table = torch.arange(1, len(cache[0]), dtype=torch.int32).repeat(n_seqs, 1)
    split = {}
    if path.splits > 1:
        width = 1 << (case.q.shape[-1] - 1).bit_length()
        split = dict(seq_threshold_3D=1 << 10, num_par_softmax_segments=path.splits, softmax_segm_max=torch.empty(*q.shape[:2], path.splits),
                     softmax_segm_output=torch.empty(*q.shape[:2], path.splits, width), softmax_segm_expsum=torch.empty(*q.shape[:2], path.splits))
    kernels.unified.unified_attention(
        q=q, k=cache[0], v=cache[1], out=out, cu_seqlens_q=torch.tensor([0, n] if prompt else range(n_seqs + 1), dtype=torch.int32),
        max_seqlen_q=n if prompt else 1, seqused_k=(positions[-1:] if prompt else positions).int() + 1, max_seqlen_k=n,
        softmax_scale=case.softmax_scale, causal=True, window_size=(case.window - 1, 0) if case.window else (-1, -1), block_table=table,
        softcap=0, q_descale=torch.tensor([q_scale]), k_descale=k_scale, v_descale=v_scale, kv_quant_mode=mode, k_scale_cache=rows[0],
        v_scale_cache=rows[1], **split)
    return out, positions.tolist()


def run_vllm_mla(kernels, path, case, scales, _q_scale):
    """What writes a latent row (concat_and_cache_mla) is CUDA: the model writes it."""
    n, rank = len(case.k), case.v.shape[-1]
    cache = pages(n, case.k.shape[-1], 1, E4M3)
    cache.view(-1, *cache.shape[2:])[torch.arange(n) + BLOCK] = rounded(case.k.float() / scales[0], E4M3)
    positions = torch.tensor(case.ends) - 1
    q = case.q[positions]
    out, lse = torch.empty(len(q), q.shape[1], rank), torch.empty(q.shape[:2])
    table = torch.arange(1, len(cache), dtype=torch.int32).repeat(len(q), 1)
    scale = torch.tensor(scales[0])
    kernels.decode.decode_attention_fwd(q, cache, cache[..., :rank], out, lse, table, (positions + 1).int(),
                                        torch.empty(*q.shape[:2], path.splits, rank + 1), path.splits, case.softmax_scale, BLOCK,
                                        k_scale=scale, v_scale=scale, is_mla=True)
    return out, positions.tolist()


def write_sglang(kernels, case, scales):
    """The kernel that commits accepted drafts; by its comments it does what the pool's statements do on a GPU (k.div_(k_scale) in bf16,
    where PyTorch rounds the divisor, too; then E4M3). Of latent rows these statements."""
    n, heads = case.k.shape[:2]
    cache = [torch.zeros(n + 1, heads, x.shape[-1], dtype=E4M3) for x in (case.k, case.v)]
    rows = (torch.arange(n) + 1).view(1, n)
    if case.k.shape != case.v.shape:
        cache[0][1:] = rounded(case.k / torch.tensor(scales[0]).bfloat16(), E4M3)
        return [cache[0], cache[0][..., : case.v.shape[-1]]]
    width = heads * case.k.shape[-1]
    kernels.write.set_kv_buffer_prefix_valid_tiled_fp8[(1, n, -(-width // 64))](
        case.k, case.v, *cache, rows, torch.tensor([n], dtype=torch.int32), *scales, width, width, width, width, n, ROW_ELEMS=width,
        ELEMS_PER_TILE=64, FP8_MAX=448.0, K_SCALE_IS_TENSOR=True, V_SCALE_IS_TENSOR=True)
    return cache


def run_sglang(kernels, path, case, scales, _q_scale):
    cache = write_sglang(kernels, case, scales)
    n = len(case.k)
    if path.run == "extend":
        prefix = n - path.own_chunk
        out = torch.empty(path.own_chunk, case.q.shape[1], case.v.shape[-1])
        kernels.extend.extend_attention_fwd(
            case.q[prefix:], case.k[prefix:], case.v[prefix:], out, *cache, torch.tensor([0, path.own_chunk]), torch.tensor([0, prefix]),
            torch.arange(prefix) + 1, None, True, None, path.own_chunk, *scales, sm_scale=case.softmax_scale,
            sliding_window_size=case.window - 1 if case.window else -1)
        return out, list(range(prefix, n))
    first = [max(0, end - case.window) if case.window else 0 for end in case.ends]
    seen = [torch.arange(a, end) + 1 for a, end in zip(first, case.ends)]
    begins = torch.tensor([0, *(len(s) for s in seen)]).cumsum(0)
    q = case.q[torch.tensor(case.ends) - 1]
    out = torch.empty(*q.shape[:2], case.v.shape[-1])
    kernels.decode.decode_attention_fwd(
        q, *cache, out, begins, torch.cat(seen), torch.empty(*q.shape[:2], path.splits, case.v.shape[-1]), torch.empty(*q.shape[:2], path.splits),
        torch.full((len(q),), path.splits, dtype=torch.int32), path.splits, case.softmax_scale, *scales, has_mla=case.k.shape != case.v.shape)
    return out, [end - 1 for end in case.ends]


RUN = {("vllm", "unified"): run_vllm, ("vllm", "mla"): run_vllm_mla, ("sglang", "decode"): run_sglang, ("sglang", "extend"): run_sglang}


# ------------------------------------------------------------------------------------------------ cases and mutants
def tensor_of(path, name):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:begin])[name]
    first, end = entry["data_offsets"]
    return torch.frombuffer(bytearray(data[begin + first : begin + end]), dtype=torch.float32).view(entry["shape"]).bfloat16()


def golden_case(name):
    folder = SOURCE / "tests/arch/golden" / name
    golden = json.loads((folder / "golden.json").read_text())
    read = lambda site: tensor_of(folder / "golden.safetensors", f"f32.{site}")  # noqa: E731
    if "kv_lora_rank" in json.loads((folder / "config.json").read_text()):
        rank = json.loads((folder / "config.json").read_text())["kv_lora_rank"]
        k = read("latent")
        v = k[..., :rank]
    else:
        k, v = read("key"), read("value")
    return Case(read("query"), k, v, golden["softmax_scale"], golden["windows"].get(str(golden["full_layer"])))


def wide_latent():
    """Rows of DeepSeek's size, of which kernels read the rope part apart."""
    g = torch.Generator().manual_seed(51)
    draw = lambda heads: torch.randn(65, heads, 576, generator=g).bfloat16()  # noqa: E731
    k = draw(1)
    return Case(draw(4), k, k[..., :512], 192**-0.5, None, rope=64)


def loud_first_key():
    """One query that takes 41 % of 2,048 values which each have e^-8 of the first one's probability or so: an attention sink."""
    g = torch.Generator().manual_seed(51)
    q, k, v = (torch.randn(2049, heads, 16, generator=g) for heads in (4, 2, 2))
    q, v = q * 0.5, v + 1
    q[..., 0], k[..., 0], k[0] = 4, 0, 0
    k[0, :, 0] = 8
    return Case(q.bfloat16(), k.bfloat16(), v.bfloat16(), 0.25, None, ends=(2049,))


def calibrated(kvcal, name):
    """[(key, value)], of the layer that the golden has in full."""
    golden = json.loads((SOURCE / "tests/arch/golden" / name / "golden.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(SOURCE / "tests/arch/golden" / name, folder / "model", ignore=shutil.ignore_patterns("golden.*"))
        (folder / "prompts").write_text("".join(json.dumps({"id": str(i), "input_ids": s}) + "\n" for i, s in enumerate(golden["sequences"])))
        subprocess.run([kvcal, "calibrate", folder / "model", "--prompts", folder / "prompts", "--passes", "1", "--policy", "absmax", "-q", "-o",
                        folder / "scales"], check=True, stderr=subprocess.DEVNULL)
        layers = json.loads((folder / "scales").read_text())["layers"]
    layer = next(layer for layer in layers if layer["index"] == golden["full_layer"])
    return tuple(layer[site]["scale"] for site in (("latent", "latent") if "latent" in layer else ("key", "value")))


def away(x, y):
    part = float((x - y).pow(2).mean().sqrt() / y.pow(2).mean().sqrt())
    return part if part < torch.inf else torch.inf


def modelled(kernels, path, case, *scales_and_positions):
    """Four bits are kept of rows that were turned, and queries and outputs are turned likewise."""
    if path.per_row not in (15, 16):
        return attend(path, case, *scales_and_positions)
    turn, norm = kernels.int4.single_rht, kernels.int4.largest_power_of_2_divisor(case.q.shape[-1])
    turned = {site: turn(getattr(case, site).float()).bfloat16() for site in ("q", "k", "v")}
    out = attend(path, dataclasses.replace(case, **turned, softmax_scale=case.softmax_scale / norm), *scales_and_positions)
    return (turn(out, inverse=True) / norm).bfloat16().float()


def read_back(kernels, path, x, scale):
    """What `kvcal evaluate` reads of rows; tests/parity has the same of four bits from vLLM's kernel."""
    if path.per_row == 15:
        codes, scales = stored(path, kernels.int4.single_rht(x.float()).bfloat16(), None)
        return (kernels.int4.single_rht(codes * scales, inverse=True) / kernels.int4.largest_power_of_2_divisor(x.shape[-1])).bfloat16()
    rounding = {"format": "int8" if path.per_row == 127 else "e4m3"} | ({} if path.per_row else {"write": [scale]})
    return torch.from_numpy(round_rows(x.float().numpy(), rounding)).bfloat16()


def evaluated(kernels, case, positions, path=None, scales=(), query=None, own_p=("bf16", 1)):
    """What `kvcal evaluate` computes: rows read in bf16, probabilities in bf16, or as `own_p` says (--attention), queries as they are, or
    with `query` rounded at that scale (--query, --attention); without a path, of an unrounded cache."""
    k, v, q = case.k, case.v, case.q
    if path:
        k, v = (read_back(kernels, path, x, scale) for x, scale in zip((k, v), scales))
        q = (rounded(q.float() / query, E4M3).float() * query).bfloat16() if query else q
    return attend(Path("", "", (), own_chunk=len(k), own_p=own_p, tile=32 if own_p[0] == "e4m3" else 64), dataclasses.replace(case, q=q, k=k, v=v), (1.0, 1.0), (1.0, 1.0), positions, 1.0)


def measured(kernels, server, path, case, pair, mla, with_mutants):
    """{name of a model: how far it is from the kernel}, and the number of outputs. "": the path's own."""
    q_scale = 2**-6 if path.query and server == "vllm" else 1.0
    out, positions = RUN[server, path.run](kernels, path, case, pair, q_scale)
    same = lambda s: s  # noqa: E731
    models = {"": (path, same, same)} | (mutants(path, mla) if with_mutants else {})
    found = {name: away(modelled(kernels, model, case, write(pair), read(pair), positions, q_scale), out) for name, (model, write, read) in models.items()}
    found["evaluate"] = away(evaluated(kernels, case, positions, path, pair), out)
    found["evaluate --query"] = away(evaluated(kernels, case, positions, path, pair, q_scale if path.query else None), out)
    if path.p == "e4m3":
        found["evaluate --attention"] = away(evaluated(kernels, case, positions, path, pair, q_scale, (path.p, path.p_factor)), out)
    found["unrounded"] = away(evaluated(kernels, case, positions), out)
    return found, out.numel()


def goldens_differ(server):
    """Outputs that tests/evaluate expects of the program, against this folder's model of the same path; sinks it has not."""
    path = next(path for path in PATHS[server].values() if path.p == "e4m3")
    path = dataclasses.replace(path, quotient="f32", divisor="f32", read="f32", tile=32)
    worst = 0.0
    for golden in json.loads((SOURCE / "tests/evaluate/served_attention.json").read_text())["cases"]:
        if golden["sinks"]:
            continue
        rows, scale, window = loud_rows() if golden["name"] == "loud" else golden_rows(golden["name"])
        case = Case(*map(torch.from_numpy, rows), scale, window)
        query, *cached = golden["scales"]
        out = attend(path, case, cached, cached, [end - 1 for end in golden["ends"]], 1.0 if server == "sglang" else query)
        worst = max(worst, away(torch.tensor(golden["paths"][server]).view(out.shape), out))
    print(f"{server}: goldens of evaluate --attention {'as modelled' if worst <= TOLERANCE else 'DIFFER'}, by at most {worst:.1g}", flush=True)
    return worst > TOLERANCE


def main(server, kvcal, site=sysconfig.get_path("purelib")):
    np.seterr(all="ignore")  # an empty row's -inf - -inf, which the kernels select away
    triton_on_cpu.check_arithmetic()
    kernels = getattr(triton_on_cpu, server)(site)
    cases = {name: golden_case(golden) for name, golden in GOLDENS.items()} | {"mla 576": wide_latent(), "loud": loud_first_key()}
    scales = {name: calibrated(kvcal, golden) for name, golden in GOLDENS.items()} | {"mla 576": (0.0131, 0.0131), "loud": (0.0223, 0.0123)}
    failed = int(goldens_differ(server))
    for name, path in PATHS[server].items():
        worst, n_outputs = {}, 0
        for case in path.cases:
            written, wrong = scales[case], mutants(path, case.startswith("mla"))
            for pair in (written,) if path.per_row else (written, (1.0, 1.0), tuple(s / 8 for s in written)):  # the last one clips
                found, n = measured(kernels, server, path, cases[case], pair, case.startswith("mla"), pair == written)
                for model, part in found.items():
                    if model == "" or pair == (written if model in wrong or path.per_row else (1.0, 1.0)):
                        worst[model] = max(worst.get(model, 0.0), part)
                n_outputs += n
        off, (plain, query, loss) = worst.pop(""), (worst.pop(model) for model in ("evaluate", "evaluate --query", "unrounded"))
        attention = worst.pop("evaluate --attention", None)
        unseen = [model for model, part in worst.items() if part <= TOLERANCE]
        failed += off > TOLERANCE or bool(unseen)
        if attention is not None and path.run != "extend" and path.splits == 1 and attention > TOLERANCE:
            failed += 1
            print(f"{server}, {name}: NOT WHAT evaluate --attention COMPUTES")
        print(f"{server}, {name}: {n_outputs:,} outputs {'as modelled' if off <= TOLERANCE else 'DIFFER'}, by at most {off:.1g}. Away from it: an "
              f"unrounded cache {loss:.2g}, evaluate {plain:.2g}, evaluate --query {query:.2g}"
              + (f", evaluate --attention {attention:.2g}" if attention is not None else "") + f"; {len(worst)} wrong models at least {min(worst.values()):.1g}"
              + (f"; NOT NOTICED: {', '.join(unseen)}" if unseen else ""), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
