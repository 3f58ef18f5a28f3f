# shellcheck shell=bash
# A real Slurm of four nodes on this machine, in a folder of its own: sourced by tests.
#
#   source slurm_cluster.sh MILLRACE            # $folder, $millrace, SLURM_CONF; exits with 77 where there is no Slurm, or no root
#   start_slurm "NodeName=..." ; start_node 1 slurmd -N n1 -D ; await_nodes
#   fail "what went wrong"  |  end 0            # everything started here is ended, $folder removed
set -u
millrace=$(readlink -f "$1")
for program in slurmctld slurmd sbatch scontrol squeue munged mungekey; do
  command -v $program >/dev/null || PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd wants root"; exit 77; }
PATH=$(dirname "$millrace"):$PATH:/usr/sbin
export PATH

# Not below /tmp, which nodes may have for themselves.
folder=$(mktemp -d /var/tmp/millrace_slurm_XXXXXX)
chmod 755 "$folder"
cd "$folder" || exit 1
processes=()
declare -A node_process
before_end=()
end() {
  [ "$1" = 0 ] || tail -n 15 "$folder"/slurmctld.log
  scancel --full -u root 2>/dev/null
  sleep 0.5
  for process in "${processes[@]}" "${node_process[@]}"; do kill -9 "$process" 2>/dev/null; done
  [ ${#before_end[@]} = 0 ] || "${before_end[@]}"
  rm -rf "$folder"
  exit "$1"
}
fail() { echo "FAILED: $*"; end 1; }
trap 'end 1' INT TERM

# CONTROLLER NODES [WORDS BEFORE SLURMCTLD...]: "name(address)", the lines of the nodes.
start_slurm() {
  local controller=$1 nodes=$2
  shift 2
  mkdir -p state munge spool/n1 spool/n2 spool/n3 spool/n4
  chmod 700 munge
  mungekey --create --keyfile=munge/key || fail "no key for munge"
  munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --log-file="$folder/munge.log" \
    --seed-file="$folder/munge/seed" >munge_out.log 2>&1 &
  processes+=($!)
  port=$((20000 + $$ % 20000))
  cat >slurm.conf <<CONF
ClusterName=millrace$$
SlurmctldHost=$controller
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
SlurmdTimeout=10
SlurmctldParameters=enable_configless
$(for n in 1 2 3 4; do echo "$nodes" | sed "s/%n/$n/g; s/%port/$((port + n))/g"; done)
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
CONF
  export SLURM_CONF=$folder/slurm.conf
  "$@" slurmctld -D >slurmctld_out.log 2>&1 &
  processes+=($!)
}

start_node() { # NUMBER WORDS...
  local n=$1
  shift
  "$@" >>"slurmd_out.$n.log" 2>&1 &
  node_process[$n]=$!
  disown -a # so that their end is not told
}

await_nodes() {
  for _ in $(seq 300); do
    [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = 4 ] && return 0
    sleep 0.2
  done
  fail "the nodes are not there: $(sinfo -N 2>&1)"
}

digest() { tail -n 1 "$1/metrics.jsonl" | grep -o '"weights_digest":"[0-9a-f]*"'; }
reached() { # STEP RUN JOB
  for _ in $(seq 1200); do
    scontrol show job "$3" | grep -qE 'JobState=(FAILED|COMPLETED|CANCELLED)' && return 1
    [ -n "$(ls "$2/checkpoints" 2>/dev/null | awk -F- -v least="$1" '/^step-[0-9]+$/ && $2 + 0 >= least')" ] && return 0
    sleep 0.1
  done
  return 1
}
await_log() { # TEXT
  for _ in $(seq 600); do grep -q "$1" job.log && return 0; sleep 0.1; done
  return 1
}
# Slurm lets a job that is queued again wait for two minutes, unless it is told otherwise; at once would be too soon, for it takes back what
# it had granted to the job before.
await_end_of_job() {
  local sooner=
  for _ in $(seq 4500); do
    case $(scontrol show job "$1" | grep -o 'JobState=[A-Z]*') in
      JobState=COMPLETED) return 0 ;;
      JobState=FAILED | JobState=CANCELLED | JobState=NODE_FAIL | JobState=TIMEOUT) fail "$(scontrol show job "$1") $(cat job.log)" ;;
      JobState=PENDING) [ -n "$sooner" ] || { scontrol update JobId="$1" StartTime=now+10 2>/dev/null && sooner=yes; } ;;
    esac
    sleep 0.2
  done
  fail "the job has not ended: $(scontrol show job "$1") $(cat job.log)"
}
require_same() { # RUN
  [ "$(digest "$1")" = "$(digest "$folder/undisturbed")" ] || fail "weights $(digest "$1"), undisturbed $(digest "$folder/undisturbed"): $(cat job.log)"
}
# Those of a job, by their environment: process numbers.
processes_of() { # JOB [NAME=VALUE]
  local process environment
  for process in /proc/[0-9]*; do
    environment=$({ tr '\0' '\n' <"$process/environ"; } 2>/dev/null) || continue
    grep -q "^SLURM_JOB_ID=$1\$" <<<"$environment" && grep -q "^${2-SLURM_JOB_ID=$1}\$" <<<"$environment" && echo "${process#/proc/}"
  done
}
