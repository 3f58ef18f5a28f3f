"""Starts one case of mpi_cases under mpirun, as transport/mpi/mpi_launch.h says one should, and judges how the job ends.

    run_mpi_case.py --mpirun mpirun --program bin/mpi_cases --case stopped --ranks 3 [--status 75] [--within 20] [--expect TEXT]...
                    [--full-shared-memory] [--apart]

Required: the exit status, every expected text in the output, an end in time, no process left, and nothing left in shared
memory, for which the job gets a folder of its own there. With --full-shared-memory not a byte is free in /dev/shm; with --apart every
rank sees no processes but its own. Exit status 77: this machine does not permit that.

mpirun itself (Open MPI 4.1.4, on a busy machine) crashes or stays now and then once a rank has called MPI_Abort: 2 of 240 jobs
of the case "status" with eight ranks on two cores. Such an end is nobody's but its own, so the case gets up to three attempts then.
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def processes_with(token):
    """Processes whose environment holds the token, whatever their state."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if token.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


ATTEMPTS = 3
SKIPPED = 77
FULL = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
        'mount -t tmpfs -o size=16k tmpfs /dev/shm && ! head -c 16385 /dev/zero >/dev/shm/full 2>/dev/null && exec "$@"', "sh"]
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def permitted(words):
    try:
        return subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def is_fault_of_mpirun(status, output):
    return "MPI_ABORT was invoked" in output and (status is None or status in (-signal.SIGSEGV, 128 + signal.SIGSEGV))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--within", type=float, default=300)
    parser.add_argument("--expect", action="append", default=[])
    parser.add_argument("--full-shared-memory", action="store_true")
    parser.add_argument("--apart", action="store_true")
    arguments = parser.parse_args()
    if (arguments.full_shared_memory and not permitted(FULL)) or (arguments.apart and not permitted(APART)):
        print("skipped: this machine permits no namespaces")
        return SKIPPED

    advice = subprocess.run([arguments.program, "launch-command", str(arguments.ranks)], capture_output=True, text=True, check=True).stdout
    words = shlex.split(advice)
    environment = dict(os.environ)
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    words[0] = arguments.mpirun
    if arguments.full_shared_memory:
        words = [*FULL, *words]
    if arguments.apart:
        words += APART
        environment["OMPI_MCA_btl"] = "tcp,self"  # Open MPI's own shared memory crashes there

    for attempt in range(ATTEMPTS):
        status, output, failures = run_job(words, environment, arguments)
        print(" ".join([*words, arguments.program, arguments.case]))
        print(output)
        if not is_fault_of_mpirun(status, output):
            break
        print(f"attempt {attempt + 1}: mpirun did not survive the end of its own job")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def run_job(words, environment, arguments):
    """Its status (None: it had to be killed), what it said, and what was wrong."""
    memory = tempfile.mkdtemp(prefix="millrace_test_", dir="/dev/shm" if os.path.isdir("/dev/shm") and not arguments.full_shared_memory else None)
    token = f"MILLRACE_TEST_JOB={memory}"
    environment["MILLRACE_TEST_JOB"] = memory
    environment["OMPI_MCA_btl_vader_backing_directory"] = memory
    failures = []
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        job = subprocess.Popen([*words, arguments.program, arguments.case], env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            status = job.wait(timeout=arguments.within)
        except subprocess.TimeoutExpired:
            failures.append(f"did not end within {arguments.within} s")
            status = None
        seconds = time.monotonic() - started
        if status is not None and status != arguments.status:
            failures.append(f"mpirun exited with {status}, expected {arguments.status}")
        deadline = time.monotonic() + 30  # the last ones may still be on their way out
        while processes_with(token) and time.monotonic() < deadline and status is not None:
            time.sleep(0.05)
        left = [pid for pid in processes_with(token) if pid != os.getpid()]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if left:
            failures.append(f"{len(left)} processes were left behind")
        job.wait()
        if status is not None and os.listdir(memory):
            failures.append(f"left in shared memory: {', '.join(os.listdir(memory))}")
        shutil.rmtree(memory)
        log.seek(0)
        output = log.read()
    for text in arguments.expect:
        if text not in output:
            failures.append(f'"{text}" was not said')
    print(f"status {status} after {seconds:.2f} s")
    return status, output, failures


if __name__ == "__main__":
    sys.exit(main())
