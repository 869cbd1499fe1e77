#!/usr/bin/env python3
"""run_manifest.py MANIFEST FOLDER: checks a manifest against the schemas of Kubernetes, then runs its containers' commands as
processes, as the Job controller would: each index once, all Jobs at the same time, with FOLDER in the place of the volume."""

import os
import subprocess
import sys

import kubernetes_validate
import yaml

VERSIONS = ("1.28", "1.31")


def container_of(job):
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return container


def check(job):
    for version in VERSIONS:
        kubernetes_validate.validate(job, version, strict=True)
    pod, container = job["spec"]["template"]["spec"], container_of(job)
    assert pod["restartPolicy"] in ("Never", "OnFailure"), pod["restartPolicy"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}, mounts
    assert container["workingDir"] in mounts.values(), container["workingDir"]


def start(job, folder):
    spec = job["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    processes = []
    for index in range(spec.get("completions", 1)):
        environment = {"PATH": os.environ["PATH"]}
        if indexed:
            environment["JOB_COMPLETION_INDEX"] = str(index)
        processes.append(subprocess.Popen(container_of(job)["command"], cwd=folder, env=environment))
    return processes


def main(manifest, folder):
    with open(manifest) as file:
        jobs = list(yaml.safe_load_all(file))
    for job in jobs:
        check(job)
    # The merge first: it has to wait.
    processes = [p for job in reversed(jobs) for p in start(job, folder)]
    codes = [p.wait(timeout=300) for p in processes]
    assert len(codes) == 4 and not any(codes), codes


if __name__ == "__main__":
    main(*sys.argv[1:])
