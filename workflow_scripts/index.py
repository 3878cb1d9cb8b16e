from pretrieve.base.program import run_command
from pretrieve.commands import index

if __name__ == "__main__":
    run_command(index)
