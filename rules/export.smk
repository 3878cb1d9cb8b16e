# Retriever → a directory that sentence-transformers loads, with a model card; only when it is asked for by name.


rule export:
    input:
        retriever=f"{ROOT}/retrievers/{{family}}-{{size}}/{{dataset}}/seed{{seed}}/pretrieve.json",
        metrics=f"{ROOT}/metrics/{{family}}-{{size}}/{{dataset}}/seed{{seed}}.json",
        tokenizer=of(DATA.tokenizer_of, "dataset"),
        card=of(MODELS.base_card, "family"),
    output:
        f"{ROOT}/exports/{{family}}-{{size}}/{{dataset}}/seed{{seed}}/modules.json",
    log:
        f"{ROOT}/logs/export/{{dataset}}/{{family}}-{{size}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/export/{{dataset}}-{{family}}-{{size}}-seed{{seed}}.tsv"
    wildcard_constraints:
        family=r"[^/]+?",
        size=alternation(size for options in config["datasets"].values() for size in options["sizes"]),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["export"].threads
    resources:
        **NEEDS["export"].resources,
    params:
        code=stage_code("export.py"),
        retriever=subpath(input.retriever, parent=True),
        out=subpath(output[0], parent=True),
        lengths=of(MODELS.length_arguments, "family", "dataset"),
        licences=of(DATA.licences_of, "dataset"),
        base=of(MODELS.base_argument, "family"),
    message:
        "Exporting {wildcards.family}-{wildcards.size} for sentence-transformers"
    shell:
        f"python {SCRIPTS}/export.py"
        " --retriever {params.retriever} --tokenizer {input.tokenizer} --metrics {input.metrics} {params.lengths}"
        " --licences {params.licences} {params.base} --out {params.out} --log {log}"
