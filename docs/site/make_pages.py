"""make_pages.py KVCAL OUT: the pages of the site as Markdown, laid out as the tree is, so that links need no change.

The documents are copied; a page for every finding is made of what the program says of itself (validate --list-rules,
doctor --list), of docs/findings.md and of examples; and the demo model's report. 'make site' then calls MkDocs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", *SOURCE.glob("docs/*.md"), *SOURCE.glob("schemas/*"),
             "datasets/README.md", "datasets/demo/README.md", "datasets/default.jsonl", "apps/plugins/README.md"]
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def program(kvcal, *arguments):
    """Its JSON."""
    return json.loads(subprocess.run([kvcal, *arguments, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def copy_documents(out):
    names = [str(Path(SOURCE, name).relative_to(SOURCE)) for name in DOCUMENTS]
    for name in names:
        target = out / ("index.md" if name == "README.md" else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            target.write_text(for_site(name, (SOURCE / name).read_text(), set(names)))
        else:
            shutil.copy(SOURCE / name, target)


def for_site(name, text, names):
    """Links to what the site does not have lose their target; those to the README lead to the first page."""

    def link(match):
        words, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or ":" in target:
            return match[0]
        found = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if found == "README.md":
            return f"[{words}]({path.removesuffix('README.md')}index.md{'#' + anchor if anchor else ''})"
        if found in names:
            return match[0]
        inside = os.path.join(found, "README.md")
        return f"[{words}]({path.rstrip('/')}/README.md)" if inside in names else words

    blocks = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in blocks)


def origins():
    """How each finding of validate comes about, and what is said of servers, by id."""
    found = {}
    for section in (SOURCE / "docs" / "findings.md").read_text().split("\n## ")[1:]:
        rule, text = section.split("\n", 1)
        text, _, servers = text.strip().partition("\n\nServers: ")
        found[rule] = (text.replace("](", "](../docs/"), servers.replace("](", "](../docs/"))
    return found


def examples_of_validate():
    lines = (SOURCE / "docs" / "site" / "examples.txt").read_text().splitlines()
    return {line.split()[1]: line for line in lines}


def sections_of(case):
    title, *parts = case.read_text().split("\n== ")
    return {"title": title.strip(), **{part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in parts}}


def examples_of_doctor():
    """By id the inputs of the smallest case that has it."""
    found = {}
    for path in sorted((SOURCE / "tests/unit/data/doctor/cases").glob("*.case"), key=lambda p: (p.stat().st_size, p.name)):
        case = sections_of(path)
        for rule in (case["findings"] + " " + case.get("notes", "")).split():
            found.setdefault(rule, case)
    return found


def lines_of_servers():
    """By id what servers print: (package, file, line)."""
    found = {}
    for row in (SOURCE / "tests/unit/data/doctor/lines.tsv").read_text().splitlines()[1:]:
        package, file, _, ids, line = row.split("\t")
        for rule in ids.split():
            found.setdefault(rule, []).append((package, file, line))
    return found


def block(text, longest=1200):
    text = text if len(text) <= longest else text[:longest] + " ..."
    return "```text\n" + text.replace("```", "'''") + "\n```\n"


def case_text(case):
    text = case["title"] + ".\n\n"
    for name, content in case.items():
        if name not in ("title", "findings", "notes", "top", "absent", "says"):
            text += f"`{name}`:\n\n" + block(content)
    return text


def plain(text):
    """As Markdown that shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>|{}])", r"\\\1", text)


