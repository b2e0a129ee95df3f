#!/usr/bin/env bash
# Submits one part of the trial: an array per node, which runs its tasks one after the other. If submitted again, runs
# only the tasks that have not ended with exit code 0.
# Usage: ./submit @PARTS@ [options for sbatch…]
set -euo pipefail
cd @TRIAL@
part=${1:?which part: one of @PARTS@}
shift
nodes=$(awk -F '\t' -v part="$part" '$1 == part && !seen[$2]++ {print $2}' plan.tsv)
if [[ -z $nodes ]]; then
  echo "submit: no part $part; choose from: @PARTS@" >&2
  exit 2
fi
if ! answer=$(scontrol show node "$(paste -sd , <<<"$nodes")"); then # submits nothing unless all nodes exist
  echo "submit: ${answer##*$'
'}" >&2
  exit 2
fi

# Indices are below MaxArraySize, and arrays have at most max_array_tasks; nodes with more tasks need several arrays.
size=$(scontrol show config | awk '$1 == "MaxArraySize" {size = $3}
  match($0, /max_array_tasks=[0-9]+/) {most = substr($0, RSTART + 16, RLENGTH - 16)}
  END {print (most > 0 && most + 0 < size + 0 ? most : size)}')
if ((size < 1)); then
  echo "submit: this Slurm has no job arrays (MaxArraySize is 0)" >&2
  exit 2
fi
arrays=()
last=''
while read -r node task; do
  if grep -qs ' ended 0$' "tasks/$part.$node.$task"; then continue; fi
  first=$((task - task % size))
  if [[ "$node $first" != "$last" ]]; then
    last="$node $first"
    arrays+=("$last ")
  fi
  arrays[-1]+=$((task % size)),
done < <(awk -F '\t' -v part="$part" '$1 == part {print $2, $3}' plan.tsv)
if ((${#arrays[@]} == 0)); then
  echo "submit: all tasks of $part were done before"
  exit 0
fi
for each in "${arrays[@]}"; do
  read -r node first tasks <<<"$each"
  sbatch --nodelist="$node" --array="${tasks%,}%1" "$@" trial.sbatch "$part" "$first"
done
