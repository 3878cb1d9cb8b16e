from pretrieve.base.program import run_command
from pretrieve.commands import pair_statistics

if __name__ == "__main__":
    run_command(pair_statistics)
