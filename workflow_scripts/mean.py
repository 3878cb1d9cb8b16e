from pretrieve.base.program import run_command
from pretrieve.commands import mean

if __name__ == "__main__":
    run_command(mean)
