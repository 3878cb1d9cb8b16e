# Raw files → corpus (Parquet) → vocabulary → token store; and the statistics of its pre-training pairs.


rule corpus:
    input:
        raw=lambda wildcards: corpus_raw_files(wildcards.corpus),
        exclude=lambda wildcards: excluded_titles(wildcards.corpus),
        code=lambda wildcards: corpus_sources(wildcards.corpus),
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
    threads: NEEDS["corpus"].threads
    resources:
        **NEEDS["corpus"].resources,
    params:
        out=subpath(output.stats, parent=True),
        parts=lambda wildcards: corpus_arguments(wildcards.corpus),
        exclude=lambda wildcards, input: (
            f"--exclude {shlex.quote(str(input.exclude))}" if input.exclude else ""
        ),
        expect=lambda wildcards: " ".join(
            shlex.quote(f"{name}={count}")
            for name, count in config["corpora"][wildcards.corpus]
            .get("expect", {})
            .items()
        ),
    message:
        "Reading corpus {wildcards.corpus}"
    shell:
        f"python {SCRIPTS}/corpus.py"
        " {params.parts} {params.exclude} --out {params.out}"
        " --expect {params.expect} --log {log}"


rule vocabulary:
    input:
        tables=lambda wildcards: corpus_files(wildcards.corpus, "articles", "passages"),
        given=lambda wildcards: given_vocabulary(wildcards.corpus),
        code=stage_sources("tokens.py"),
    output:
        f"{ROOT}/corpora/{{corpus}}/tokenizer.json",
    log:
        f"{ROOT}/logs/vocabulary/{{corpus}}.log",
    benchmark:
        f"{ROOT}/benchmarks/vocabulary/{{corpus}}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["vocabulary"].threads
    resources:
        **NEEDS["vocabulary"].resources,
    params:
        corpus=lambda wildcards, input: folder_of(input.tables),
        size=lambda wildcards: vocabulary_of(config, wildcards.corpus).size,
        given=lambda wildcards, input: (
            f"--given {shlex.quote(hub.vocabulary_place(str(input.given)))}"
            if input.given
            else ""
        ),
    message:
        "Making the vocabulary of {wildcards.corpus}: {params.size} word pieces at most"
    shell:
        f"python {SCRIPTS}/tokens.py"
        " vocabulary --corpus {params.corpus} --size {params.size} {params.given} --out {output}"
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
    threads: NEEDS["token_store"].threads
    resources:
        **NEEDS["token_store"].resources,
    params:
        corpus=lambda wildcards, input: folder_of(input.tables),
        out=subpath(output[0], parent=True),
    message:
        "Tokenising {wildcards.corpus}"
    shell:
        f"python {SCRIPTS}/tokens.py"
        " store --corpus {params.corpus} --tokenizer {input.tokenizer}"
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
    threads: NEEDS["pair_statistics"].threads
    resources:
        **NEEDS["pair_statistics"].resources,
    params:
        store=subpath(input.store, parent=True),
        keep=PAIR_OPTIONS["ict_keep"],
    message:
        "Counting the pairs of {wildcards.corpus}"
    shell:
        f"python {SCRIPTS}/pair_statistics.py"
        " --store {params.store} --ict-keep {params.keep} --out {output}"
        " --log {log}"


rule overlap:
    input:
        tables=lambda wildcards: corpus_files(wildcards.corpus, "articles", "passages"),
        test=lambda wildcards: [
            f"{paths.task_dir(ROOT, wildcards.dataset)}/{name}.parquet"
            for name in PLAN.overlapping_files(wildcards.dataset)
        ],
        code=stage_sources("overlap.py"),
    output:
        stats=f"{ROOT}/overlap/{{corpus}}/{{dataset}}/stats.json",
        titles=f"{ROOT}/overlap/{{corpus}}/{{dataset}}/titles.txt",
    log:
        f"{ROOT}/logs/overlap/{{corpus}}/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/overlap/{{corpus}}/{{dataset}}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["overlap"].threads
    resources:
        **NEEDS["overlap"].resources,
    params:
        corpus=lambda wildcards, input: folder_of(input.tables),
        test=lambda wildcards, input: folder_of(input.test),
    message:
        "Which articles of {wildcards.corpus} hold test paragraphs of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/overlap.py"
        " --corpus {params.corpus} --test {params.test} --out {output.stats}"
        " --titles {output.titles} --log {log}"
