"""What calibrate, evaluate and inspect write: members of the JSON by the same names, as schemas/ describes them."""

import copy
import functools
import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Dict, List, Optional, Type, TypeVar, Union, get_args, get_origin, get_type_hints

R = TypeVar("R", bound="Record")
Members = Dict[str, Any]
_hints = functools.lru_cache(maxsize=None)(get_type_hints)


def _converted(hint: Any, value: Any) -> Any:
    inner = get_args(hint)
    if value is None or hint is Any:
        return value
    if get_origin(hint) is Union:  # Optional
        return _converted(inner[0], value)
    if get_origin(hint) is list:
        return [_converted(inner[0], x) for x in value]
    if get_origin(hint) is dict:
        return {key: _converted(inner[1], x) for key, x in value.items()}
    if is_dataclass(hint):
        return hint._of(value)  # type: ignore[union-attr]
    return float(value) if hint is float else value


class Record:
    """An object of a file; None is what it leaves out. Classes of it are frozen dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    @classmethod
    def _of(cls: Type[R], members: Members) -> R:
        hints: Members = _hints(cls)  # type: ignore[arg-type]
        made = cls(*(_converted(hints[field.name], members.get(field.name)) for field in fields(cls)))  # type: ignore
        object.__setattr__(made, "_members", members)
        return made

    def to_dict(self) -> Members:
        """Its JSON, with members that are no attributes, too."""
        members: Members = copy.deepcopy(self.__dict__["_members"])
        return members


class Written(Record):
    """A whole file."""

    @classmethod
    def from_json(cls: Type[R], text: bytes) -> R:
        made: R = cls._of(json.loads(text))
        object.__setattr__(made, "_text", text)
        return made

    def to_json(self) -> bytes:
        """The bytes that the program wrote."""
        text: bytes = self.__dict__["_text"]
        return text


class Model(Record):
    architecture: str
    model_type: str
    n_layers: int
    n_kv_layers: int
    max_positions: int
    tensor_prefix: str
    config_sha256: str
    weights_fingerprint: str
    n_mtp_layers: Optional[int]
    longrope: Optional[Members]
    also_valid_for: List[str]


# ---- kv-cache-scales.json


class Quantization(Record):
    dtype: str
    max: float
    granularity: str
    convention: str
    policy: str
    headroom: Optional[float]
    percentile: Optional[float]
    max_model_len: int
    limits: Members


class Damage(Record):
    kl: Optional[float]
    kl_unseen: Optional[float]
    rel: Optional[float]
    noise: Optional[float]
    flushed_tokens: Optional[float]
    on_stream: Optional[float]
    clips: bool
    by: str
    decided_by: str
    limits: Optional[Dict[str, float]]
    severity: float
    fp8: str


class Assessment(Record):
    """Does the scale matter: "any", "needed". Is FP8 all right: "fine", "keep16"."""

    scale: str
    fp8: str
    by: str
    at_scale: Damage
    at_one: Damage


class RoundTrip(Record):
    at_scale: float
    at_one: float
    clipped_at_scale: float
    clipped_at_one: float
    lost_at_scale: float
    lost_at_one: float
    noise_at_scale: Optional[float]
    noise_at_one: Optional[float]
    dominating_at_scale: Optional[float]


class Site(Record):
    """Keys, values, queries or the latent row of MLA; real = stored * scale."""

    scale: float
    absmax: float
    absmax_latent: Optional[float]
    absmax_rope: Optional[float]
    envelope: Optional[float]
    uses_envelope: Optional[bool]
    observations: int
    assessment: Optional[Assessment]
    verdict: str
    departs_from_one: Optional[List[str]]
    scale_per_head: Optional[List[float]]
    scale_per_channel: Optional[List[float]]
    absmax_per_head: List[float]
    zero_heads: Optional[List[int]]
    absmax_by_position: List[float]
    error: RoundTrip
    error_latent: Optional[RoundTrip]
    error_rope: Optional[RoundTrip]
    where: Members
    growth: Members


class CacheLayer(Record):
    """One that owns a cache, of key and value or of latent."""

    index: int
    name: str
    kind: str
    n_heads: int
    n_kv_heads: int
    head_dim_k: int
    head_dim_v: int
    key: Optional[Site]
    value: Optional[Site]
    latent: Optional[Site]
    query: Site
    joint: Optional[Members]


class LayerWithoutCache(Record):
    index: int
    kind: str
    shares_kv_with: Optional[int]


class StateLayer(Record):
    """A recurrent state, as it is after 64, 256, 1024, ... tokens and after all. No server takes a scale for it."""

    index: int
    kind: str
    heads: int
    keys: int
    values: int
    observations: int
    absmax: float
    absmax_per_head: List[float]
    absmax_by_position: List[float]
    error_fp8_e4m3: Members
    where: Members
    growth: Members


class Calibration(Record):
    prompts_sha256: str
    plan_sha256: str
    n_prompts: int
    n_tokens: int
    longest: int
    max_length: int
    passes: int
    precision: str
    isa: str
    tool_version: str
    activation_quant: Optional[str]
    encoder_tokens: Optional[int]
    merged: Optional[Members]
    converged: bool
    coverage: Optional[Members]
    sanity: Optional[Dict[str, float]]


class Scales(Written):
    format: str
    version: str
    model_type: str
    source_date_epoch: Optional[int]
    model: Model
    quantization: Quantization
    layers: List[CacheLayer]
    layers_without_kv: List[LayerWithoutCache]
    state_layers: Optional[List[StateLayer]]
    mtp_layers: Optional[List[CacheLayer]]
    ranges_by: Optional[Members]
    calibration: Calibration
    kv_cache: Optional[Members]
    kv_cache_left_out: Optional[str]

    def __repr__(self) -> str:
        return f"<Scales of {self.model.architecture}: {self.quantization.dtype}, {len(self.layers)} layers>"


# ---- What evaluate writes


class Estimate(Record):
    value: float
    interval: Optional[List[float]]  # of 95 %


class Kl(Record):
    """Divergence of the next token's distribution, in nats."""

    mean: float
    median: float
    p99: float
    worst: Members


