#!/bin/bash
# The batch script of deploy/recipes/slurm in a real Slurm of four nodes on this machine. First a rank is killed, and the warning signal queues
# the job again; then, in another job, a node's daemon is killed with all that runs there, Slurm queues the job again by itself, and the node
# comes back. Either ends with the weights of a run that nobody disturbed. Last an array of seeds.
#
#   slurm_test.sh MILLRACE BATCH_SCRIPT
#
# Exit status 77: no Slurm here (slurmctld, slurmd, slurm-client, munge), or nobody who may run it (root).
script=$(readlink -f "$2")
source "$(dirname "$(readlink -f "$0")")/slurm_cluster.sh"
host=$(hostname -s)
start_slurm "$host(127.0.0.1)" "NodeName=n%n NodeHostname=$host NodeAddr=127.0.0.1 Port=%port CPUs=2 RealMemory=1000"
for n in 1 2 3 4; do start_node $n slurmd -N n$n -D; done
await_nodes

training=(--model digits-cnn --data digits --cluster cpux4 --alignment fpdeep --evaluate-every 0 --checkpoint-every 50 --steps 2000)
"$millrace" --log-level error train "${training[@]}" --out "$folder/undisturbed" >/dev/null || fail "no run to compare with"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MILLRACE_LAUNCH_FLAGS="--pause 0.1s"
submit() { # RUN
  job=$(sbatch --parsable --nodes=4 --ntasks-per-node=1 --output=job.log "$script" "${training[@]}" --out "$1") || fail "sbatch"
}

submit "$folder/run"
reached 50 "$folder/run" "$job" || fail "no checkpoint: $(cat job.log) $(scontrol show job "$job")"
rank=
for process in $(processes_of "$job" OMPI_COMM_WORLD_RANK=2); do
  [ "$(basename "$(readlink "/proc/$process/exe")")" = millrace ] && rank=$process
done
[ -n "$rank" ] || fail "no rank 2 was found: $(cat job.log)"
kill -9 "$rank"
echo "rank 2 killed"
await_log "attempt 2 of at most" || fail "it was not started again: $(cat job.log)"
sleep 2
if squeue -h -j "$job" -o %T | grep -q RUNNING; then
  scancel --batch --signal=USR1 "$job" || fail "scancel"
  await_log "the job is queued again" || fail "the warning did not queue it again: $(cat job.log)"
  echo "queued again after the warning"
fi
await_end_of_job "$job"
require_same "$folder/run"
echo "queued $(scontrol show job "$job" | grep -o 'Restarts=[0-9]*'); the weights of the undisturbed run: $(digest "$folder/run")"

submit "$folder/lost"
reached 50 "$folder/lost" "$job" || fail "no checkpoint: $(cat job.log) $(scontrol show job "$job")"
kill -9 "${node_process[3]}" $(processes_of "$job" SLURMD_NODENAME=n3) 2>/dev/null
before=$(ls "$folder/lost/checkpoints" | grep -E '^step-[0-9]+$' | tail -n 1)
echo "node n3 killed with all that ran there, the newest checkpoint is $before"
for _ in $(seq 600); do
  scontrol show job "$job" | grep -q 'Restarts=1' && break
  sleep 0.2
done
scontrol show job "$job" | grep -q 'Restarts=1' || fail "Slurm did not queue it again: $(scontrol show job "$job") $(sinfo -N) $(cat job.log)"
echo "Slurm queued it again by itself: $(sinfo -h -n n3 -o %T | head -n 1)"
start_node 3 slurmd -N n3 -D
await_end_of_job "$job"
require_same "$folder/lost"
grep -q "resumed at step" job.log || fail "it did not go on from a checkpoint: $(cat job.log)"
echo "$(grep -o 'resumed at step [0-9]*' job.log | tail -n 1); the weights of the undisturbed run: $(digest "$folder/lost")"

array=$(sbatch --parsable --array=1-3 --nodes=1 --ntasks-per-node=1 --output=array-%a.log "$script" --model digits-cnn --data digits --evaluate-every 0 --steps 50 \
  --seed '$SLURM_ARRAY_TASK_ID' --out "$folder/seed-\$SLURM_ARRAY_TASK_ID") || fail "sbatch --array"
for seed in 1 2 3; do
  for _ in $(seq 600); do
    scontrol show job "${array}_$seed" | grep -qE 'JobState=(COMPLETED|FAILED|CANCELLED)' && break
    sleep 0.2
  done
  "$millrace" --log-level error train --model digits-cnn --data digits --evaluate-every 0 --steps 50 --seed $seed --out "$folder/alone-$seed" >/dev/null || fail "seed $seed"
  [ "$(digest "$folder/seed-$seed")" = "$(digest "$folder/alone-$seed")" ] || fail "seed $seed of the array: $(cat array-$seed.log)"
done
echo "an array of three seeds: the weights of three runs by hand"
end 0
