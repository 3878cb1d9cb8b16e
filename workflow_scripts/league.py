from pretrieve.base.program import run_command
from pretrieve.commands import league

if __name__ == "__main__":
    run_command(league)
