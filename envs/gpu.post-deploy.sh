#!/usr/bin/env bash
# As cpu.post-deploy.sh, with faiss-gpu in place of faiss-cpu: both are the module faiss, so only one of them may be installed.
# torch and faiss-gpu come with their own dependencies, which are NVIDIA's libraries.
set -euo pipefail
lock=$(mktemp)
trap 'rm -f "$lock"' EXIT
sed 's/^faiss-cpu==/faiss-gpu==/' envs/requirements.lock > "$lock"
torch=$(grep '^torch==' "$lock")
faiss=$(grep '^faiss-gpu==' "$lock")
python -m pip install --no-input --disable-pip-version-check --constraint "$lock" \
  ${PRETRIEVE_TORCH_INDEX:+--extra-index-url "$PRETRIEVE_TORCH_INDEX"} "$torch" "$faiss"
python -m pip install --no-input --disable-pip-version-check --no-deps --requirement "$lock"
