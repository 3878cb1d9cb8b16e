#!/usr/bin/env bash
# Snakemake, started so that a run that was killed does not stand in its way:  workflow/run.sh [OPTION …] [TARGET …]
# To be called in the working directory of the run; all words are Snakemake's. `make` starts its runs with it.
#
# Snakemake's lock is files, which outlive `kill -9`; `snakemake --unlock` removes them. So that nobody has to judge whether that
# is right, a run holds a lock of the system on .snakemake/alive, which ends with its process (flock(1)). Who gets it alone knows
# that no other run is alive here, and puts right what a killed one has left: its lock, and its jobs in Slurm's queue, which go on
# without it. Some cluster file systems keep such locks apart for each machine. So the file names the machine, and what a run on
# another one has left is only named.
set -euo pipefail

# Snakemake reads files of --configfile before any rule, and would not come back from one whose aliases have no end.
config_files=() naming=
for word in "$@"; do
  case $word in
    --configf*=*) config_files+=("${word#*=}") naming= ;;
    --configf*) naming=yes ;;
    -*) naming= ;;
    *) [ -z "$naming" ] || config_files+=("$word") ;;
  esac
done
[ ${#config_files[@]} -eq 0 ] || python -m pretrieve check-config -- "${config_files[@]}"

command -v flock > /dev/null || exec snakemake "$@"

say() { echo "$*" >&2; }

# Ids of Slurm's jobs that were submitted here by a run of this project: slurm-jobname-prefix of profiles/slurm.
left_jobs() {
  timeout 20 squeue --noheader --user="$(id -un)" --format='%A|%j|%Z' |
    HERE="$(pwd -P)" OWN="${SLURM_JOB_ID:-}" awk -F'|' '
      { id = $1; name = $2; sub(/^[^|]*\|[^|]*\|/, "") }
      name ~ /^pretrieve_/ && $0 == ENVIRON["HERE"] && id != ENVIRON["OWN"] && !seen[id]++ { print id }'
}

cancel_left_jobs() {
  command -v squeue > /dev/null && command -v scancel > /dev/null || return 0
  local jobs answer
  answer=$(left_jobs 2>&1) || { say "Slurm was not asked for jobs of a killed run ($(head -1 <<< "$answer"))."; return 0; }
  mapfile -t jobs < <(printf '%s' "$answer")
  [ ${#jobs[@]} -gt 0 ] || return 0
  if [ "$1" = foreign ]; then
    say "Slurm jobs ${jobs[*]} were submitted here by that run. If it is not alive, end them: scancel ${jobs[*]}"
    return 0
  fi
  scancel "${jobs[@]}" || return 0
  say "A run was killed here and left ${#jobs[@]} Slurm jobs (${jobs[*]}); they are cancelled, and training continues from its last checkpoint."
  for _ in $(seq 120); do  # Slurm's KillWait is 30 seconds, and file systems lag
    left_jobs 2> /dev/null | grep -Fxqf <(printf '%s\n' "${jobs[@]}") || return 0
    sleep 1
  done
  say "Slurm jobs ${jobs[*]} have not ended within two minutes; look at \`squeue --me\`."
}

mkdir -p .snakemake
exec 9>> .snakemake/alive
IFS=$'\t' read -r machine process since < .snakemake/alive || machine= process= since=
locked=$(find .snakemake/locks -name '*.lock' -print -quit 2> /dev/null || true)
if ! flock --exclusive --nonblock 9; then
  [ -z "$locked" ] || say "Another run is at work here (process $process on $machine, since $since). If this one is refused below," \
    "wait until that one has ended, and give the same command again."
elif [ -n "$locked" ] && [ -n "$machine" ] && [ "$machine" != "$(uname -n)" ]; then
  say "The lock of this folder belongs to a run on $machine, whose end cannot be seen from here. If it is not alive there," \
    "remove the lock with \`snakemake --unlock\`, and give the same command again."
  cancel_left_jobs foreign
else
  printf '%s\t%s\t%s\n' "$(uname -n)" $$ "$(date '+%F %H:%M')" > .snakemake/alive
  if [ -n "$locked" ]; then
    say "A run was killed here; its finished jobs are kept."
    snakemake --unlock "$@"
  fi
  cancel_left_jobs own
fi
flock --shared 9
exec snakemake "$@"  # keeps the lock as long as it lives; its jobs do not inherit it
