from pretrieve.base.program import run_command

if __name__ == "__main__":
    run_command("my-corpus-plan")
