from pretrieve.base.program import run_command
from pretrieve.commands import make_rehearsal_data

if __name__ == "__main__":
    run_command(make_rehearsal_data)
