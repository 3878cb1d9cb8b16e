#!/usr/bin/env bash
# The packages of requirements.lock, and nothing else, into the active environment. torch comes first, with its own dependencies,
# for an index that serves it as a CUDA build; where PRETRIEVE_TORCH_INDEX names an index of torch alone, from there.
set -euo pipefail
lock=envs/requirements.lock
torch=$(grep '^torch==' "$lock")
python -m pip install --no-input --disable-pip-version-check --constraint "$lock" \
  ${PRETRIEVE_TORCH_INDEX:+--extra-index-url "$PRETRIEVE_TORCH_INDEX"} "$torch"
python -m pip install --no-input --disable-pip-version-check --no-deps --requirement "$lock"
