from pretrieve.base.program import run_command
from pretrieve.commands import fetch_checkpoint

if __name__ == "__main__":
    run_command(fetch_checkpoint)
