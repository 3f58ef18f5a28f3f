"""check_syntax.py RECIPES: each recipe is what its language takes; which says nothing about whether it works (deploy/recipes/README.md does)."""

import ast
import json
import subprocess
import sys
from pathlib import Path

# What an MPIJob of v2beta1 takes, by the operator's definition of it (kubeflow/mpi-operator, manifests/base/kubeflow.org_mpijobs.yaml): the
# fields above the pods, with their types or words; of pods only that they name containers.
MPIJOB = {
    "slotsPerWorker": int, "sshAuthMountPath": str, "mpiImplementation": {"OpenMPI", "Intel", "MPICH"},
    "runPolicy": {"activeDeadlineSeconds": int, "backoffLimit": int, "cleanPodPolicy": {"None", "Running", "All"}, "suspend": bool,
                  "ttlSecondsAfterFinished": int, "schedulingPolicy": {"minAvailable": int, "priorityClass": str, "queue": str}},
    "mpiReplicaSpecs": {role: {"replicas": int, "restartPolicy": {"Always", "OnFailure", "Never", "ExitCode"}, "template": dict}
                        for role in ("Launcher", "Worker")}}


def misfits(value, wanted, where):
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            return [f"{where} has no fields"]
        return [text for name, inner in value.items()
                for text in (misfits(inner, wanted[name], f"{where}.{name}") if name in wanted else [f"{where} takes no {name}"])]
    if isinstance(wanted, set):
        return [] if value in wanted else [f"{where} is {value}, expected one of {sorted(wanted)}"]
    return [] if type(value) is wanted else [f"{where} is {value!r}, expected {wanted.__name__}"]


def misfits_of_job(job):
    found = misfits(job["spec"], MPIJOB, "spec")
    for role, replica in job["spec"]["mpiReplicaSpecs"].items():
        pod = replica["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            found += [f"{role}: a container lacks {name}" for name in ("name", "image") if not isinstance(container.get(name), str)]
            found += [f"{role}: no volume {mount['name']}" for mount in container.get("volumeMounts", []) if mount["name"] not in volumes]
    return found


recipes = Path(sys.argv[1])
failures = []
for script in recipes.rglob("*.sbatch"):
    if subprocess.run(["bash", "-n", script], check=False).returncode != 0:
        failures.append(f"{script}: bash does not take it")
for package in recipes.rglob("*.py"):
    try:
        ast.parse(package.read_text())
    except SyntaxError as error:
        failures.append(f"{package}: {error}")
try:
    import yaml
except ImportError:
    print("no PyYAML: documents of Kubernetes are not read")
else:
    for document in recipes.rglob("*.yaml"):
        job = yaml.safe_load(document.read_text())
        roles = job["spec"]["mpiReplicaSpecs"]
        if job["apiVersion"] != "kubeflow.org/v2beta1" or job["kind"] != "MPIJob" or set(roles) != {"Launcher", "Worker"}:
            failures.append(f"{document}: no MPIJob of v2beta1: {json.dumps(job)[:200]}")
        failures += [f"{document}: {misfit}" for misfit in misfits_of_job(job)]
for container in recipes.rglob("Containerfile"):
    words = {line.split(" ")[0] for line in container.read_text().replace("\\\n", " ").splitlines() if line and not line.startswith(("#", " "))}
    if unknown := words - {"FROM", "COPY", "WORKDIR", "RUN", "ENV", "USER", "ENTRYPOINT"}:
        failures.append(f"{container}: {unknown}")
print("\n".join(failures) or "every recipe is what its language takes")
sys.exit(1 if failures else 0)
