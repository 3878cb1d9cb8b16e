from pretrieve.base.program import run_command
from pretrieve.commands import published_negatives

if __name__ == "__main__":
    run_command(published_negatives)
