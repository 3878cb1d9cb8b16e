# Your own corpus: metrics of all objectives → one table with a recommendation → the winning retriever. The rules before are those
# of the papers' tables; pretrieve/workflow/my_corpus.py makes the configuration that they work on.

MY_CORPUS = my_corpus.table_request(config, ROOT) if my_corpus.compares(config) else {}

if config.get("my_corpus") and FIRST:
    my_corpus.say_what_is_left_out(config)


if MY_CORPUS:

    localrules:
        my_corpus_report,

    rule my_corpus_table:
        input:
            my_corpus.table_inputs(MY_CORPUS),
            template=code_file("src/pretrieve/reporting/templates/my_corpus.html.j2"),
        output:
            csv=f"{ROOT}/table.csv",
            md=f"{ROOT}/table.md",
            html=f"{ROOT}/table.html",
            choice=f"{ROOT}/choice.json",
        log:
            f"{ROOT}/logs/my_corpus_table.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_table.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["table"].threads
        resources:
            **NEEDS["table"].resources,
        params:
            code=stage_code("my_corpus_table.py"),
            request=as_text(MY_CORPUS.copy),
        message:
            f"Comparing objectives on {config['my_corpus']}"
        shell:
            f"python {SCRIPTS}/my_corpus_table.py"
            " --request {params.request} --csv {output.csv} --md {output.md}"
            " --html {output.html} --choice {output.choice} --log {log}"

    rule my_corpus_export:
        input:
            choice=rules.my_corpus_table.output.choice,
            tokenizer=TOKENIZER,
        output:
            directory(f"{ROOT}/retriever"),
        log:
            f"{ROOT}/logs/my_corpus_export.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_export.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["export"].threads
        resources:
            **NEEDS["export"].resources,
        params:
            code=stage_code("my_corpus_export.py"),
            licences=DATA.licences_of(MY_CORPUS["trained_on"]),
        message:
            "Exporting the best retriever for sentence-transformers"
        shell:
            f"python {SCRIPTS}/my_corpus_export.py"
            " --choice {input.choice} --tokenizer {input.tokenizer}"
            " --licences {params.licences} --out {output} --log {log}"

    rule my_corpus_report:
        input:
            my_corpus_files(),
        message:
            f"The comparison is there: {ROOT}/table.md"

else:

    rule my_corpus_report:
        input:
            lambda wildcards: my_corpus.refuse_report(config),