class Figures(Record):
    n_tokens: int
    n_not_finite: Optional[int]
    kl: Optional[Kl]
    top1: Optional[float]
    nll: Optional[float]
    nll_reference: Optional[float]


class TagFigures(Figures):
    correct: Optional[float]


class RowErrors(Record):
    """Relative RMS errors of a layer's rows as they come back, of the worst head."""

    index: int
    key: Optional[float]
    value: Optional[float]
    latent: Optional[float]


class Variant(Figures):
    """The model with its cache stored in one way."""

    name: str
    format: str
    first_divergence: Optional[Members]
    correct: Optional[float]
    loops: Optional[int]
    answers: Optional[Members]
    errors: Optional[List[RowErrors]]  # since 1.2
    by_tag: Dict[str, TagFigures]
    by_position: List[Members]


class PromptFigures(Record):
    kl: Optional[float]
    top1: float
    n_not_finite: Optional[int]


class PromptResult(Record):
    prompt: str
    n_tokens: int
    variants: Dict[str, PromptFigures]


class Changes(Record):
    n_lost: int
    n_gained: int
    p: float


class VariantEstimates(Record):
    kl: Optional[Estimate]
    top1: Estimate
    kl_slope: Optional[Estimate]
    correct: Optional[Estimate]
    correct_changes: Optional[Changes]


class Pair(Record):
    variant: str
    against: str
    kl: Estimate
    n_worse: int
    n_better: int
    top1: Optional[Estimate]
    n_top1_lost: Optional[int]
    n_top1_gained: Optional[int]
    correct_changes: Optional[Changes]


class Conclusion(Record):
    """What the prompts show of others like them."""

    n_groups: int
    n_tokens: int
    n_common: int
    variants: Dict[str, VariantEstimates]
    times_floor: Optional[Dict[str, Estimate]]
    pairs: List[Pair]


class Recipe(Record):
    max_kl: float
    kl: float
    min_agreement: Optional[float]
    top1: Optional[float]
    sum_kl: float
    bytes_per_token: int
    n_measured: int
    formats: Optional[List[str]]
    layers: List[Members]


class LayerAlone(Record):
    index: int
    kl: Optional[float]
    top1: float
    nll: Optional[float]


class UntilDecided(Record):
    max_kl: float
    n_looks: int
    n_planned: int
    n_prompts_given: int


class Evaluation(Written):
    format: str
    version: str
    tool_version: str
    model: Model
    prompts: Members
    precision: str
    isa: str
    query: Optional[bool]
    max_new_tokens: Optional[int]
    keep_recent: Optional[int]
    attention: Optional[str]
    state_chunk: Optional[int]
    until_decided: Optional[UntilDecided]
    files: List[Dict[str, str]]
    reference_twice: Dict[str, float]
    variants: List[Variant]
    by_prompt: Optional[List[PromptResult]]
    conclusion: Optional[Conclusion]
    answers: Optional[List[Members]]
    recipe: Optional[Recipe]
    layers_sample: Optional[Members]
    layers: Optional[List[LayerAlone]]

    def __repr__(self) -> str:
        names = ", ".join(variant.name for variant in self.variants)
        return f"<Evaluation of {self.model.architecture}: {names}; {self.prompts['n_prompts']} prompts>"


# ---- What inspect prints


class ModelLayer(Record):
    index: int
    kind: str
    n_heads: Optional[int]
    n_kv_heads: Optional[int]
    head_dim_k: Optional[int]
    head_dim_v: Optional[int]
    window: Optional[int]
    shares_kv_with: Optional[int]
    parameters: int


class Inspection(Written):
    """Whether it can be calibrated (`supported`, else `reason`), and what its cache takes."""

    architecture: str
    model_type: str
    supported: bool
    reason: Optional[str]
    n_layers: Optional[int]
    n_kv_layers: Optional[int]
    kv_bytes_per_token: Optional[Dict[str, int]]
    weights_quantization: str
    weights_quantization_detail: Optional[str]
    kv_cache_quantization: Optional[str]
    parameters: Optional[int]
    max_positions: Optional[int]
    indexed_beyond: Optional[int]
    longrope: Optional[Members]
    recurrent_state_bytes: Optional[Dict[str, int]]
    memory: Optional[Dict[str, int]]
    weights: Optional[Members]
    weights_problem: Optional[str]
    servers: Optional[List[Members]]
    fold_problem: Optional[str]
    fold: Optional[Dict[str, int]]
    layers: List[ModelLayer]

    def __repr__(self) -> str:
        return f"<Inspection of {self.architecture}: {self.reason or 'supported'}>"
