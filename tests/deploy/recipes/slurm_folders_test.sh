#!/bin/bash
# A ring started by srun on four nodes of a real Slurm, each with a network, a /tmp and a working folder of its own (namespaces): the job's
# file, checkpoints and the resumed run lie on the first node alone. A rank is killed, srun ends, and a second srun resumes: the weights are
# those of a run that nobody disturbed.
#
#   slurm_folders_test.sh MILLRACE
#
# Exit status 77: no Slurm here (slurmctld, slurmd, slurm-client, munge, its PMIx), no namespaces, or nobody who may make them (root).
self=$(readlink -f "$0")
hosts=$(dirname "$self")/../../node/mpi/hosts.sh
if [ -z "${MILLRACE_TEST_LAB-}" ]; then
  [ "$(id -u)" = 0 ] || { echo "skipped: namespaces want root"; exit 77; }
  MILLRACE_TEST_LAB=$(mktemp -d /var/tmp/millrace_lab_XXXXXX)
  export MILLRACE_TEST_LAB
  trap '"$hosts" down "$MILLRACE_TEST_LAB/net"; rm -rf "$MILLRACE_TEST_LAB"' EXIT
  "$hosts" up "$MILLRACE_TEST_LAB/net" 4 || { echo "skipped: namespaces are not permitted"; exit 77; }
  "$hosts" run "$MILLRACE_TEST_LAB/net" "$self" "$@" # everything from here on is on the first host
  exit $?
fi
source "$(dirname "$self")/slurm_cluster.sh"
ls /usr/lib/*/slurm-wlm/mpi_pmix*.so >/dev/null 2>&1 || { echo "skipped: this Slurm knows no PMIx"; end 77; }
lab=$MILLRACE_TEST_LAB/net
work=$folder/runs
mkdir "$work"
for own in "$work" /tmp /dev/shm; do "$hosts" own "$lab" "$own" || { echo "skipped: folders of their own are not permitted"; end 77; }; done
start_slurm "host1(10.91.7.1)" "NodeName=n%n NodeHostname=host%n NodeAddr=10.91.7.%n Port=%port CPUs=2 RealMemory=1000"
start_node 1 slurmd -N n1 -D
for n in 2 3 4; do start_node $n "$hosts" agent "$lab" 10.91.7.$n "cd $folder && SLURM_CONF=$SLURM_CONF PATH=$PATH slurmd -N n$n -D"; done
await_nodes

cat >"$work/job.textproto" <<'JOB'
model: "digits-cnn"
data: "digits"
cluster: "cpux4"
alignment: FPDEEP
steps: 1000
checkpoint_every: 50
JOB
training=(train --job "$work/job.textproto" --evaluate-every 0)
"$millrace" --log-level error "${training[@]}" --out "$folder/undisturbed" >/dev/null || fail "no run to compare with"
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_btl=tcp,vader,self
start=(srun --nodes=4 --ntasks=4 --mpi=pmix_v4 --kill-on-bad-exit=1 --chdir="$folder" "$millrace")
"${start[@]}" "${training[@]}" --deadline 20s --out "$work/run" >job.log 2>&1 &
first=$!
for _ in $(seq 600); do
  [ -n "$(ls "$work/run/checkpoints" 2>/dev/null | grep -E '^step-[0-9]+$')" ] && break
  kill -0 $first 2>/dev/null || break
  sleep 0.1
done
[ -n "$(ls "$work/run/checkpoints" 2>/dev/null)" ] || fail "no checkpoint: $(cat job.log)"
rank=
for process in /proc/[0-9]*; do
  { tr '\0' '\n' <"$process/environ"; } 2>/dev/null | grep -q "^SLURM_CONF=$SLURM_CONF\$" || continue
  { tr '\0' '\n' <"$process/environ"; } 2>/dev/null | grep -q '^PMIX_RANK=2$' && [ "$(basename "$(readlink "$process/exe")")" = millrace ] && rank=${process#/proc/}
done
[ -n "$rank" ] || fail "no rank 2 was found: $(cat job.log)"
kill -9 "$rank"
wait $first
echo "rank 2 of srun killed: status $?, the newest checkpoint is $(ls "$work/run/checkpoints" | grep -E '^step-[0-9]+$' | tail -n 1)"
"${start[@]}" train --resume "$work/run" --deadline 20s >job.log 2>&1 || fail "srun: status $?: $(cat job.log)"
grep -q "are sent" job.log || fail "the checkpoint was not sent to the other nodes: $(cat job.log)"
require_same "$work/run"
[ -z "$(find "$lab"/host*.files -name 'step-*')" ] || fail "checkpoints on other nodes: $(find "$lab"/host*.files -name 'step-*')"
echo "$(grep -o 'resumed at step [0-9]*' job.log); $(grep -o '[0-9]* of 4 ranks do not see .*checkpoints.*' job.log)"
echo "the weights of the undisturbed run: $(digest "$work/run")"
end 0
