"""check_syntax.py RECIPES: each recipe is what its language takes; which says nothing about whether it works (deploy/recipes/README.md does)."""

import ast
import json
import subprocess
import sys
from pathlib import Path

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
for container in recipes.rglob("Containerfile"):
    words = {line.split(" ")[0] for line in container.read_text().replace("\\\n", " ").splitlines() if line and not line.startswith(("#", " "))}
    if unknown := words - {"FROM", "COPY", "WORKDIR", "RUN", "ENV", "USER", "ENTRYPOINT"}:
        failures.append(f"{container}: {unknown}")
print("\n".join(failures) or "every recipe is what its language takes")
sys.exit(1 if failures else 0)
