#!/usr/bin/env python3
"""Encoding speed against the reference library: the same text, one run, one core each, alternating.

    python tests/bench/encode_bench.py build/release/tests/bench/encode_bench [megabytes, default 10] [rounds, default 5]

Trains two tokenizers (Qwen-like byte level; Llama-2-like with byte fallback) of 8,000 entries on this repository's own
texts, and encodes them repeated to the size. Prints MB/s (10^6 bytes), median and range, and checks that both give the
same number of ids.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reference/text"))
import structures  # noqa: E402
from structures import Q35  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402


def texts():
    prompts = [json.loads(line) for line in (ROOT / "datasets/default.jsonl").read_text(encoding="utf-8").splitlines()]
    own = [p.get("text") or "\n".join(str(m["content"]) for m in p["messages"]) for p in prompts]
    code = [f.read_text(encoding="utf-8") for f in sorted(ROOT.glob("lib/*/*.cpp"))]
    return own + code


def qwen_like(corpus):
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = structures._split(Q35)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=8000, show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tok


def llama2_like(corpus):
    """Trained word by word, used without a pre-tokenizer, as Llama-2's is."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tok.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=8000, show_progress=False, max_token_length=16,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    j = json.loads(tok.to_str())
    j["pre_tokenizer"] = None
    j["added_tokens"] = [t for t in j["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(j))


def main():
    program, megabytes = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    corpus = texts()
    whole = "\n".join(corpus)
    text = whole * (int(megabytes * 1e6) // len(whole.encode()) + 1)
    text = text.encode()[:int(megabytes * 1e6)].decode(errors="ignore")
    size = len(text.encode())
    for make in (qwen_like, llama2_like):
        tok = make(corpus)
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("tokenizer.json", "text")]
            pathlib.Path(files[0]).write_text(tok.to_str(), encoding="utf-8")
            pathlib.Path(files[1]).write_text(text, encoding="utf-8", newline="")
            fresh = Tokenizer.from_file(files[0])
            ours, theirs = [], []
            for _ in range(rounds):
                seconds, n_ids = subprocess.run([program, *files], capture_output=True, text=True, check=True).stdout.split()
                ours.append(size / 1e6 / float(seconds))
                start = time.perf_counter()
                n_reference = len(fresh.encode(text, add_special_tokens=False).ids)
                theirs.append(size / 1e6 / (time.perf_counter() - start))
                assert int(n_ids) == n_reference, (n_ids, n_reference)
            for name, speeds in (("kvcal", ours), ("tokenizers", theirs)):
                print(f"{make.__name__:<12} {name:<10} {statistics.median(speeds):6.2f} MB/s"
                      f"  ({min(speeds):.2f} to {max(speeds):.2f}, {rounds} rounds of {size / 1e6:.1f} MB)")
            print("  runs of one letter: length, seconds, ids")
            for line in subprocess.run([program, files[0], "--runs"], capture_output=True, text=True,
                                       check=True).stdout.splitlines():
                print("   ", line)


if __name__ == "__main__":
    main()
