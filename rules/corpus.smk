# Raw files → corpus (Parquet) → vocabulary → token store; and the statistics of its pre-training pairs.


rule corpus:
    input:
        dump=lambda wildcards: source_of(wildcards.corpus, "dump"),
        leads=lambda wildcards: source_of(wildcards.corpus, "leads"),
        code=stage_sources("corpus.py"),
    output:
        tables=expand(
            "{root}/corpora/{{corpus}}/{table}.parquet",
            root=ROOT,
            table=["articles", "sections", "passages", "links"],
        ),
        stats=f"{ROOT}/corpora/{{corpus}}/stats.json",
    log:
        f"{ROOT}/logs/corpus/{{corpus}}.log",
    benchmark:
        f"{ROOT}/benchmarks/corpus/{{corpus}}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        out=subpath(output.stats, parent=True),
        expect=lambda wildcards: " ".join(
            f"{name}={count}"
            for name, count in config["corpora"][wildcards.corpus]
            .get("expect", {})
            .items()
        ),
    message:
        "Reading the dump into corpus {wildcards.corpus}"
    shell:
        "python workflow_scripts/corpus.py --dump {input.dump} --leads {input.leads} --out {params.out}"
        " --expect {params.expect} --log {log}"


rule vocabulary:
    input:
        tables=lambda wildcards: corpus_files(wildcards.corpus, "articles", "passages"),
        given=given_vocabulary(),
        code=stage_sources("tokens.py"),
    output:
        f"{ROOT}/corpora/{{corpus}}/tokenizer.json",
    log:
        f"{ROOT}/logs/vocabulary/{{corpus}}.log",
    benchmark:
        f"{ROOT}/benchmarks/vocabulary/{{corpus}}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        corpus=lambda wildcards, input: folder_of(input.tables),
        size=PLAN.scale["vocabulary_size"],
        given=lambda wildcards, input: (
            f"--given {hub.vocabulary_place(str(input.given))}" if input.given else ""
        ),
    message:
        "Making the vocabulary of {wildcards.corpus}: {params.size} word pieces at most"
    shell:
        "python workflow_scripts/tokens.py vocabulary --corpus {params.corpus} --size {params.size} {params.given} --out {output}"
        " --log {log}"


rule token_store:
    input:
        tables=lambda wildcards: corpus_files(
            wildcards.corpus, "articles", "passages", "links"
        ),
        tokenizer=f"{ROOT}/corpora/{{corpus}}/tokenizer.json",
        code=stage_sources("tokens.py"),
    output:
        f"{ROOT}/corpora/{{corpus}}/tokens/meta.json",
    log:
        f"{ROOT}/logs/token_store/{{corpus}}.log",
    benchmark:
        f"{ROOT}/benchmarks/token_store/{{corpus}}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        corpus=lambda wildcards, input: folder_of(input.tables),
        out=subpath(output[0], parent=True),
    message:
        "Tokenising {wildcards.corpus}"
    shell:
        "python workflow_scripts/tokens.py store --corpus {params.corpus} --tokenizer {input.tokenizer}"
        " --out {params.out} --log {log}"


rule pair_statistics:
    input:
        store=f"{ROOT}/corpora/{{corpus}}/tokens/meta.json",
        code=stage_sources("pair_statistics.py"),
    output:
        f"{ROOT}/pairs/{{corpus}}/stats.json",
    log:
        f"{ROOT}/logs/pair_statistics/{{corpus}}.log",
    benchmark:
        f"{ROOT}/benchmarks/pair_statistics/{{corpus}}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        store=subpath(input.store, parent=True),
        keep=PAIR_OPTIONS["ict_keep"],
    message:
        "Counting the pairs of {wildcards.corpus}"
    shell:
        "python workflow_scripts/pair_statistics.py --store {params.store} --ict-keep {params.keep} --out {output}"
        " --log {log}"
