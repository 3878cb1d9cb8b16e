# Before Snakemake reads the configuration: where our code is, and that config.yaml can be read and has no endless aliases.

import gc
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

try:
    import pretrieve_checkout
except ImportError:
    raise WorkflowError(
        "The code of pretrieve is not beside its rules: clone the repository, and name the Snakefile in the clone "
        "(config/README.md)."
    )

# What a plan consists of stays to its end, so Python need not look through it for garbage so often:
# `snakemake -n --config scale=paper` takes 7 % less CPU time.
gc.set_threshold(200_000, 20, 20)

from pretrieve.base.errors import PretrieveError
from pretrieve.workflow.config_checks import check_file
from pretrieve.workflow.config_files import read_part


def refuse(error):
    """End with one line and no traceback: the message names the key, the value and what is allowed."""
    print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(1)


try:
    check_file("config.yaml")
    # Snakemake's own messages name neither the file nor the line, and it reads no file of remarks alone.
    # Nor does it see a key that stands twice, also in files of --configfile.
    for file in workflow.configfiles:
        read_part(Path(file))
    OWN_CONFIG = read_part(Path("config.yaml")) if Path("config.yaml").exists() else {}
except PretrieveError as error:
    refuse(error)
