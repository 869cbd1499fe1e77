"""Machine code of the kernels, as nvdisasm prints it: functions, their instructions, their loops."""

import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field

FUNCTION = re.compile(r"^\s*Function : (\S+)")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P[T0-9]+\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?);")
USAGE = re.compile(r"^\s*Function (\S+):")
BRANCH = re.compile(r"\b0x([0-9a-f]+)\s*$")


@dataclass
class Instruction:
    address: int
    opcode: str  # with its modifiers
    operands: str

    @property
    def base(self):
        return self.opcode.split(".")[0]

    @property
    def target(self):
        """Of a branch."""
        found = BRANCH.search(self.operands)
        return int(found.group(1), 16) if self.base == "BRA" and found else None


@dataclass
class Function:
    symbol: str
    name: str = ""
    code: list = field(default_factory=list)
    registers: int = 0
    stack: int = 0  # bytes of local memory: arrays and spills

    def loops(self):
        """Instructions of each innermost loop: from the target of a backward branch up to the branch."""
        spans = [(i.target, i.address) for i in self.code if i.target is not None and i.target < i.address]
        inner = [
            a for a in spans
            if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)
        ]
        return [[i for i in self.code if first <= i.address <= last] for first, last in sorted(set(inner))]


def count(instructions):
    return Counter(i.base for i in instructions)


def short_name(demangled):
    """'causal_conv_kernel<bf16>' of 'void kvcal::cuda::(anonymous namespace)::causal_conv_kernel<kvcal::bf16>(...)'."""
    text = demangled.replace("(anonymous namespace)::", "").replace("kvcal::cuda::", "").replace("kvcal::", "")
    text = re.sub(r"_GLOBAL__N__\w+::", "", text).removeprefix("void ")
    depth, end = 0, len(text)
    for at, character in enumerate(text):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "(" and depth == 0:
            end = at
            break
    return re.sub(r"\((?:int|bool|long|unsigned int)\)", "", text[:end])


def demangled(symbols):
    text = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    return [short_name(line) for line in text.splitlines()]


def read(cuobjdump, path):
    """The functions of an object file, by the order in it."""
    functions = {}
    sass = subprocess.run([cuobjdump, "-sass", path], capture_output=True, text=True, check=True).stdout
    current = None
    for line in sass.splitlines():
        if found := FUNCTION.match(line):
            current = functions.setdefault(found.group(1), Function(found.group(1)))
        elif current and (found := INSTRUCTION.match(line)):
            current.code.append(Instruction(int(found.group(1), 16), found.group(2), found.group(3)))
    usage = subprocess.run([cuobjdump, "-res-usage", path], capture_output=True, text=True, check=True).stdout
    for line in usage.splitlines():
        if found := USAGE.match(line):
            current = functions.get(found.group(1))
        elif current and "REG:" in line:
            current.registers = int(re.search(r"REG:(\d+)", line).group(1))
            current.stack = int(re.search(r"STACK:(\d+)", line).group(1))
    for function, name in zip(functions.values(), demangled(functions)):
        function.name = name
    return list(functions.values())
