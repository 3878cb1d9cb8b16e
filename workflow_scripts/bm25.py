from pretrieve.base.program import run_command
from pretrieve.commands import bm25

if __name__ == "__main__":
    run_command(bm25)
