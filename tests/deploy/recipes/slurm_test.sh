#!/bin/bash
# The batch script of deploy/recipes/slurm in a real Slurm of four nodes on this machine: one slurmctld and four slurmd with a configuration of
# their own in a folder of their own. A rank is killed, the warning signal queues the job again, and the weights are those of a run that nobody
# disturbed.
#
#   slurm_test.sh MILLRACE BATCH_SCRIPT
#
# Exit status 77: no Slurm here (slurmctld, slurmd, slurm-client, munge), or nobody who may run it (root).
set -u
millrace=$(readlink -f "$1")
script=$(readlink -f "$2")
for program in slurmctld slurmd sbatch scontrol squeue munged mungekey; do
  command -v $program >/dev/null || PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd wants root"; exit 77; }
export PATH=$(dirname "$millrace"):$PATH:/usr/sbin

folder=$(mktemp -d /tmp/millrace_slurm_XXXXXX)
chmod 755 "$folder"
cd "$folder" || exit 1
processes=()
end() {
  [ "$1" = 0 ] || tail -n 15 "$folder"/slurmctld.log
  scancel --full -u root 2>/dev/null
  sleep 0.5
  for process in "${processes[@]}"; do kill -9 "$process" 2>/dev/null; done
  rm -rf "$folder"
  exit "$1"
}
fail() { echo "FAILED: $*"; end 1; }

host=$(hostname -s)
mkdir -p state munge
for n in 1 2 3 4; do mkdir -p spool/n$n; done
chmod 700 munge
mungekey --create --keyfile=munge/key || fail "no key for munge"
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --log-file="$folder/munge.log" \
  --seed-file="$folder/munge/seed" >munge_out.log 2>&1 &
processes+=($!)
port=$((20000 + $$ % 20000))
cat >slurm.conf <<CONF
ClusterName=millrace$$
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/spool/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
MinJobAge=60
KillWait=5
SlurmctldParameters=enable_configless
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
CONF
export SLURM_CONF=$folder/slurm.conf
slurmctld -D >slurmctld_out.log 2>&1 &
processes+=($!)
for n in 1 2 3 4; do
  slurmd -N n$n -D >slurmd_out.$n.log 2>&1 &
  processes+=($!)
done
disown -a # so that their end is not told
for i in $(seq 100); do
  [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = 4 ] && break
  sleep 0.2
done
[ "$(sinfo -h -N -o %T | grep -c idle)" = 4 ] || fail "the nodes are not there: $(sinfo -N 2>&1)"

training=(--model digits-cnn --data digits --cluster cpux4 --alignment fpdeep --evaluate-every 0 --checkpoint-every 50)
"$millrace" --log-level error train "${training[@]}" --steps 2000 --out "$folder/undisturbed" >/dev/null || fail "no run to compare with"
digest() { tail -n 1 "$1/metrics.jsonl" | grep -o '"weights_digest":"[0-9a-f]*"'; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MILLRACE_LAUNCH_FLAGS="--pause 0.1s"
job=$(sbatch --parsable --nodes=4 --ntasks-per-node=1 --output=job.log "$script" "${training[@]}" --steps 2000 --out "$folder/run") || fail "sbatch"
reached() { # STEP
  for i in $(seq 600); do
    [ -n "$(ls "$folder/run/checkpoints" 2>/dev/null | awk -F- -v least="$1" '/^step-[0-9]+$/ && $2 + 0 >= least')" ] && return 0
    sleep 0.1
  done
  return 1
}
rank=
reached 50 || fail "no checkpoint: $(cat job.log) $(scontrol show job "$job")"
for process in /proc/[0-9]*; do
  environment=$({ tr '\0' '\n' <"$process/environ"; } 2>/dev/null) || continue
  grep -q "^SLURM_JOB_ID=$job\$" <<<"$environment" && grep -q '^OMPI_COMM_WORLD_RANK=2$' <<<"$environment" &&
    [ "$(basename "$(readlink "$process/exe")")" = millrace ] && rank=${process#/proc/}
done
[ -n "$rank" ] || fail "no rank 2 was found: $(cat job.log)"
kill -9 "$rank"
echo "rank 2 killed"
for i in $(seq 300); do grep -q "attempt 2 of at most" job.log && break; sleep 0.1; done
grep -q "attempt 2 of at most" job.log || fail "it was not started again: $(cat job.log)"
sleep 2
if squeue -h -j "$job" -o %T | grep -q RUNNING; then
  scancel --batch --signal=USR1 "$job" || fail "scancel"
  for i in $(seq 300); do grep -q "the job is queued again" job.log && break; sleep 0.1; done
  grep -q "the job is queued again" job.log || fail "the warning did not queue it again: $(cat job.log)"
  echo "queued again after the warning"
fi
# Slurm lets a job that is queued again wait; two minutes are its least.
scontrol update JobId="$job" StartTime=now 2>/dev/null
for i in $(seq 4500); do
  case $(scontrol show job "$job" | grep -o 'JobState=[A-Z]*') in
    JobState=COMPLETED) break ;;
    JobState=FAILED | JobState=CANCELLED | JobState=NODE_FAIL) fail "$(cat job.log)" ;;
  esac
  sleep 0.1
done
[ "$(digest "$folder/run")" = "$(digest "$folder/undisturbed")" ] || fail "weights $(digest "$folder/run"), undisturbed $(digest "$folder/undisturbed"): $(cat job.log)"
echo "queued $(scontrol show job "$job" | grep -o 'Restarts=[0-9]*'); the weights of the undisturbed run: $(digest "$folder/run")"
end 0