class Findings:
    def __init__(self, kvcal):
        self.rules = {rule["rule"]: rule for rule in program(kvcal, "validate", "--list-rules")}
        self.entries = {entry["id"]: entry for entry in program(kvcal, "doctor", "--list")}
        self.ids = sorted({*self.rules, *self.entries}, key=lambda id: (re.sub(r"\d.*", "", id), int(re.search(r"\d+", id)[0]), id))
        self.origins, self.examples, self.cases, self.lines = origins(), examples_of_validate(), examples_of_doctor(), lines_of_servers()
        for name, found in (("docs/findings.md", self.origins), ("docs/site/examples.txt", self.examples)):
            if set(found) != set(self.rules):
                raise SystemExit(f"{name}: not those of validate: {sorted(set(found) ^ set(self.rules))}")

    def severity(self, id):
        return (self.rules.get(id) or self.entries[id])["severity"]

    def meaning(self, id):
        return self.rules[id]["meaning"] if id in self.rules else self.entries[id]["meaning"]

    def verbs(self, id):
        return [verb for verb, known in (("validate", self.rules), ("doctor", self.entries)) if id in known]

    def example(self, id):
        text = block(self.examples[id]) if id in self.examples else ""
        for package, file, line in self.lines.get(id, []):
            text += f"\n`{package}`, `{file}`:\n\n" + block(line)
        if not text and id in self.cases:
            text = case_text(self.cases[id])
        return text

    def origin(self, id):
        text = self.origins[id][0] + "\n\n" if id in self.origins else ""
        entry = self.entries.get(id, {})
        if "cause" in entry:
            text += f"It speaks for: {plain(entry['cause_title'])}.\n\n"
        if entry.get("confidence"):
            text += f"How this is known: {entry['confidence']}.\n\n"
        return text

    def servers(self, id):
        said = self.origins.get(id, ("", ""))[1]
        packages = sorted({package for package, _, _ in self.lines.get(id, [])})
        source = self.entries.get(id, {}).get("source", "")
        text = f"{said}\n\n" if said else ""
        text += f"{plain(source)}\n\n" if source else ""
        text += f"Printed by {', '.join(packages)}, as their sources have it.\n\n" if packages else ""
        if not text:
            text = "Any server: it is about the file, whatever loads it." if id in self.rules else "No version is known to differ."
        return text.rstrip() + "\n\n"

    def fixes(self, id):
        texts = [known[id]["fix"] for known in (self.rules, self.entries) if id in known and known[id]["fix"]]
        return "\n\n".join(plain(text) for text in dict.fromkeys(texts)) or "Nothing."

    def related(self, id):
        cause = self.entries.get(id, {}).get("cause")
        return [other for other in self.ids if cause and other != id and self.entries.get(other, {}).get("cause") == cause][:12]

    def page(self, id):
        verbs, severity, rule = self.verbs(id), self.severity(id), self.rules.get(id, {})
        text = f"# {id}: {plain(self.meaning(id))}\n\n"
        text += f'<span class="severity {severity}">{severity}</span> found by ' + " and ".join(
            f"[`kvcal {verb}`](../docs/{'ci' if verb == 'validate' else 'doctor'}.md)" for verb in verbs) + "\n\n"
        if rule.get("needs"):
            text += f"Looked for only with {plain(rule['needs'])}.\n\n"
        if example := self.example(id):
            text += f"## Example\n\n{example}\n"
        text += f"## How it comes about\n\n{self.origin(id)}" if self.origin(id) else ""
        if not_proved := self.entries.get(id, {}).get("does_not_prove"):
            text += f"It does not prove: {plain(not_proved)}.\n\n"
        text += f"## What to do\n\n{self.fixes(id)}\n\n## Servers and versions\n\n{self.servers(id)}"
        if related := self.related(id):
            text += "## See also\n\n" + "".join(f"- [{other}]({other}.md): {plain(self.meaning(other))}\n" for other in related)
        return text

    def index(self):
        text = ("# Findings\n\nWhat `kvcal validate` and `kvcal doctor` may find; an id has one meaning and one severity in both.\n\n"
                "| id | severity | verb | meaning |\n|---|---|---|---|\n")
        for id in self.ids:
            text += (f"| [{id}]({id}.md) | {self.severity(id)} | {', '.join(self.verbs(id))} | "
                     f"{plain(self.meaning(id))} |\n")
        return text


def example_report(kvcal, out):
    """That of the stressed demo model."""
    model, statistics = SOURCE / "datasets/demo/stressed", out / "demo.kvstats"
    subprocess.run([kvcal, "calibrate", model, "--prompts", SOURCE / "datasets/demo/prompts.jsonl", "-q", "--max-prompts", "12",
                    "-o", out / "demo.json", "--stats", statistics], check=True)
    subprocess.run([kvcal, "report", statistics, "-o", out / "report.html"], check=True, stdout=subprocess.DEVNULL)
    for name in ("demo.kvstats", "demo.json"):
        (out / name).unlink()


def main(kvcal, out):
    shutil.rmtree(out, ignore_errors=True)
    (out / "rules").mkdir(parents=True)
    copy_documents(out)
    findings = Findings(kvcal)
    for id in findings.ids:
        (out / "rules" / f"{id}.md").write_text(findings.page(id))
    (out / "rules" / "index.md").write_text(findings.index())
    example_report(kvcal, out)
    shutil.copy(SOURCE / "docs/site/style.css", out)
    print(f"{len(findings.ids)} pages of findings")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve())
