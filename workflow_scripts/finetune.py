from pretrieve.base.program import run_command
from pretrieve.commands import finetune

if __name__ == "__main__":
    run_command(finetune)
