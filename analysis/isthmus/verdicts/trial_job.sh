#!/usr/bin/env bash
#SBATCH --job-name=isthmus-trial
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --no-requeue
# Runs one task of a trial: the commands of plan.tsv for this part, node and task, in the random order listed there.
# ./submit submits this script and pins each array to its node. Files in tasks/ record the job and exit code of a task.
set -euo pipefail
trial=@TRIAL@
part=${1:?which part: one of @PARTS@; use ./submit}
task=$((${2:?the task that index 0 stands for; use ./submit} + SLURM_ARRAY_TASK_ID))
node=${SLURMD_NODENAME:-$(hostname -s)}
line=$(awk -F '\t' -v part="$part" -v node="$node" -v task="$task" \
  '$1 == part && $2 == node && $3 == task' "$trial/plan.tsv")
if [[ -z $line ]]; then
  echo "trial: task $task of $part on $node is not in $trial/plan.tsv" >&2
  exit 2
fi
progress=$trial/tasks/$part.$node.$task
if grep -qs ' ended 0$' "$progress"; then
  echo "trial: task $task of $part on $node was done before"
  exit 0
fi
echo "$SLURM_JOB_ID began" >>"$progress"
side=$(cut -f 4 <<<"$line")
# +u, because scripts that `module` and similar commands run fail with -u; -a exports the setup's variables to commands.
set +u -a
case $side in
  # @SETUP@
esac
set -u +a
commands=(
  # @COMMANDS@
)
status=0
for index in $(cut -f 5 <<<"$line" | tr ',' ' '); do
  export ISTHMUS_RESULTS=$trial/records/$side/command$((index + 1)) # identifies the command of a record
  mkdir -p "$ISTHMUS_RESULTS"
  bash -c "${commands[index]}" || status=$?
done
echo "$SLURM_JOB_ID ended $status" >>"$progress"
exit "$status"
