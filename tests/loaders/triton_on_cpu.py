"""The servers' Triton kernels on a processor: Triton's interpreter, with the arithmetic of a GPU, and kernels without their packages.

The interpreter computes with the bits of a bfloat16 as if they were an integer, and cuts conversions off where a GPU rounds. Here
conversions round to nearest even, FP8 saturates (PTX: cvt.rn.satfinite), and sums of products of 8 and 16 bits are made in f32. What
a kernel's source says stays as it is; what it imports from its server is replaced by names that say "an NVIDIA GPU".
"""

import ast
import importlib.util
import os
import pathlib
import sys
import types
from enum import IntEnum

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max
TYPES = {"fp8e4nv": E4M3, "fp8e5": torch.float8_e5m2, "bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def rounded(x, dtype):
    """As a GPU converts; NaN stays."""
    x = x.float()
    return (x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max) if dtype.itemsize == 1 else x).to(dtype)


# ------------------------------------------------------------------------------------------------ the interpreter
def convert(data, source, target, _rounding=None):
    """In place of the interpreter's: the bits of numbers of one type, of another."""
    numbers = torch.from_numpy(np.array(data, order="C", ndmin=1)).view(TYPES[source.name])
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32}[TYPES[target.name].itemsize]
    unsigned = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[TYPES[target.name].itemsize]
    return rounded(numbers, TYPES[target.name]).view(unsigned).numpy().astype(bits).reshape(np.shape(data))


def f32(handle):
    narrow = handle.dtype.scalar.name in ("bf16", "fp8e4nv", "fp8e5")
    data = convert(handle.data, handle.dtype.scalar, tl.float32).view(np.float32) if narrow else handle.data.astype(np.float32)
    return interpreter.TensorHandle(data, tl.float32)


def round_as_gpus_do():
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    binary, unary = builder.binary_op, builder.unary_op

    def in_bf16(result):
        data = result.data
        return handle(data if data.dtype == np.bool_ else convert(data.astype(np.float32), tl.float32, tl.bfloat16), tl.bfloat16)

    def two(self, a, b, op):
        if a.dtype.scalar == tl.bfloat16 and b.dtype.scalar == tl.bfloat16:
            return in_bf16(binary(self, f32(a), f32(b), op))
        return binary(self, a, b, op)

    def one(self, a, op):
        return in_bf16(unary(self, f32(a), op)) if a.dtype.scalar == tl.bfloat16 else unary(self, a, op)

    def dot(_self, a, b, d, _precision, _imprecise):
        if a.dtype.scalar.is_floating():
            a, b = f32(a), f32(b)
        return handle(np.matmul(a.data, b.data, dtype=d.data.dtype) + d.data, d.dtype.scalar)

    def from_integers(self, source, target):
        if target.scalar != tl.bfloat16:
            return self.cast_impl(source, target)
        return handle(convert(source.data.astype(np.float32), tl.float32, tl.bfloat16), tl.bfloat16)

    pass_on = interpreter._implicit_cvt

    def argument(x):
        return tl.tensor(handle(np.array([x], np.float32), tl.float32), tl.float32) if isinstance(x, float) else pass_on(x)

    interpreter._convert_float, interpreter._implicit_cvt = convert, argument
    builder.binary_op, builder.unary_op, builder.create_dot = two, one, dot
    builder.get_bf16 = lambda _self, x: in_bf16(handle(np.array([x], np.float32), tl.float32))
    builder.create_si_to_fp = builder.create_ui_to_fp = from_integers


@triton.jit
def _convert_and_add(x, y, narrow, back, summed, n: tl.constexpr):
    at = tl.arange(0, n)
    number = tl.load(x + at)
    tl.store(narrow + at, number)  # the implicit conversion
    tl.store(back + at, tl.load(narrow + at).to(tl.float32))
    tl.store(summed + at, number.to(tl.bfloat16) + tl.load(y + at))


