# Retriever → a directory that sentence-transformers loads, with a model card; only when it is asked for by name.


rule export:
    input:
        retriever=f"{ROOT}/retrievers/{{family}}-{{size}}/{{dataset}}/seed{{seed}}/pretrieve.json",
        metrics=f"{ROOT}/metrics/{{family}}-{{size}}/{{dataset}}/seed{{seed}}.json",
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        code=stage_sources("export.py"),
    output:
        f"{ROOT}/exports/{{family}}-{{size}}/{{dataset}}/seed{{seed}}/modules.json",
    log:
        f"{ROOT}/logs/export/{{dataset}}/{{family}}-{{size}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/export/{{dataset}}-{{family}}-{{size}}-seed{{seed}}.tsv"
    wildcard_constraints:
        family=r"[^/]+?",
        size=PLAN.alternation(
            size
            for options in config["datasets"].values()
            for size in options["sizes"]
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["export"].threads
    resources:
        **NEEDS["export"].resources,
    params:
        retriever=subpath(input.retriever, parent=True),
        out=subpath(output[0], parent=True),
        query_length=lambda wildcards: lengths_of(wildcards)[0],
        passage_length=lambda wildcards: lengths_of(wildcards)[1],
        licences=lambda wildcards: " ".join(
            map(shlex.quote, PLAN.licences(wildcards.dataset))
        ),
    message:
        "Exporting {wildcards.family}-{wildcards.size} for sentence-transformers"
    shell:
        f"python {SCRIPTS}/export.py"
        " --retriever {params.retriever} --tokenizer {input.tokenizer} --metrics {input.metrics}"
        " --query-length {params.query_length} --passage-length {params.passage_length} --licences {params.licences}"
        " --out {params.out} --log {log}"
