"""kvcal-torch calibrate MODEL --prompts FILE -o run.kvstats: statistics of a model that transformers runs."""

import argparse
import hashlib
import os
import re
import sys
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
import transformers

from kvcal.kvstats import StatisticsError
from kvcal.prompts import Prompt, read_prompts, tokenize
from kvcal.torch import observe

_DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


@dataclass(frozen=True)
class Shard:
    index: int  # from 1
    count: int

    def part_of(self, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
        if self.count > len(prompts):
            raise StatisticsError(f"{len(prompts)} prompts cannot be divided among {self.count} shards")
        return prompts[self.index - 1 :: self.count]

    def path_of(self, out: Path) -> Path:
        return out if self.count == 1 else out.with_name(f"{out.stem}.{self.index}-of-{self.count}{out.suffix}")


def parse_shard(text: str) -> Shard:
    if text == "auto":  # what torchrun gives every process
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            raise StatisticsError("--shard auto: RANK and WORLD_SIZE are not set; was it started by torchrun?")
        return Shard(int(os.environ["RANK"]) + 1, int(os.environ["WORLD_SIZE"]))
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise StatisticsError(f"--shard is '{text}', expected i/n, or auto")
    return Shard(int(found[1]), int(found[2]))


def load_model(name: str, dtype: str, device_map: Optional[str], trust_remote_code: bool) -> Any:
    """The class that config.json names, or the causal model of its type."""
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=trust_remote_code)
        kind = getattr(transformers, (config.architectures or [""])[0], None) or transformers.AutoModelForCausalLM
        return kind.from_pretrained(name, dtype=_DTYPES[dtype], device_map=device_map or default_device(),
                                    **({"trust_remote_code": True} if trust_remote_code else {})).eval()
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        what = "no such folder, and " if not Path(name).exists() else ""
        raise StatisticsError(f"'{name}': {what}{str(error).strip().splitlines()[0]}") from None


def default_device() -> Optional[str]:
    if not torch.cuda.is_available():
        return None
    return f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else "auto"


def processor_of(name: str, trust_remote_code: bool) -> Any:
    for kind in (transformers.AutoProcessor, transformers.AutoTokenizer):
        try:
            return kind.from_pretrained(name, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, ImportError):
            continue
    raise StatisticsError(f"'{name}': has no tokenizer that transformers reads; prompts of token ids need none")


def digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("".join(f"{part}\n" for part in parts).encode()).hexdigest()


def description(prompts: Sequence[Prompt], image_tokens: torch.Tensor, max_length: int) -> Dict[str, Any]:
    """Of all shards together."""
    ids = [prompt.inputs["input_ids"][0] for prompt in prompts]
    longest = max(map(len, ids))
    described = {
        "prompts_sha256": digest([prompt.canonical for prompt in prompts]),
        "plan_sha256": digest([f"{prompt.id} {row.tolist()}" for prompt, row in zip(prompts, ids)]),
        "n_prompts": len(prompts), "n_tokens": sum(map(len, ids)), "longest": longest, "max_length": max_length or longest}
    if image_tokens.numel():
        described["encoder_tokens"] = sum(int(torch.isin(row, image_tokens).sum()) for row in ids)
    return described


def tags_of(prompts: Sequence[Prompt]) -> Dict[str, List[int]]:
    tags: Dict[str, List[int]] = {}
    for i, prompt in enumerate(prompts):
        for tag in dict.fromkeys(prompt.record["tags"]):
            tags.setdefault(tag, []).append(i)
    return tags


def calibrate(options: argparse.Namespace) -> str:
    """What was done, in one line."""
    shard, started = parse_shard(options.shard), time.monotonic()
    out = shard.path_of(Path(options.out))
    if out.exists() and not options.force:
        raise StatisticsError(f"'{out}' exists already; --force replaces it")
    prompts = read_prompts(options.prompts)
    reader: List[Any] = []

    def processor() -> Any:
        if not reader:
            reader.append(processor_of(options.model, options.trust_remote_code))
        return reader[0]

    tokenize(prompts, processor, options.max_length)
    own = shard.part_of(prompts)
    model = load_model(options.model, options.dtype, options.device_map, options.trust_remote_code)
    with observe(model, [prompt.id for prompt in prompts]) as stats, torch.no_grad():
        for n, prompt in enumerate(own, 1):
            stats.feed.next_ids, stats.feed.kind = [prompt.id], prompt.kind
            model(**{name: x.to(model.device) if isinstance(x, torch.Tensor) else x for name, x in prompt.inputs.items()})
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{n} of {len(own)} prompts" + ("\n" if n == len(own) else ""))
    stats.save(out, options.model, options.force, shard=None if shard.count == 1 else astuple(shard), tags=tags_of(prompts),
               **description(prompts, stats.feed.image_tokens, options.max_length))
    return (f"{len(own)} prompts, {sum(stats.feed.n_tokens):,} tokens, {len(stats.counts)} caches, "
            f"{time.monotonic() - started:.1f} s; {out}")


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="kvcal-torch", description=__doc__)
    verb = root.add_subparsers(dest="verb", required=True).add_parser(
        "calibrate", help="run prompts through a model of transformers and write statistics for kvcal solve")
    add = verb.add_argument
    add("model", metavar="MODEL", help="checkpoint folder, or the id of one on the Hub")
    add("-p", "--prompts", nargs="+", required=True, metavar="FILE", help="files (.jsonl, .json, .txt); -: standard input")
    add("-o", "--out", required=True, metavar="FILE", help="statistics file to write")
    add("--force", action="store_true", help="overwrite an existing file")
    add("--max-length", type=int, default=2048, metavar="N", help="truncate prompts to N tokens; 0: no limit [2048]")
    add("--dtype", choices=tuple(_DTYPES), default="bf16", help="of weights and activations [bf16]")
    add("--device-map", metavar="MAP", help="for Accelerate: auto, cpu, cuda:1 [of torchrun's processes a GPU each, else auto]")
    add("--shard", default="1/1", metavar="i/n", help="run part i of n, for kvcal merge; auto: torchrun's, into FILE.i-of-n")
    add("--trust-remote-code", action="store_true", help="run the model's own code")
    return root


def say(text: str) -> None:
    """One line in one write, also where Python buffers nothing: torchrun's processes share a standard error."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    sys.stderr.write(f"kvcal-torch: {line}\n")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        say(calibrate(options))
    except StatisticsError as error:
        say(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
