"""run_cases.py SERVER CASES.json RESULTS.json: runs the loader checkers on many folders.

SERVER is vllm or sglang, whose check_SERVER.py gives the verdicts. The server is imported once; each case runs in a forked
child, since a server's loader leaves its process in one model's state. A case that RESULTS holds
already with the same input is not run again; RESULTS is written after every case.

A case: {"name", "dir", "flags": [...], "env": {...}, "want"?}; "want" is a regular expression that "verdict: message" of
a case must match, beside or instead of success.
"""

import hashlib
import importlib
import json
import os
import re
import sys
import time
import traceback

VERDICTS = {0: "ok", 1: "differs", 2: "refused", 3: "not run"}
SECONDS = 600  # of one case; the longest takes about 30


def input_sha256(case):
    """Of everything that decides the outcome: the case, and what lies in the folder and in the files it names."""
    digest = hashlib.sha256(json.dumps(case, sort_keys=True).encode())
    paths = [os.path.join(root, f) for root, _, files in os.walk(case["dir"]) for f in files] + case.get("files", [])
    for path in sorted(paths):
        digest.update(path.encode())
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def message_of(log):
    """The line that says why: of a refusal its error, else the first finding."""
    for start in ("REFUSED", "CHECKER LIMIT", "  BAD", "  TRAP"):
        for line in log.splitlines():
            if line.startswith(start):
                return re.sub(r"(/[\w.+-]+){2,}/", "", line.strip())[:400]
    return "" if "RESULT OK" in log else log.strip()[-400:]


def effect_of(verdict, log):
    """What became of a scale tensor, in the words of lib/servers/server_support.cpp; None where the run does not tell."""
    if verdict == "refused":
        if not re.search(r"^REFUSED.*([kvq]|output)_scale", log, re.MULTILINE):
            return None  # the server does not take the model itself
        return "crash" if re.search(r"^REFUSED at [^:]*: (KeyError|AssertionError)", log, re.MULTILINE) else "refused"
    if verdict == "ok":
        return "rounded to the model's dtype" if "rounded it to bf16" in log else "exact"
    if verdict != "differs" or not re.search(r"defaulted to 1\.0", log):
        return None
    warned = re.search(r"^  log WARNING: .*[kv]_scale\b.*not (found|loaded)", log, re.MULTILINE)
    return "left out with a warning" if warned else "left out without a word"


def leave_telling(path):
    """What os._exit becomes in a child: it first writes down which modules it has."""
    leave = os._exit

    def exit_(code):
        with open(path, "w") as file:
            file.write("\n".join(sys.modules))
        leave(code)

    os._exit = exit_


def import_too(path):
    """What a child had to import, the next need not: imports are most of a case's time."""
    if os.path.exists(path):
        with open(path) as file:
            names = file.read().split()
        for name in names:
            if name not in sys.modules and name.split(".")[0] in ("vllm", "sglang", "transformers", "compressed_tensors"):
                try:
                    importlib.import_module(name)
                except Exception:  # made by the child, not by a file
                    pass
        os.remove(path)


def run(case, checker, folder):
    """Forks; the child leaves by the checker's own _exit. Returns (verdict, message, effect, seconds)."""
    if "not_exported" in case:
        why = case["not_exported"].removeprefix("kvcal: error: ")
        return "not exported", re.sub(r"; the plug-in .*", "", why, flags=re.DOTALL)[:400], None, 0
    began, modules = time.monotonic(), os.path.join(folder, case["server"] + ".modules")
    log = os.path.join(folder, "logs", f"{case['server']}_{case['name'].replace('/', '_')}.log")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        out = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        leave_telling(modules)
        os.environ.update(case.get("env", {}))
        os.environ["VLLM_PLUGINS"] = os.environ.get("KVCAL_CHECK_PLUGINS", "")
        try:
            checker.check(checker.args([case["dir"], *case.get("flags", [])]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(3)
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() - began > SECONDS:
            os.kill(child, 9)
        time.sleep(0.2)
    import_too(modules)
    code = os.waitstatus_to_exitcode(done[1])
    with open(log, errors="replace") as file:
        text = file.read()
    verdict = VERDICTS.get(code, f"died ({code})")
    return verdict, message_of(text), effect_of(verdict, text), round(time.monotonic() - began, 1)


def main(server, cases_path, results_path):
    checker = __import__(f"check_{server}")
    checker.reexec()
    with open(cases_path) as file:
        cases = [c for c in json.load(file) if c["server"] == server]
    results = {}
    if os.path.exists(results_path):
        with open(results_path) as file:
            results = json.load(file)
    os.makedirs(os.path.join(os.path.dirname(os.path.abspath(results_path)), "logs"), exist_ok=True)
    waiting = []
    for case in cases:
        key, case_sha256 = f"{server} {case['name']}", input_sha256(case)
        if results.get(key, {}).get("input") != case_sha256:
            waiting.append((key, case_sha256, case))
    print(f"{server}: {len(cases)} cases, {len(cases) - len(waiting)} of them known", flush=True)
    waiting.sort(key=lambda entry: "not_exported" not in entry[2])
    if any("not_exported" not in case for _, _, case in waiting):
        checker.preload()
    version = __import__("importlib.metadata").metadata.version(server)
    for key, case_sha256, case in waiting:
        verdict, message, effect, seconds = run(case, checker, os.path.dirname(os.path.abspath(results_path)))
        said = f"{verdict}: {message}"
        as_wanted = bool(re.search(case["want"], said)) if "want" in case else verdict in ("ok", "not exported")
        results[key] = {
            "server": f"{server} {version}", "case": case["name"], "verdict": verdict, "message": message,
            "as_wanted": as_wanted, "input": case_sha256,
        } | case.get("says", {}) | ({"effect": effect} if effect and "says" in case else {})
        with open(results_path, "w") as file:
            json.dump(results, file, indent=1, sort_keys=True)
        print(f"{'ok' if as_wanted else 'NOT AS WANTED'} {seconds} s {key}: {said[:600]}", flush=True)
    wrong = [k for _, k in sorted((c["name"], f"{server} {c['name']}") for c in cases) if not results[k]["as_wanted"]]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