def check_arithmetic():
    """All numbers of bfloat16, and f32 numbers between, against PyTorch; an interpreter that changed is noticed here."""
    bits = torch.arange(1 << 16).to(torch.int32)
    exact = (bits << 16).view(torch.float32)
    between = ((bits << 16) | 0x8000).view(torch.float32)
    y = torch.full(bits.shape, 0.3, dtype=torch.bfloat16)
    for x in (exact, between):
        x = torch.where(x.isnan(), 0, x)
        narrow, back, summed = torch.empty_like(x, dtype=E4M3), torch.empty_like(x), torch.empty_like(y)
        _convert_and_add[(1,)](x, y, narrow, back, summed, n=1 << 16)
        stored = rounded(x, E4M3)
        for name, got, want in (("to E4M3", narrow.float(), stored.float()), ("from E4M3", back, stored.float()),
                                ("sum of bfloat16", summed.float(), (x.bfloat16() + y).float())):
            if not torch.equal(got, want):
                raise SystemExit(f"this Triton's interpreter is another one, {name}: {int((got != want).sum())} numbers differ")


# ------------------------------------------------------------------------------------------------ the servers' sources
class Nothing:
    """Any attribute, call or item of it is nothing, and false."""

    def __getattr__(self, _):
        return self

    def __call__(self, *_args, **_kwargs):
        return self

    def __bool__(self):
        return False


def stand_in(name, **content):
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        inner = ".".join(parts[:end])
        if inner not in sys.modules:
            sys.modules[inner] = types.ModuleType(inner)
            sys.modules[inner].__path__ = []
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[inner])
    sys.modules[name].__dict__.update(content)


def load(root, name):
    """One module from its file, its package's __init__ left out."""
    stand_in(name.rpartition(".")[0])
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(root, *name.split(".")).with_suffix(".py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def class_of(root, module, name):
    for node in ast.parse(pathlib.Path(root, *module.split(".")).with_suffix(".py").read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            scope = {"IntEnum": IntEnum}
            exec(ast.unparse(node), scope)
            return scope[name]
    raise SystemExit(f"{module} has no {name}: another version?")


def vllm(root):
    ops = "vllm.v1.attention.ops"
    platform = types.SimpleNamespace(
        fp8_dtype=lambda: E4M3, is_rocm=lambda: False, is_xpu=lambda: False, is_cuda=lambda: True,
        has_device_capability=lambda *_args, **_kwargs: True, is_device_capability_family=lambda _family: False)
    modes = class_of(root, "vllm.v1.kv_cache_interface", "KVQuantMode")
    stand_in("vllm.envs", VLLM_BATCH_INVARIANT=False)
    stand_in("vllm.logger", init_logger=lambda _name: Nothing())
    stand_in("vllm.platforms", current_platform=platform)
    stand_in("vllm.utils.math_utils", largest_power_of_2_divisor=lambda n: n & -n)
    stand_in("vllm.triton_utils", tl=tl, triton=triton)
    stand_in("vllm.v1.kv_cache_interface", KVQuantMode=modes, is_quantized_kv_cache=lambda name: name.startswith("fp8"))
    stand_in("vllm.model_executor.layers.quantization.utils.quant_utils", FP8_DTYPE=E4M3, get_fp8_min_max=lambda: (-LARGEST, LARGEST))
    load(root, f"{ops}.triton_attention_helpers")
    return types.SimpleNamespace(modes=modes, write=load(root, f"{ops}.triton_reshape_and_cache_flash"),
                                 unified=load(root, f"{ops}.triton_unified_attention"), int4=load(root, f"{ops}.int4_per_token_head"),
                                 decode=load(root, f"{ops}.triton_decode_attention"))


def sglang(root):
    ops = "sglang.kernels.ops"
    no = {name: lambda *_args: False for name in ("is_hip", "is_cpu", "is_gfx95_supported", "is_gfx1250_supported")}
    stand_in("sglang.srt.environ", envs=Nothing())
    stand_in("sglang.srt.utils", is_cuda=lambda: True, get_device_core_count=lambda *_args: 1, **no)
    load(root, f"{ops}.attention.score_mod")
    return types.SimpleNamespace(write=load(root, f"{ops}.kvcache.cache_move"), decode=load(root, f"{ops}.attention.decode_attention"),
                                 extend=load(root, f"{ops}.attention.extend_attention"))


torch.cuda.get_device_capability = lambda *_args: (9, 0)
round_as_gpus_do()
