#!/usr/bin/env bash
# The packages of requirements.lock, each checked by its hash, and nothing else, into the active environment; then torch, with
# NVIDIA's libraries where it is a CUDA build; where PRETRIEVE_TORCH_INDEX names an index of torch alone, from there.
set -euo pipefail
python -m pip install --no-input --disable-pip-version-check --require-hashes --no-deps --requirement envs/requirements.lock
python -m pip install --no-input --disable-pip-version-check --no-warn-conflicts \
  ${PRETRIEVE_TORCH_INDEX:+--extra-index-url "$PRETRIEVE_TORCH_INDEX"} --requirement envs/torch.txt
