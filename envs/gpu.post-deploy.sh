#!/usr/bin/env bash
# As cpu.post-deploy.sh, with faiss-gpu in place of faiss-cpu: both are the module faiss, so only one of them may be installed.
# torch and faiss-gpu come with their own dependencies, which are NVIDIA's libraries; their builds differ between indexes, so
# their versions are given, and no hashes.
set -euo pipefail
lock=$(mktemp)
trap 'rm -f "$lock"' EXIT
# A package is a line with its version and lines with its hashes, of which the last one ends without a backslash.
sed '/^faiss-cpu==/,/[^\\]$/d' envs/requirements.lock > "$lock"
faiss=$(sed -n 's/^faiss-cpu\(==[^ ]*\).*/faiss-gpu\1/p' envs/requirements.lock)
python -m pip install --no-input --disable-pip-version-check --require-hashes --no-deps --requirement "$lock"
python -m pip install --no-input --disable-pip-version-check --no-warn-conflicts \
  ${PRETRIEVE_TORCH_INDEX:+--extra-index-url "$PRETRIEVE_TORCH_INDEX"} --requirement envs/torch.txt "$faiss"
