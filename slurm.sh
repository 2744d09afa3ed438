#!/bin/bash
# Runs the notebooks as a Slurm array, one a task, each on a copy of the project on the node's own disk. What it leaves
# comes back to the folder that it was sent from, and so do the replies it had if it was cut short: send it again.
#   sbatch --array=1-$(ls notebooks/*.ipynb | wc -l) slurm.sh     notebooks that train: an array of their own, with --gres=gpu:1
#SBATCH --job-name=medical-rag-book
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@180
set -euo pipefail
home=${SLURM_SUBMIT_DIR:?is set by sbatch}
export PROFILE=${PROFILE:-paper}
name=$(cd "$home/notebooks" && printf '%s\n' *.ipynb | sed -n "${SLURM_ARRAY_TASK_ID:?send this with --array}s/\.ipynb$//p")
[ -n "$name" ] || { echo "There is no notebook number $SLURM_ARRAY_TASK_ID in $home/notebooks." >&2; exit 2; }

work=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/$name.XXXXXX")
# where any later run on this machine takes them in
requests=$home/data/derived/requests/tasks/$PROFILE-$name
bring_back() {
  mkdir -p "$home/_build" "$requests"
  # this task's own alone: the others write theirs; a further model's folder is <profile>@<model>
  (
    cd "$work"
    find _build/*/"$PROFILE"* -maxdepth 2 -name "$name*" || true
    find data/derived/adapters -mindepth 1 -maxdepth 1 || true
  ) 2>/dev/null | tar -C "$work" -c -T - | tar -C "$home" -x
  [ ! -d "$work/data/derived/requests" ] || cp -a "$work/data/derived/requests/." "$requests/"
  rm -rf "$work"
}
trap bring_back EXIT

# Of the three minutes that Slurm leaves, two at most for the run to end as by Ctrl-C, and the rest to bring things back.
cut_short() {
  trap '' TERM
  for run in $(jobs -p); do
    kill -INT -- "-$run" || true
    for _ in {1..120}; do kill -0 "$run" 2>/dev/null || break; sleep 1; done
    kill -KILL -- "-$run" 2>/dev/null || true
  done
  exit 143
}
trap cut_short TERM

# the rest is large, made anew, or only read: the environments and the fetched files are linked
tar -C "$home" -c --exclude=./_build --exclude='./.venv*' --exclude=./data/raw --exclude=./data/derived . | tar -C "$work" -x
for shared in .venv .venv-llm data/raw; do [ ! -e "$home/$shared" ] || ln -s "$home/$shared" "$work/$shared"; done
mkdir -p "$work/data/derived/requests"
[ ! -d "$requests" ] || cp -a "$requests/." "$work/data/derived/requests/"

set -m  # a process group of its own: a signal to make alone would leave it waiting for what it started
make -C "$work" --no-print-directory notebook NB="$name" &
set +m
wait $!
