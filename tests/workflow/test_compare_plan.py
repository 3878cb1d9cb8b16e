"""What `make compare` makes anew before it compares: few jobs, with one of every stage, and files that there are.

Seen to fail when: a system in the Makefile is misspelt.
"""

from __future__ import annotations

import re
import subprocess

from miniature import environment


def test_make_compare_makes_little(project):
    told = subprocess.run(
        ["make", "-n", "compare"], cwd=project.folder, env=environment(), capture_output=True, text=True, check=True
    ).stdout
    targets = re.findall(r"results/demo/\S+\.json", told)
    assert len(targets) == 13 and "compare-runs --scale 'demo' --at-least 70" in told
    ended = project.plan(*targets)
    # BM25 and three encoders, of which one is not pre-trained; every job serves all three training-set sizes.
    assert ended.count("pretrain") == ended.jobs["finetune_questions"] == 3 and not ended.count("retrieve")
    assert ended.jobs["bm25_questions"] == ended.jobs["pair_statistics"] == 1 and "table" not in ended.jobs
    assert sum(ended.jobs.values()) == 14
