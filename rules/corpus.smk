# Raw files → corpus (Parquet) → vocabulary → token store; and the statistics of its pre-training pairs.


rule corpus:
    input:
        raw=lambda wildcards: without_dates(DATA.corpus_raw_files(wildcards.corpus)),
        exclude=of(PLAN.excluded, "corpus"),
    output:
        tables=DATA.corpus_files("{corpus}", "articles", "sections", "passages", "links"),
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
        code=of(DATA.corpus_code, "corpus"),
        out=subpath(output.stats, parent=True),
        parts=of(DATA.corpus_arguments, "corpus"),
        exclude=of(DATA.exclude_argument, "corpus"),
        expect=of(DATA.expected_counts, "corpus"),
    message:
        "Reading corpus {wildcards.corpus}"
    shell:
        f"python {SCRIPTS}/corpus.py"
        " {params.parts} {params.exclude} --out {params.out} --expect {params.expect} --log {log}"


rule vocabulary:
    input:
        tables=DATA.corpus_files("{corpus}", "articles", "passages"),
        given=of(PLAN.given_vocabulary, "corpus"),
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
        code=stage_code("tokens.py"),
        corpus=folder_of("tables"),
        size=of(DATA.vocabulary_size, "corpus"),
        given=of(DATA.given_argument, "corpus"),
    message:
        "Making the vocabulary of {wildcards.corpus}: {params.size} word pieces at most"
    shell:
        f"python {SCRIPTS}/tokens.py"
        " vocabulary --corpus {params.corpus} --size {params.size} {params.given} --out {output} --log {log}"


rule token_store:
    input:
        tables=DATA.corpus_files("{corpus}", "articles", "passages", "links"),
        tokenizer=f"{ROOT}/corpora/{{corpus}}/tokenizer.json",
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
        code=stage_code("tokens.py"),
        corpus=folder_of("tables"),
        out=subpath(output[0], parent=True),
    message:
        "Tokenising {wildcards.corpus}"
    shell:
        f"python {SCRIPTS}/tokens.py"
        " store --corpus {params.corpus} --tokenizer {input.tokenizer} --out {params.out} --log {log}"


rule pair_statistics:
    input:
        store=f"{ROOT}/corpora/{{corpus}}/tokens/meta.json",
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
        code=stage_code("pair_statistics.py", *objectives.pair_modules()),
        store=subpath(input.store, parent=True),
        keep=DATA.ict_keep(),
    message:
        "Counting the pairs of {wildcards.corpus}"
    shell:
        f"python {SCRIPTS}/pair_statistics.py"
        " --store {params.store} --ict-keep {params.keep} --out {output} --log {log}"


rule overlap:
    input:
        tables=DATA.corpus_files("{corpus}", "articles", "passages"),
        test=of(PLAN.overlapping_files, "dataset"),
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
        code=stage_code("overlap.py"),
        corpus=folder_of("tables"),
        test=folder_of("test"),
    message:
        "Which articles of {wildcards.corpus} hold test paragraphs of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/overlap.py"
        " --corpus {params.corpus} --test {params.test} --out {output.stats} --titles {output.titles} --log {log}"
