from pretrieve.base.program import run_command
from pretrieve.commands import my_corpus_hybrids

if __name__ == "__main__":
    run_command(my_corpus_hybrids)
