# Before Snakemake reads the configuration: where our code is, and that config.yaml is none that nobody could walk through.

import sys

sys.path.insert(
    0,
    str(
        workflow.current_basedir / "../src"
        if hasattr(workflow.current_basedir, "joinpath")
        else "src"
    ),
)

from pretrieve.base.errors import PretrieveError
from pretrieve.workflow.config_checks import check_file

try:
    check_file("config.yaml")
except PretrieveError as error:
    print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(1)
